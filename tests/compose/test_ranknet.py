"""RankNet: what it learns that no exponent could, what it keeps, and life without torch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import longtail
from compose.planted_tail import planted_tail
from longtail.compose.candidates import Candidates
from longtail.compose.price import Frontier, _at_precision
from longtail.core.run import Run
from longtail.core.unseen import predict_unseen
from longtail.errors import ParameterError
from longtail.metrics import Matches
from longtail.objectives import PropensityModel

(X, Y), (X_TEST, Y_TEST) = planted_tail(600), planted_tail(300, seed=1)


def scores(model):
    inverse = PropensityModel().inverse(model.label_counts_, model.n_points_)
    return longtail.evaluate(model.predict(X_TEST, k=3), Y_TEST, inverse_propensities=inverse, ks=[1])


def test_it_wins_psp_for_little_precision():
    base = longtail.DiSMEC().fit(X, Y)
    model = longtail.RankNet(base=longtail.DiSMEC(), max_precision_loss=1, epochs=3).fit(X, Y)
    before, after = scores(base), scores(model)
    assert after["PSP@1"] > before["PSP@1"] + 5
    assert after["P@1"] > before["P@1"] - 3


def together_or_apart(n_points, seed):
    """Labels 0 and 1 are told by words. A fifth of the points have one more word: of these, label 2 belongs to points
    with one of the two labels, label 3 to points with both or neither. No linear base can know, but which labels are
    proposed together tells."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(2, size=(n_points, 2))
    marked, one = rng.random(n_points) < 0.2, bits.sum(axis=1) == 1
    labels = np.column_stack([bits, marked & one, marked & ~one]).astype(np.float32)
    words = np.column_stack([bits, 1 - bits, marked, np.ones(n_points)]).astype(np.float32)
    return sparse.csr_matrix(words), sparse.csr_matrix(labels)


def right_of_two(model, X, Y):
    """Of the points with label 2 or 3: how often the right one is ranked before the other."""
    ranked, true = model.predict(X, k=4).to_csr(4).toarray(), Y.toarray()
    marked = true[:, 2:].any(axis=1)
    return float(((ranked[:, 2] > ranked[:, 3]) == (true[:, 2] == 1))[marked].mean())


@pytest.mark.parametrize("blocks", [1, 2])
def test_hidden_units_see_which_labels_are_proposed_together(blocks):
    (X, Y), (X_test, Y_test) = together_or_apart(2000, 0), together_or_apart(300, 1)
    base = longtail.DiSMEC().fit(X, Y)
    model = longtail.RankNet(
        base=longtail.DiSMEC(), blocks=blocks, units=16, epochs=30, patience=30, learning_rate=0.02, batch_size=64,
        dropout=0, shrink=0, max_precision_loss=20,
    ).fit(X, Y)  # fmt: skip
    assert right_of_two(base, X_test, Y_test) < 0.8
    assert right_of_two(model, X_test, Y_test) > 0.95
    assert model.blocks_.bias.shape == (blocks, 4)
    assert model.held_out_psp_["trained"] > model.held_out_psp_["start"]


def test_without_progress_the_start_is_kept():
    model = longtail.RankNet(base=longtail.DiSMEC(), epochs=1, learning_rate=10.0).fit(X, Y)
    assert model.held_out_psp_["trained"] <= model.held_out_psp_["start"]
    assert model.blocks_.bias.shape[0] == 0
    plain = longtail.RankNet(base=longtail.DiSMEC(), blocks=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X_TEST).scores, plain.predict(X_TEST).scores)


def test_without_blocks_it_is_the_closed_form_with_a_chosen_exponent():
    model = longtail.RankNet(base=longtail.DiSMEC(), blocks=0).fit(X, Y)
    closed = longtail.PropensityRerank(base=longtail.DiSMEC(), exponent=model.exponent_).fit(X, Y)
    assert 0 < model.exponent_ <= 1
    np.testing.assert_array_equal(model.predict(X_TEST).labels, closed.predict(X_TEST).labels)


