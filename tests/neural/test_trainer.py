"""The training loop on a network with a known answer: what it learns, how it resumes, and its errors and warnings."""

from __future__ import annotations

import dataclasses
import logging
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from longtail.core.checkpoint import Checkpoint
from longtail.core.run import Run
from longtail.errors import ParameterError, TrainingError
from longtail.neural.batches import ShuffledRows
from longtail.neural.placement import place
from longtail.neural.plan import TrainingPlan, learning_rate_factor
from longtail.neural.trainer import train
from neural.toy import N, Toy, ToyBatches, loss_of, weights

PLAN = TrainingPlan(epochs=6, learning_rate=0.05, device="cpu", n_jobs=1, checkpoint_seconds=0)


def plan(**changes) -> TrainingPlan:
    return dataclasses.replace(PLAN, **changes)


def assert_same_weights(one, other, **tolerance):
    for name, value in weights(one).items():
        np.testing.assert_allclose(value, weights(other)[name], **(tolerance or {"rtol": 0, "atol": 0}))


# --- learning --------------------------------------------------------------------------------------------------------


def test_the_planted_weights_are_found():
    module = Toy()
    history = train(module, ToyBatches(), plan(epochs=80))
    np.testing.assert_allclose(weights(module)["linear.weight"][0], [1, -2, 0.5, 3], atol=0.01)
    assert loss_of(module) < 1e-3
    losses = [epoch["loss"] for epoch in history.epochs]
    assert len(losses) == 80
    assert losses[-1] < 0.01 * losses[0]
    assert history.best_epoch == 79
    assert not module.training


def test_one_step_is_adams_with_each_groups_own_learning_rate():
    """Adam's first step moves every weight by its learning rate against the sign of its gradient."""
    module = Toy()
    before = weights(module)
    train(module, ToyBatches(batch_size=N), plan(epochs=1))
    after = weights(module)
    np.testing.assert_allclose(np.abs(after["linear.weight"] - before["linear.weight"]), 0.05, rtol=1e-4)
    np.testing.assert_allclose(np.abs(after["word.weight"] - before["word.weight"]), 0.1, rtol=1e-4)


def test_with_a_large_epsilon_a_small_gradient_moves_less():
    """Adam's first step is `lr g / (|g| + epsilon)`; far above the gradients it is a step of plain descent."""
    module, gradients = Toy(), Toy()
    before = weights(module)
    batch = next(iter(ToyBatches(batch_size=N).epoch(0)))
    gradients.training_step(batch).backward()
    train(module, ToyBatches(batch_size=N), plan(epochs=1, epsilon=100.0))
    gradient = gradients.linear.weight.grad.numpy()
    expected = 0.05 * gradient / (np.abs(gradient) + 100)
    np.testing.assert_allclose(before["linear.weight"] - weights(module)["linear.weight"], expected, rtol=1e-2)


