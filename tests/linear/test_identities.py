"""Changes that must leave the model the same, or change it in a known way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from linear.twins import Problem, objective, synthetic, weights_of
from longtail import DiSMEC
from longtail.core.checkpoint import Checkpoint
from longtail.core.progress import Silent
from longtail.core.run import Run
from longtail.errors import OutputError
from longtail.linear.blocks import label_blocks
from longtail.linear.simd import BLOCK
from longtail.linear.solver import BlockSolver

X, Y = synthetic()
COUNTS = np.bincount(Y.indices, minlength=Y.shape[1])
BLOCKS = label_blocks(X, Y)
EVERY_LOSS = pytest.mark.parametrize("loss", ["squared-hinge", "hinge", "logistic"])
PRECISE = {"weight_dtype": "float32", "tol": 1e-4, "prune": 0, "max_passes": 2000}


def assert_same_model(one: DiSMEC, other: DiSMEC) -> None:
    """Bit for bit."""
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(one.weights_, part), getattr(other.weights_, part))
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    np.testing.assert_array_equal(one.gaps_, other.gaps_)


# --- points and labels ------------------------------------------------------------------------------------------------


@EVERY_LOSS
def test_weight_two_is_the_point_twice(loss):
    twice = np.arange(0, X.shape[0], 3)
    weights = np.ones(X.shape[0])
    weights[twice] = 2
    weighted = DiSMEC(loss=loss, **PRECISE).fit(X, Y, sample_weight=weights)
    repeated = DiSMEC(loss=loss, **PRECISE).fit(sparse.vstack([X, X[twice]]), sparse.vstack([Y, Y[twice]]))
    problem = Problem.of(weighted, X, Y, weights)
    seen = COUNTS > 0
    np.testing.assert_allclose(
        problem.primal(weights_of(repeated))[seen], problem.primal(weights_of(weighted))[seen], rtol=2e-4
    )
    plain = objective(DiSMEC(loss=loss, **PRECISE).fit(X, Y), X, Y, weights)
    assert (plain[seen] > problem.primal(weights_of(weighted))[seen] * 1.0005).any(), "the weights do matter"


def test_weighting_every_point_is_another_C():
    weighted = DiSMEC(C=0.5, **PRECISE).fit(X, Y, sample_weight=np.full(X.shape[0], 4.0))
    larger = DiSMEC(C=2.0, **PRECISE).fit(X, Y)
    np.testing.assert_allclose(objective(weighted, X, Y, np.full(X.shape[0], 4.0)), objective(larger, X, Y), rtol=2e-4)


@EVERY_LOSS
def test_a_permutation_of_the_labels_permutes_the_model(loss):
    order = np.random.default_rng(0).permutation(Y.shape[1])
    straight, permuted = DiSMEC(loss=loss, **PRECISE).fit(X, Y), DiSMEC(loss=loss, **PRECISE).fit(X, Y[:, order])
    np.testing.assert_allclose(objective(permuted, X, Y[:, order]), objective(straight, X, Y)[order], rtol=2e-4)
    np.testing.assert_allclose(weights_of(permuted), weights_of(straight)[:, order], atol=0.05)


def test_a_permutation_of_the_points_changes_nothing_of_note():
    order = np.random.default_rng(0).permutation(X.shape[0])
    straight, permuted = DiSMEC(**PRECISE).fit(X, Y), DiSMEC(**PRECISE).fit(X[order], Y[order])
    np.testing.assert_allclose(objective(permuted, X, Y), objective(straight, X, Y), rtol=2e-4)


@EVERY_LOSS
def test_a_label_reaches_the_same_objective_in_any_block(loss):
    """Alone, first or last in a full block, among frequent or among rare labels."""
    options = DiSMEC(loss=loss, bias=1.0, tol=1e-4, prune=0, max_passes=2000).solver_options()
    solver = BlockSolver(X, Y, options)
    problem = Problem.of(DiSMEC(loss=loss, bias=options.bias), X, Y)
    by_count = np.argsort(-COUNTS, kind="stable")
    label = by_count[10]
    others = by_count[by_count != label]
    found = []
    for block in ([label], [label, *others[: BLOCK - 1]], [*others[20:50], label], [others[0], label]):
        trained = solver.train(np.asarray(block))
        lane = block.index(label)
        W = np.zeros((X.shape[1] + 1, Y.shape[1]))
        W[:-1, label], W[-1, label] = trained.weights[[lane]].toarray().ravel(), trained.intercepts[lane]
        found.append(problem.primal(W)[label])
    np.testing.assert_allclose(found, found[0], rtol=2e-4)


# --- threads and seeds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", [None, "pw"])
def test_threads_change_no_bit(weighting):
    assert_same_model(*(DiSMEC(weighting=weighting, n_jobs=n).fit(X, Y) for n in (1, 2)))
    assert_same_model(*(DiSMEC(weighting=weighting, n_jobs=n).fit(X, Y) for n in (1, 5)))


def test_another_seed_takes_another_way_to_the_same_objective():
    one, other = (DiSMEC(random_state=seed, **PRECISE).fit(X, Y) for seed in (0, 1))
    assert (one.intercept_ != other.intercept_).any()
    np.testing.assert_allclose(objective(one, X, Y), objective(other, X, Y), rtol=2e-4)


# --- resuming ---------------------------------------------------------------------------------------------------------


class Interrupted(Silent):
    """Progress that raises KeyboardInterrupt, as Ctrl-C does, once this many blocks are done."""

    def __init__(self, blocks: int) -> None:
        self.left = blocks

    def advance(self, amount: int = 1) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def interrupted_fit(folder: Path, blocks: int, **parameters) -> list[Path]:
    """Interrupt a training after some blocks, and return the files of its finished parts."""
    with pytest.raises(KeyboardInterrupt):
        DiSMEC(n_jobs=1, **parameters).fit(X, Y, run=Run(Interrupted(blocks), Checkpoint(folder, resume=False)))
    return sorted(folder.glob("*.safetensors"))


@pytest.mark.parametrize("keep", [1.0, 0.5, 0.0], ids=["whole", "truncated", "empty"])
@pytest.mark.parametrize("warm_start", [False, True])
def test_a_resumed_training_gives_the_same_model_bit_for_bit(tmp_path, keep, warm_start):
    once = DiSMEC(warm_start=warm_start).fit(X, Y)
    parts = interrupted_fit(tmp_path / "m.partial", 2, warm_start=warm_start)
    assert [part.name for part in parts] == ["block-000000.safetensors", "block-000001.safetensors"]
    content = parts[1].read_bytes()
    parts[1].write_bytes(content[: int(keep * len(content))])
    written = parts[0].stat().st_mtime_ns
    checkpoint = Checkpoint(tmp_path / "m.partial", resume=True)
    resumed = DiSMEC(n_jobs=2, warm_start=warm_start).fit(X, Y, run=Run(checkpoint=checkpoint))
    assert_same_model(resumed, once)
    assert parts[0].stat().st_mtime_ns == written, "a finished part is not trained again"
    assert parts[1].read_bytes() == content, "a part that cannot be read is"
    if warm_start:
        assert (resumed._duals != once._duals).nnz == 0


def test_parts_of_other_blocks_are_trained_again(tmp_path):
    """A part records its labels: if another machine cut the blocks differently, no label gets another one's weights."""
    first, second = interrupted_fit(tmp_path / "m.partial", 2)
    swapped = first.read_bytes(), second.read_bytes()
    second.write_bytes(swapped[0])
    first.write_bytes(swapped[1])
    resumed = DiSMEC().fit(X, Y, run=Run(checkpoint=Checkpoint(tmp_path / "m.partial", resume=True)))
    assert_same_model(resumed, DiSMEC().fit(X, Y))


