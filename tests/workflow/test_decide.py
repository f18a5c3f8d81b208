"""What is predicted before a decision is made."""

from __future__ import annotations

import numpy as np

import longtail
from longtail.workflow.decide import TOGETHER, Decision


def test_labels_chosen_together_are_chosen_from_more_than_are_wanted():
    model = longtail.Popularity().fit(np.ones((4, 1)), [[0, 1], [0], [0, 2], [1]])
    assert Decision(optimise="macro-f1").width(model) == TOGETHER
    assert Decision(k=300, optimise="macro-f1").width(model) == 600