def test_batches_that_are_accumulated_are_one_large_batch():
    whole, parts = Toy(), Toy()
    train(whole, ToyBatches(batch_size=32), plan())
    train(parts, ToyBatches(batch_size=16), plan(accumulate=2))
    assert_same_weights(whole, parts, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_gradients_are_clipped_together(sparse):
    from longtail.neural.optimisers import Optimisers

    module = Toy(sparse=sparse)
    optimisers = Optimisers(module, plan())
    module.training_step(next(iter(ToyBatches().epoch(0)))).backward()
    dense = [p.grad.to_dense().clone() for p in module.parameters()]
    norm = torch.cat([g.ravel() for g in dense]).norm()
    assert norm > 1
    torch.testing.assert_close(optimisers.clip_gradients(0.5), norm)
    for parameter, gradient in zip(module.parameters(), dense, strict=True):
        torch.testing.assert_close(parameter.grad.to_dense(), gradient * 0.5 / norm)
    unchanged = [p.grad.to_dense().clone() for p in module.parameters()]
    optimisers.clip_gradients(3.0)
    for parameter, gradient in zip(module.parameters(), unchanged, strict=True):
        torch.testing.assert_close(parameter.grad.to_dense(), gradient)


def test_sparse_gradients_learn_what_dense_ones_do():
    module = Toy(sparse=True)
    train(module, ToyBatches(), plan(epochs=80, clip=5.0))
    assert loss_of(module) < 1e-3


def test_bf16_trains_too_and_keeps_float32_weights():
    module = Toy()
    train(module, ToyBatches(), plan(epochs=60, precision="bf16"))
    assert loss_of(module) < 0.02
    assert module.linear.weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1 / 3, 2 / 3, 1, 1, 1, 1]),
        ("linear", [1 / 3, 2 / 3, 1, 0.75, 0.5, 0.25]),
        ("cosine", [1 / 3, 2 / 3, 1, (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2]),
    ],
)
def test_the_learning_rate_rises_and_falls(schedule, expected):
    shape = plan(schedule=schedule, warmup=1 / 3)
    np.testing.assert_allclose([learning_rate_factor(shape, step, 6) for step in range(6)], expected)


def test_the_schedule_reaches_the_optimiser():
    """With the learning rate at zero in the end, the last steps hardly move anything."""
    moved = []

    def measure(module):
        moved.append(module.linear.weight.detach().clone())
        return {}

    train(Toy(), ToyBatches(), plan(epochs=10, schedule="linear"), validate=measure)
    steps = [float((b - a).abs().sum()) for a, b in pairwise(moved)]
    assert steps[-1] < 0.3 * steps[0]


# --- the best epoch, and averages ------------------------------------------------------------------------------------


