"""Altered copies: what may change, what may not, and a plain twin of the kernels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from longtail.compose import augment
from longtail.compose.augment import Alteration, AlteredTexts, with_altered_copies

RNG = np.random.default_rng(0)
X = sparse.csr_matrix(
    np.where(np.arange(40)[:, None] == 3, 0, RNG.random((40, 300)) * (RNG.random((40, 300)) < 0.2)), dtype=np.float32
)
ROWS = np.array([0, 2, 3, 5, 39])


def row(matrix, i):
    return dict(zip(matrix[i].indices.tolist(), matrix[i].data.tolist(), strict=True))


def plain_copy(values: list[float], row: int, seed: int, keep: float, swaps: float) -> tuple[list[int], list[float]]:
    """The places that stay and their values: splitmix64 and the two alterations, step by step in Python integers."""
    mask = 2**64 - 1
    state = seed ^ ((row + 1) * 0xD6E8FEB86659FD93 & mask)

    def draw() -> float:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        return ((z ^ (z >> 31)) >> 11) / 2**53

    stay = [i for i in range(len(values)) if draw() < keep]
    if values and not stay:
        stay = [int(draw() * len(values))]
    new = [values[i] for i in stay]
    for _ in range(round(swaps * len(stay))):
        a, b = int(draw() * len(stay)), int(draw() * len(stay))
        new[a], new[b] = new[b], new[a]
    before, after = sum(v * v for v in values), sum(v * v for v in new)
    return stay, [v * (before / after) ** 0.5 for v in new]


@pytest.mark.parametrize(("keep", "swaps"), [(0.5, 0.0), (1.0, 0.7), (0.7, 0.3), (0.001, 0.0)])
def test_kernels_and_plain_twin_agree(keep, swaps):
    copies = with_altered_copies(X, ROWS, 2, Alteration(keep, swaps, 11))
    seeds = np.random.SeedSequence(11).generate_state(2, np.uint64)
    place = X.shape[0]
    for seed in seeds:
        for i in ROWS:
            stay, values = plain_copy(X[i].data.tolist(), int(i), int(seed), keep, swaps)
            assert copies[place].indices.tolist() == X[i].indices[stay].tolist()
            np.testing.assert_allclose(copies[place].data, values, rtol=1e-5)
            place += 1
    assert place == copies.shape[0]


def test_the_points_come_first_and_unaltered():
    copies = with_altered_copies(X, ROWS, 3, Alteration(0.5, 0.5, 0))
    assert copies.shape == (40 + 3 * ROWS.size, 300)
    assert (copies[:40] != X).nnz == 0
    assert copies.has_canonical_format
    copies.check_format()


def test_dropout_keeps_about_its_share_and_the_length_of_rows():
    copies = with_altered_copies(X, np.arange(40), 10, Alteration(0.6, 0.0, 0))[40:]
    assert copies.nnz / (10 * X.nnz) == pytest.approx(0.6, abs=0.02)
    lengths = np.sqrt(np.asarray(copies.multiply(copies).sum(axis=1)).ravel())
    np.testing.assert_allclose(lengths, np.tile(np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel()), 10), rtol=1e-5)
    assert set(row(copies, 0)) < set(row(X, 0))
    assert np.diff(copies.indptr).min() == 0, "an empty row stays empty"
    assert (copies[0] != copies[40]).nnz > 0, "every copy is another"


def test_swaps_move_values_between_the_features_of_a_point():
    copy = with_altered_copies(X, np.array([0]), 1, Alteration(1.0, 0.5, 0))[40]
    assert copy.indices.tolist() == X[0].indices.tolist()
    np.testing.assert_allclose(sorted(copy.data), sorted(X[0].data), rtol=1e-6)
    moved = int((~np.isclose(copy.data, X[0].data)).sum())
    assert 0 < moved <= 2 * round(0.5 * X[0].nnz)


def test_copies_without_alteration_are_the_points():
    assert (with_altered_copies(X, np.arange(40), 1, Alteration(1.0, 0.0, 0))[40:] != X).nnz == 0


def in_a_file(array) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def test_large_matrices_lie_in_a_file_and_are_the_same(monkeypatch):
    expected = with_altered_copies(X, ROWS, 2, Alteration(0.5, 0.1, 3))
    monkeypatch.setattr(augment, "_IN_MEMORY", 0)
    mapped = with_altered_copies(X, ROWS, 2, Alteration(0.5, 0.1, 3))
    assert in_a_file(mapped.data)
    assert in_a_file(mapped.indices)
    assert not in_a_file(expected.data)
    assert (mapped != expected).nnz == 0


def test_words_are_dropped_and_swapped_and_copies_are_made_on_demand():
    texts = [" ".join(f"w{i}" for i in range(30)), "", "one", "a b c"]
    lazy = AlteredTexts(texts, np.array([0, 1, 2]), 4, Alteration(0.5, 0.5, 0))
    assert len(lazy) == 4 + 3 * 4
    assert lazy[:4] == texts
    first, second = lazy[4].split(), lazy[7].split()
    assert set(first) < set(texts[0].split())
    assert first != sorted(first, key=lambda word: int(word[1:])), "some words change places"
    assert first != second, "every copy is another"
    assert (lazy[5], lazy[6]) == ("", "one"), "a text keeps at least one word"
    assert list(lazy) == [lazy[i] for i in range(len(lazy))] == lazy.subset(np.arange(len(lazy)))
    kept = [len(lazy[4 + 3 * copy].split()) for copy in range(4)]
    assert 8 <= np.mean(kept) <= 22
    with pytest.raises(IndexError):
        lazy[len(lazy)]