def test_the_exponent_can_be_moved_after_fit_and_the_chosen_one_comes_back(tmp_path):
    model = longtail.RankNet(base=longtail.DiSMEC(), epochs=2, max_precision_loss=5).fit(X, Y)
    chosen = model.predict(X_TEST, k=3).scores
    np.testing.assert_array_equal(model.predict(X_TEST, k=3, exponent=model.exponent_).scores, chosen)
    popularity = [model.label_counts_[model.predict(X_TEST, k=1, exponent=e).labels].mean() for e in (0.0, 0.5, 1.0)]
    assert popularity[0] > popularity[1] > popularity[2]
    model.save(tmp_path / "m")
    moved = longtail.load_model(tmp_path / "m").set_params(exponent=1.0)
    np.testing.assert_array_equal(moved.predict(X_TEST, k=3).scores, model.predict(X_TEST, k=3, exponent=1).scores)
    np.testing.assert_array_equal(moved.set_params(exponent=None).predict(X_TEST, k=3).scores, chosen)
    with pytest.raises(ParameterError, match="exponent"):
        model.predict(X_TEST, exponent=1.5)


def test_no_loss_of_precision_allowed_means_less_of_an_exponent():
    X, Y = together_or_apart(600, 0)  # labels 2 and 3 can only be guessed, which costs precision
    given = {"base": longtail.DiSMEC(), "blocks": 0, "propensity": [1.0, 1.0, 0.1, 0.1]}
    careful, bold = (longtail.RankNet(**given, max_precision_loss=loss).fit(X, Y) for loss in (0, 100))
    assert careful.exponent_ < bold.exponent_ == 1


# --- the frontier -----------------------------------------------------------------------------------------------------


def held_out():
    """Two candidates a point. Label 0 is frequent (1/p = 1), label 1 rare (1/p = e^2), the odds of 0 are better."""
    labels = np.tile(np.array([[0, 1]], np.int32), (100, 1))
    truth = np.zeros((100, 2), np.float32)
    truth[:90, 0] = 1
    truth[:50, 1] = 1
    probability = np.array([0.9, 0.5])
    log_odds = np.tile(np.log(probability / (1 - probability)), (100, 1))
    return Candidates(labels, log_odds, truth.astype(bool), sparse.csr_matrix(truth)), np.array([1.0, np.exp(2.0)])


def test_the_frontier_steps_where_the_rare_label_comes_first():
    held, inverse = held_out()
    frontier = Frontier.below_base(held, inverse, loss=0.5)
    assert frontier.least == pytest.approx(0.4)
    # log 0.9 < log 0.5 + 2 e from e = 0.294: from there all of the rare label's hits count e^2.
    best = (50 * np.exp(2) + 40) / 100
    assert frontier.height(held.log_odds) == pytest.approx(50 * np.exp(2) / 100 / best)
    assert frontier.exponent(held.log_odds) == 1.0
    strict = Frontier.below_base(held, inverse, loss=0.0)
    assert strict.exponent(held.log_odds) == pytest.approx(0.2925), "the last step before P@1 falls"
    assert strict.height(held.log_odds) == pytest.approx(90 / 100 / best)


def test_what_lacks_precision_from_the_start_is_worse_than_anything():
    held, inverse = held_out()
    frontier = Frontier.below_base(held, inverse, loss=0.1)
    assert frontier.height(held.log_odds[:, ::-1]) == pytest.approx(0.5 - 0.8)
    assert frontier.exponent(held.log_odds[:, ::-1]) == 0.0


