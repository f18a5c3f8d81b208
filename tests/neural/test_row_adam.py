"""RowAdam against torch's AdamW, which goes through the whole table in every step, and against a plain twin."""

from __future__ import annotations

import pytest
import torch

import longtail.neural.row_adam as row_adam
from longtail.neural.row_adam import RowAdam

ROWS, WIDTH = 40, 3


def gradients(steps=30):
    """Dense gradients in which some rows are not 0; one row has a single gradient, early, and one has none."""
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        rows = torch.randperm(ROWS - 2, generator=generator)[:7] + 2
        gradient = torch.zeros(ROWS, WIDTH)
        gradient[rows] = torch.randn(7, WIDTH, generator=generator)
        if step == 3:
            gradient[1] = 0.01
        yield rows if step != 3 else torch.cat([rows, torch.tensor([1])]), gradient


def table():
    return torch.nn.Parameter(torch.linspace(-1, 1, ROWS * WIDTH).reshape(ROWS, WIDTH).clone())


def of_rows(rows, gradient, twice=False):
    """Return the sparse gradient, in any order of its rows, or with each row in two halves."""
    rows, values = (torch.cat([rows, rows]), 0.5) if twice else (rows, 1.0)
    return torch.sparse_coo_tensor(rows[None], values * gradient[rows], gradient.shape, check_invariants=True)


class PlainTwin:
    """Go through the whole table in every step, keep what rows without a gradient would move, and move them later."""

    def __init__(self, weights, lr, eps, weight_decay, betas):
        self.w, self.lr, self.eps, self.weight_decay, self.betas = weights, lr, eps, weight_decay, betas
        self.m, self.v, self.waiting = (torch.zeros_like(weights) for _ in range(3))
        self.t = 0

    @torch.no_grad()
    def step(self, rows, gradient):
        self.t += 1
        beta1, beta2 = self.betas
        self.m = beta1 * self.m + (1 - beta1) * gradient
        self.v = beta2 * self.v + (1 - beta2) * gradient**2
        self.waiting += self.m
        self.w *= 1 - self.lr * self.weight_decay
        root = (self.v / (1 - beta2**self.t)).sqrt() + self.eps
        self.w[rows] -= self.lr / (1 - beta1**self.t) * (self.waiting / root)[rows]
        self.waiting[rows] = 0


SETTINGS = {"lr": 0.05, "eps": 1e-3, "weight_decay": 0.0}