def test_finished_parts_are_used_and_not_trained_again(tmp_path):
    """A part whose intercepts were changed shows up in the model: it was read."""
    (part,) = interrupted_fit(tmp_path / "m.partial", 1)
    checkpoint = Checkpoint(tmp_path / "m.partial", resume=True)
    arrays = checkpoint.get(part.stem)
    checkpoint.put(part.stem, arrays | {"intercepts": arrays["intercepts"] + np.float32(100)})
    resumed = DiSMEC().fit(X, Y, run=Run(checkpoint=checkpoint))
    np.testing.assert_array_equal(np.flatnonzero(resumed.intercept_ > 50), np.sort(BLOCKS[0]))


@pytest.mark.parametrize("change", [{"C": 2.0}, {"weighting": "pw"}, {"loss": "hinge"}, {"random_state": 1}])
def test_parts_of_another_training_are_refused(tmp_path, change):
    interrupted_fit(tmp_path / "m.partial", 1)
    run = Run(checkpoint=Checkpoint(tmp_path / "m.partial", resume=True))
    with pytest.raises(OutputError, match="other data, parameters or versions"):
        DiSMEC(**change).fit(X, Y, run=run)
    with pytest.raises(OutputError, match="other data"):
        DiSMEC().fit(X, Y, sample_weight=np.full(X.shape[0], 2.0), run=run)
    with pytest.raises(OutputError, match="other data"):
        DiSMEC().fit(X * 2, Y, run=run)