@pytest.mark.parametrize(
    ("inverse", "spent"),
    [
        (1.05, False),  # re-ranking loses 10 points of precision and some of the gain
        (1.14, False),  # it gains 1.2, less than a quarter of 10
        (1.2, True),  # it gains 5.7
    ],
)
def test_a_price_that_buys_little_is_not_spent(inverse, spent):
    truth = np.repeat([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]], [80, 10, 10], axis=0)
    labels, log_odds = np.tile(np.array([[0, 1]], np.int32), (100, 1)), np.tile([2.2, 2.19], (100, 1))
    held = Candidates(labels, log_odds, truth.astype(bool), sparse.csr_matrix(truth))
    frontier = Frontier.below_base(held, np.array([1.0, inverse]), loss=0.5)
    assert (frontier.exponent(log_odds) > 0.1) == spent


def test_an_exponent_says_how_much_precision_is_to_be_left():
    held, inverse = held_out()
    assert Frontier.at_exponent(held, inverse, 0.29).least == 0.9
    assert Frontier.at_exponent(held, inverse, 0.3).least == 0.5


def test_all_unseen_points_choose_the_exponent_and_blocks_never_raise_it():
    data = together_or_apart(2000, 0)
    given = {"base": longtail.DiSMEC(), "propensity": [1.0, 1.0, 0.1, 0.1], "max_precision_loss": 5}
    plain = longtail.RankNet(**given, blocks=0).fit(*data)
    unseen = predict_unseen(longtail.DiSMEC, *data, plain, k=4, run=Run())
    truth = data[1][unseen.rows]
    found, hits = unseen.predictions, Matches.of(unseen.predictions, truth).hits
    candidates = Candidates(found.labels, plain.calibration_(found.scores, unseen.groups), hits, truth)
    expected = Frontier.below_base(candidates, plain.inverse_propensities_, 0.05).exponent(candidates.log_odds, 0.05)
    assert plain.exponent_ == expected
    learned = longtail.RankNet(**given, units=16, epochs=20, learning_rate=0.02, batch_size=64).fit(*data)
    assert learned.blocks_.bias.shape[0] == 1
    assert learned.exponent_ <= plain.exponent_, "the precision that blocks won is not spent"


def test_between_exponents_lines_are_straight():
    precision, values = np.array([0.9, 0.8, 0.7]), np.array([1.0, 2.0, 4.0])
    assert _at_precision(precision, values, 0.75) == pytest.approx(3.0)
    assert _at_precision(precision, values, 0.5) == 4.0
    assert _at_precision(precision, values, 0.95) == 1.0


# --- with and without torch ----------------------------------------------------------------------------------------

WITHOUT_TORCH = """
import sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'")
sys.meta_path.insert(0, NotInstalled())
import numpy as np
import longtail
from longtail.errors import MissingExtraError
X = np.load("X.npy")
np.save("scores.npy", longtail.load_model("model").predict(X, k=3).scores)
Y = np.random.default_rng(0).random((X.shape[0], 4)) < 0.5
try:
    longtail.RankNet().fit(X, Y)
except MissingExtraError as error:
    assert "longtail[deep]" in str(error)
else:
    raise AssertionError("training a network without torch")
longtail.RankNet(blocks=0).fit(X, Y)
"""


def test_prediction_needs_no_torch_and_training_says_what_it_needs(tmp_path):
    model = longtail.RankNet(base=longtail.DiSMEC(), epochs=2, max_precision_loss=5).fit(X, Y)
    model.save(tmp_path / "model")
    np.save(tmp_path / "X.npy", X_TEST.toarray())
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), model.predict(X_TEST, k=3).scores)


@pytest.mark.parametrize(
    "arguments",
    [
        {"blocks": -1}, {"units": 0}, {"epochs": 0}, {"patience": 0}, {"batch_size": 0}, {"negatives": 0},
        {"learning_rate": 0}, {"balance": -1}, {"margin": -1}, {"anchor": -1}, {"shrink": -1}, {"dropout": 1},
        {"max_precision_loss": -1}, {"candidates": 0}, {"exponent": 2},
    ],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused(arguments):
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        longtail.RankNet(**arguments).fit(X, Y)