@pytest.mark.parametrize("kind", ["sparse", "each row twice", "with rows of 0", "dense"])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.9)])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_a_row_makes_up_for_the_steps_in_which_it_waited(kind, betas, weight_decay, monkeypatch):
    monkeypatch.setattr(row_adam, "_AT_ONCE", 3 * WIDTH)  # several blocks, the last one smaller
    settings = SETTINGS | {"weight_decay": weight_decay, "betas": betas}
    twin, found = PlainTwin(table().detach(), **settings), table()
    optimiser = RowAdam([found], **settings)
    for step, (rows, gradient) in enumerate(gradients()):
        twin.lr = optimiser.param_groups[0]["lr"] = 0.05 * (1 - step / 30)
        if kind == "dense":
            found.grad = gradient
        else:
            found.grad = of_rows(torch.arange(ROWS) if "0" in kind else rows, gradient, kind == "each row twice")
        twin.step(rows, gradient)
        optimiser.step()
    assert (twin.w[1:] - table()[1:]).abs().min() > 1e-4
    torch.testing.assert_close(found.detach(), twin.w, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_with_a_gradient_in_every_row_it_is_adam(sparse, weight_decay):
    settings = SETTINGS | {"weight_decay": weight_decay}
    plain, found = table(), table()
    twin, optimiser = torch.optim.AdamW([plain], **settings), RowAdam([found], **settings)
    for rows, gradient in gradients():
        gradient = gradient + 0.1 * rows[0]
        plain.grad, found.grad = gradient, of_rows(torch.arange(ROWS), gradient) if sparse else gradient
        twin.step()
        optimiser.step()
    torch.testing.assert_close(found.detach(), plain.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["sparse", "dense", "in turn"])
def test_without_momentum_it_is_adam_whatever_the_rows(kind):
    plain, found = table(), table()
    settings = SETTINGS | {"betas": (0.0, 0.999)}
    twin, optimiser = torch.optim.AdamW([plain], **settings), RowAdam([found], **settings)
    for step, (rows, gradient) in enumerate(gradients()):
        as_rows = kind == "sparse" or (kind == "in turn" and step % 3)
        plain.grad, found.grad = gradient, of_rows(rows, gradient) if as_rows else gradient
        twin.step()
        optimiser.step()
    torch.testing.assert_close(found.detach(), plain.detach(), rtol=1e-4, atol=1e-6)


def test_with_momentum_it_stays_close_to_adam_and_closer_than_sparse_adam():
    """All rows have a gradient in the last step, so that none waits at the end."""
    ends = []
    for make in (torch.optim.Adam, RowAdam, torch.optim.SparseAdam):
        found = table()
        optimiser = make([found], lr=0.05)
        for rows, gradient in [*gradients(200), (torch.arange(ROWS), torch.full((ROWS, WIDTH), 1e-3))]:
            gradient = gradient + 0.5 * (gradient != 0)
            found.grad = gradient if make is torch.optim.Adam else of_rows(rows, gradient)
            optimiser.step()
        ends.append(found.detach())
    plain, ours, lazy = ends
    moved = (plain - table()).norm()
    assert (ours - plain).norm() < 0.05 * moved
    assert (lazy - plain).norm() > 0.2 * moved


def test_rows_that_are_drawn_learn_as_fast_as_with_all_their_gradients():
    """A gradient every fourth step that is four times as large, as it is when a quarter of the labels is drawn."""
    moved = []
    for sampled, every in ((False, 1), (True, 1), (True, 4), (False, 4)):
        found = torch.nn.Parameter(torch.zeros(1, WIDTH))
        optimiser = RowAdam([found], lr=0.01, sampled=sampled)
        for step in range(1, 401):
            rows = torch.arange(1 if step % every == 0 else 0)
            found.grad = of_rows(rows, torch.full((1, WIDTH), float(every)))
            optimiser.step()
        moved.append(float(found.detach().mean()))
    all_rows, drawn_always, drawn, as_it_was = moved
    assert drawn_always == pytest.approx(all_rows, rel=1e-5)
    assert drawn == pytest.approx(all_rows, rel=0.05)
    assert as_it_was == pytest.approx(all_rows / 2, rel=0.05)


def test_only_rows_with_a_gradient_are_touched():
    found = table()
    optimiser = RowAdam([found], lr=0.05)
    for rows, gradient in gradients(5):
        before = found.detach().clone()
        found.grad = of_rows(rows, gradient)
        optimiser.step()
        others = torch.ones(ROWS, dtype=torch.bool).index_fill(0, rows, False)
        assert torch.equal(found[others], before[others])
        state = optimiser.state[found]
        assert (state["updated"] == state["steps"]).sum() == rows.shape[0]


def test_a_restored_state_goes_on_as_if_it_had_not_been_interrupted():
    whole, first = table(), table()
    one, other = RowAdam([whole], lr=0.05), RowAdam([first], lr=0.05)
    for step, (rows, gradient) in enumerate(gradients()):
        if step == 10:
            resumed = torch.nn.Parameter(first.detach().clone())
            kept, first = other.state_dict(), resumed
            other = RowAdam([first], lr=0.05)
            other.load_state_dict(kept)
        whole.grad, first.grad = of_rows(rows, gradient), of_rows(rows, gradient)
        one.step()
        other.step()
    assert torch.equal(whole, first)


def test_an_empty_gradient_changes_nothing():
    found = table()
    found.grad = of_rows(torch.zeros(0, dtype=torch.int64), torch.zeros(ROWS, WIDTH))
    RowAdam([found], lr=0.05).step()
    assert torch.equal(found, table())
