"""Search spaces: they hold the defaults, and every value in them can be used."""

from __future__ import annotations

import pytest

from longtail.core.registry import estimator_class
from longtail.errors import ParameterError
from longtail.tune.candidate import Candidate
from longtail.tune.space import SPACES, UNIT_ROWS, Choice, defaults, space_of


@pytest.mark.parametrize("name", SPACES)
def test_ranges_hold_the_defaults_and_their_ends_are_valid(name):
    space = space_of(name, text=False)
    for key, value in defaults(name, space).items():
        values = space[key]
        assert value in values.values if isinstance(values, Choice) else values.low <= value <= values.high
    for end in (0, -1):
        chosen = {
            key: values.values[end] if isinstance(values, Choice) else (values.low, values.high)[end]
            for key, values in space.items()
        }
        Candidate(name, chosen).estimator().check_parameters()


def test_a_wrapper_is_searched_through_its_base():
    assert set(space_of("ranknet/bonsai", text=True)) == {f"base.{key}" for key in SPACES["bonsai"]}
    assert UNIT_ROWS in space_of("propensityrerank", text=False)
    assert defaults("ranknet/dismec", space_of("ranknet/dismec", text=True))["base.C"] == estimator_class("dismec")().C


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("dismek", 'unknown model "dismek"; did you mean "dismec"'),
        ("popularity", "there is no search space for popularity"),
        ("ensemble/dismec", "ensemble cannot be tuned as a whole"),
        ("dismec/bonsai", "dismec wraps no other model"),
    ],
)
def test_models_that_cannot_be_searched_are_refused(model, message):
    with pytest.raises(ParameterError, match=message):
        space_of(model, text=True)
