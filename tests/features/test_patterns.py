from __future__ import annotations

import pytest

from longtail.errors import ParameterError
from longtail.features.patterns import may_explode
from longtail.features.text import TextFeatures

HARMLESS = [
    r"(?u)\b[^\W_][\w\-]*\b", r"(?u)\b\w\w+\b", r"\w+(?:[-']\w+)*", r"(?:\d+,)*\d+", r"(?:ab)+", r"(?:\w{2}){3,}",
    r"(?i)\w+(?:-\w+)*", r"\S+|\s+", r"(\w|\d)*x", r"\w{1,5}", r"(?<!\w)\w+",
]  # fmt: skip
EXPLOSIVE = [
    r"(\w+)+x", r"(a|a)*b", r"(a|ab)*c", r"(?:\w+\s?)+", r"(.*)*", r"(\w)\1", r"(?:\w?){30}x", r"(?:\w{1,2})+x",
    r"(?:(?:a*)*)*", r"(?:k\w+)*", r"(?i)(?:K[k-m]+)*", r"(?=(\w+)+x)\w",
]  # fmt: skip


@pytest.mark.parametrize("pattern", HARMLESS)
def test_harmless_patterns_are_taken(pattern):
    assert not may_explode(pattern)


@pytest.mark.parametrize("pattern", EXPLOSIVE)
def test_patterns_that_may_take_exponential_time_are_refused(pattern):
    assert may_explode(pattern)


def test_the_message_names_the_parameter():
    with pytest.raises(ParameterError, match=r"token_pattern .* may take exponential time"):
        TextFeatures(token_pattern=r"(\w+)+x").check_parameters()
