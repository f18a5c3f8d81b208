"""RowAdam against torch's AdamW without momentum, which goes through the whole table in every step."""

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


@pytest.mark.parametrize("kind", ["sparse", "each row twice", "dense"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_it_ends_up_where_a_pass_over_the_whole_table_would(kind, weight_decay, monkeypatch):
    monkeypatch.setattr(row_adam, "_AT_ONCE", 3 * WIDTH)  # several blocks, the last one smaller
    plain, found = table(), table()
    settings = {"lr": 0.05, "eps": 1e-3, "weight_decay": weight_decay}
    twin, rows_only = torch.optim.AdamW([plain], betas=(0.0, 0.999), **settings), RowAdam([found], **settings)
    for step, (rows, gradient) in enumerate(gradients()):
        for optimiser in (twin, rows_only):
            optimiser.param_groups[0]["lr"] = 0.05 * (1 - step / 30)
        plain.grad = gradient
        found.grad = gradient if kind == "dense" else of_rows(rows, gradient, kind == "each row twice")
        twin.step()
        rows_only.step()
    assert (plain[1:] - table()[1:]).abs().min() > 1e-4
    torch.testing.assert_close(found.detach(), plain.detach(), rtol=1e-4, atol=1e-6)


def test_sparse_and_dense_gradients_of_one_table_may_alternate():
    plain, found = table(), table()
    twin, mixed = torch.optim.AdamW([plain], betas=(0.0, 0.999), weight_decay=0, lr=0.05), RowAdam([found], lr=0.05)
    for step, (rows, gradient) in enumerate(gradients()):
        plain.grad, found.grad = gradient, of_rows(rows, gradient) if step % 3 else gradient
        twin.step()
        mixed.step()
    torch.testing.assert_close(found.detach(), plain.detach(), rtol=1e-4, atol=1e-6)


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