def test_parts_of_a_cold_training_are_refused_by_a_warm_one(tmp_path):
    """Blocks that start from other dual variables end elsewhere: the resumed model would mix the two."""
    parameters = {"warm_start": True}
    interrupted_fit(tmp_path / "m.partial", 1, **parameters)
    warm = DiSMEC(**parameters).fit(X, Y)
    with pytest.raises(OutputError, match="other data"):
        warm.fit(X, Y, run=Run(checkpoint=Checkpoint(tmp_path / "m.partial", resume=True)))


# --- warm starts ------------------------------------------------------------------------------------------------------


@EVERY_LOSS
def test_a_warm_start_on_the_same_problem_needs_one_evaluation(loss):
    solver = BlockSolver(X, Y, DiSMEC(loss=loss, bias=1.0, tol=0.01, warm_start=True, prune=0).solver_options())
    labels = BLOCKS[0]
    cold = solver.train(labels)
    warm = solver.train(labels, duals=cold.duals)
    assert cold.passes[0] >= 2
    assert cold.passes[1] >= 1
    np.testing.assert_array_equal(warm.passes, [1, 0])
    np.testing.assert_allclose(warm.weights.toarray(), cold.weights.toarray(), atol=1e-4)
    np.testing.assert_allclose(warm.gaps, cold.gaps, atol=1e-4)


@EVERY_LOSS
def test_a_warm_path_of_C_reaches_the_objective_of_cold_fits(loss):
    """Up and down again; hinge and logistic dual variables are cut to the smaller C."""
    model = DiSMEC(loss=loss, warm_start=True, **PRECISE)
    for C in (0.1, 1.0, 5.0, 0.3):
        model.set_params(C=C).fit(X, Y)
        cold = DiSMEC(loss=loss, C=C, **PRECISE).fit(X, Y)
        np.testing.assert_allclose(objective(model, X, Y), objective(cold, X, Y), rtol=2e-4)


def test_a_warm_path_of_C_saves_passes():
    labels = BLOCKS[0]
    duals, warm, cold = None, 0, 0
    for C in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        solver = BlockSolver(X, Y, DiSMEC(C=C, bias=1.0, tol=1e-3, warm_start=True).solver_options())
        trained = solver.train(labels, duals=duals)
        duals = trained.duals
        warm, cold = warm + trained.passes.sum(), cold + solver.train(labels).passes.sum()
    assert warm < 0.8 * cold


def test_a_warm_start_from_another_loss_weighting_or_data_reaches_the_right_objective():
    other_X, other_Y = synthetic(seed=5)
    model = DiSMEC(warm_start=True, **PRECISE).fit(other_X, other_Y)
    for change in ({}, {"weighting": "pw"}, {"loss": "logistic"}, {"loss": "hinge", "weighting": None}):
        model.set_params(**change).fit(X, Y)
        cold = DiSMEC(**model.get_params()).fit(X, Y)
        np.testing.assert_allclose(objective(model, X, Y), objective(cold, X, Y), rtol=2e-4)


def test_a_warm_start_on_data_of_another_size_starts_from_zero():
    model = DiSMEC(warm_start=True).fit(X[:300], Y[:300])
    assert_same_model(model.fit(X, Y), DiSMEC().fit(X, Y))