def test_training_ends_without_improvement_and_keeps_the_best_weights():
    values = iter([1.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    seen = []

    def validate(module):
        assert not module.training
        assert not torch.is_grad_enabled()
        seen.append(weights(module))
        return {"P@1": next(values)}

    module = Toy()
    history = train(module, ToyBatches(), plan(metric="P@1", patience=2), validate=validate)
    assert [epoch["P@1"] for epoch in history.epochs] == [1.0, 5.0, 4.0, 3.0]
    assert history.best_epoch == 1
    np.testing.assert_array_equal(weights(module)["linear.weight"], seen[1]["linear.weight"])


def test_the_average_is_the_mean_of_the_weights_at_the_ends_of_the_last_epochs():
    averaged, validated, plain = Toy(), [], []
    train(averaged, ToyBatches(), plan(average_from=0.5), validate=lambda m: validated.append(weights(m)) or {})
    train(Toy(), ToyBatches(), plan(), validate=lambda m: plain.append(weights(m)) or {})
    expected = np.mean([w["linear.weight"] for w in plain[3:]], axis=0)
    np.testing.assert_allclose(weights(averaged)["linear.weight"], expected, rtol=1e-5)
    np.testing.assert_array_equal(validated[2]["linear.weight"], plain[2]["linear.weight"])
    two = np.mean([w["linear.weight"] for w in plain[3:5]], axis=0)
    np.testing.assert_allclose(validated[4]["linear.weight"], two, rtol=1e-5)


# --- the same result, whatever happens in between --------------------------------------------------------------------


def checkpoint(folder: Path, resume: bool) -> Run:
    made = Checkpoint(folder, resume=resume)
    made.open({"model": "toy"})
    return Run(checkpoint=made)


@pytest.mark.parametrize("stop_at", [(0, 1), (2, 0), (2, 3), (5, 2)])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_training_that_was_interrupted_ends_as_if_it_had_not_been(tmp_path, stop_at, sparse):
    everything = plan(
        accumulate=2, clip=1.0, warmup=0.2, schedule="cosine", metric="loss", patience=5, average_from=0.4
    )

    def validate(module):
        return {"loss": -loss_of(module)}

    batch_size = 8  # eight batches, hence four steps per epoch
    uninterrupted = Toy(dropout=0.3, sparse=sparse)
    expected = train(uninterrupted, ToyBatches(batch_size), everything, validate=validate)
    first = Toy(dropout=0.3, sparse=sparse)
    with pytest.raises(KeyboardInterrupt):
        train(
            first, ToyBatches(batch_size, (stop_at[0], 2 * stop_at[1])), everything, validate=validate,
            run=checkpoint(tmp_path / "p", resume=False),
        )  # fmt: skip
    resumed = Toy(dropout=0.3, sparse=sparse)
    history = train(
        resumed, ToyBatches(batch_size), everything, validate=validate, run=checkpoint(tmp_path / "p", resume=True)
    )
    steps_before = 4 * stop_at[0] + stop_at[1]
    assert len(resumed.seen) == 2 * (24 - steps_before)
    assert_same_weights(resumed, uninterrupted)
    assert history.best_epoch == expected.best_epoch
    for one, other in zip(history.epochs, expected.epochs, strict=True):
        assert {k: v for k, v in one.items() if k != "seconds"} == {k: v for k, v in other.items() if k != "seconds"}


def test_validation_and_checkpoints_change_nothing(tmp_path):
    plain, watched = Toy(dropout=0.3), Toy(dropout=0.3)
    train(plain, ToyBatches(), plan())
    train(
        watched, ToyBatches(), plan(), validate=lambda m: {"x": float(torch.rand(()))},
        run=checkpoint(tmp_path / "p", resume=False),
    )  # fmt: skip
    assert_same_weights(plain, watched)


def test_the_callers_random_state_and_threads_are_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    threads = torch.get_num_threads()
    train(Toy(dropout=0.5), ToyBatches(), plan(n_jobs=threads + 1))
    torch.testing.assert_close(torch.rand(2), expected)
    assert torch.get_num_threads() == threads


# --- errors and warnings ---------------------------------------------------------------------------------------------


class Breaks(Toy):
    """Its loss is NaN from the 7th batch on."""

    def training_step(self, batch):
        loss = super().training_step(batch)
        return loss * float("nan") if len(self.seen) >= 7 else loss


def test_a_loss_that_is_not_finite_names_the_step_and_keeps_the_last_good_checkpoint(tmp_path):
    run = checkpoint(tmp_path / "p", resume=False)
    with pytest.raises(TrainingError, match=r"step 3 of epoch 2 \(step 7 of the training\).*kept in .*p; a smaller"):
        train(Breaks(), ToyBatches(), plan(), run=run)
    kept = run.checkpoint.get("training")
    assert all(np.isfinite(array).all() for name, array in kept.items() if name.startswith("model/"))
    after_six = Toy()
    with pytest.raises(KeyboardInterrupt):
        train(after_six, ToyBatches(stop_at=(1, 2)), plan())
    np.testing.assert_array_equal(kept["model/linear.weight"], weights(after_six)["linear.weight"])


def test_without_a_checkpoint_the_message_mentions_none():
    with pytest.raises(TrainingError, match="step 7 of the training\\); a smaller"):
        train(Breaks(), ToyBatches(), plan())


class Greedy(Toy):
    """Allocates more memory than any machine has, for batches of more than `most` points."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def training_step(self, batch):
        if len(batch["y"]) > self.most:
            torch.empty(2**50, dtype=torch.uint8)
        return super().training_step(batch)


def test_out_of_memory_splits_the_batch_with_a_warning(caplog):
    module, roomy = Greedy(most=5), Toy()
    with caplog.at_level(logging.WARNING, "longtail"):
        history = train(module, ToyBatches(), plan())
    assert history.parts == 4
    assert max(module.seen) <= 5
    assert [r.getMessage() for r in caplog.records] == [
        "out of memory on cpu: batches of 16 points are now computed in 2 parts whose gradients are added up; "
        "a smaller batch_size would be faster",
        "out of memory on cpu: batches of 16 points are now computed in 4 parts whose gradients are added up; "
        "a smaller batch_size would be faster",
    ]
    train(roomy, ToyBatches(), plan())
    assert_same_weights(module, roomy, rtol=1e-4, atol=1e-5)


def test_too_little_memory_for_a_single_point_is_an_error():
    with pytest.raises(TrainingError, match="single point does not fit into the memory of cpu"):
        train(Greedy(most=0), ToyBatches(), plan())


def test_other_errors_of_a_step_are_not_taken_for_out_of_memory():
    class Wrong(Toy):
        def training_step(self, batch):
            return batch["x"] @ batch["y"]

    with pytest.raises(RuntimeError, match=r"size|shape|mat"):
        train(Wrong(), ToyBatches(), plan())


def test_a_gpu_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ParameterError, match="device is 'cuda', but there is no GPU here"):
        place("cuda")
    assert place("auto").device.type == "cpu"
    assert place("auto").precision == "float32"


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0}, {"learning_rate": 0.0}, {"clip": -1.0}, {"warmup": 1.0}, {"schedule": "staircase"},
        {"precision": "fp8"}, {"device": "tpu"}, {"average_from": 1.5}, {"patience": 0}, {"accumulate": 1.5},
        {"random_state": -1}, {"epsilon": 0.0}, {"random_state": 2**63}, {"batch_size": True}, {"n_jobs": 0},
    ],
)  # fmt: skip
def test_plans_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        train(Toy(), ToyBatches(), plan(**wrong))


def test_a_metric_that_is_not_measured_is_refused():
    with pytest.raises(ParameterError, match="metric is 'P@1', but there is nothing to validate on; set metric=None"):
        train(Toy(), ToyBatches(), plan(metric="P@1"))
    with pytest.raises(ParameterError, match="metric is 'P@1', but validation measured only R@1"):
        train(Toy(), ToyBatches(), plan(metric="P@1"), validate=lambda module: {"R@1": 1.0})


class Recorder:
    def __init__(self) -> None:
        self.total, self.done, self.notes, self.finished = 0, 0, [], False

    def start(self, task, total):
        self.total = total

    def advance(self, amount=1):
        self.done += amount

    def note(self, text):
        self.notes.append(text)

    def finish(self):
        self.finished = True


def test_progress_counts_steps_and_shows_loss_and_metrics():
    recorder = Recorder()
    train(Toy(), ToyBatches(), plan(epochs=2), validate=lambda module: {"P@1": 90.0}, run=Run(progress=recorder))
    assert (recorder.total, recorder.done, recorder.finished) == (8, 8, True)
    assert recorder.notes[-1].startswith("epoch 2, loss ")
    assert recorder.notes[-1].endswith(", P@1 90")


class BrokenGradient(nn.Module):
    """Its loss is always finite, its gradient is not in the third step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.step = nn.Parameter(torch.ones(3)), 0

    def training_step(self, batch):
        self.step += 1
        broken = (self.weight - self.weight.detach()).square().sum().sqrt() if self.step == 3 else 0.0
        return self.weight.square().sum() + broken


@pytest.mark.parametrize("n_steps", [3, 5])
def test_a_gradient_that_is_not_finite_never_reaches_a_checkpoint_or_the_end(tmp_path, n_steps):
    checkpoint = Checkpoint(tmp_path / "c", resume=False)
    checkpoint.open({"job": 1})
    plan = TrainingPlan(epochs=1, device="cpu", clip=None, checkpoint_seconds=0)
    with pytest.raises(TrainingError, match="last good checkpoint"):
        train(BrokenGradient(), ShuffledRows(10 * n_steps, 10, seed=0), plan, run=Run(checkpoint=checkpoint))
    assert np.isfinite(checkpoint.get("training")["model/weight"]).all()
