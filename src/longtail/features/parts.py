"""Features of texts in independent parts, by `Run.map`: one pass for the vocabulary, another for the rows.

A part is a range of texts. Parts of the first pass return how many of their texts have each term, which `Tally` adds up
in bounded memory; counts are whole numbers, so the sums do not depend on how the texts are divided. Parts of the second
pass return rows, which are written one behind the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from longtail.core.engine import Arrays, Work
from longtail.core.run import Run
from longtail.features.counting import strings_in
from longtail.features.joining import stacked

if TYPE_CHECKING:
    from longtail.features.text import TextFeatures

_TEXTS = 2_000  # of a part, at most
_BYTES = 1 << 22  # likewise, unless a single text has more
_MEMORY = 32 * _BYTES  # of a part while it is counted

Shared = tuple["TextFeatures", Sequence[str]]


def learn_in_parts(features: TextFeatures, texts: Sequence[str], run: Run) -> None:
    """Learn the vocabulary and its weights; `features` has empty tables."""
    if all(table.weighting.learns_nothing for table in features.tables_):
        return
    for table in features.tables_:
        table.begin(run.workspace)
    with _mapped(count_part, features, texts, run, "vocabulary") as parts:
        for arrays in parts:
            for kind, table in enumerate(features.tables_):
                prefix = f"{kind}."
                own = {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
                table.absorb(own)
    for table in features.tables_:
        table.choose()
        table.begin()


def transform_in_parts(features: TextFeatures, texts: Sequence[str], run: Run) -> sparse.csr_matrix:
    """Return the rows of all texts, in the workspace of the run."""
    with _mapped(rows_of_part, features, texts, run, "features") as parts:
        blocks = (
            sparse.csr_matrix((found["data"], found["indices"], found["indptr"]), shape=tuple(found["shape"].tolist()))
            for found in parts
        )
        return stacked(blocks, features.n_features_, run.workspace)


def _mapped(
    work: Work, features: TextFeatures, texts: Sequence[str], run: Run, title: str
) -> AbstractContextManager[Iterator[Arrays]]:
    parts = list(ranges(texts))
    return run.map(
        work, parts, shared=(features.in_one_thread(), texts), name=title, title=title,
        sizes=[end - first for first, end in parts], n_jobs=features.n_jobs, memory=_MEMORY, keep=False, whole=True,
    )  # fmt: skip


def ranges(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield first and end of each part: so many texts, or so many bytes (characters, of texts in a list)."""
    ends = getattr(texts, "offsets", None)  # of texts in one buffer, which need not be read
    if ends is None:
        lengths = (len(text) if isinstance(text, str) else 0 for text in texts)
        ends = np.concatenate([[0], np.cumsum(np.fromiter(lengths, np.int64, len(texts)))])
    first = 0
    while first < len(texts):
        filled = int(np.searchsorted(ends, ends[first] + _BYTES, side="right")) - 1
        end = min(first + _TEXTS, max(filled, first + 1), len(texts))
        yield first, end
        first = end


def count_part(shared: Shared, part: tuple[int, int]) -> Arrays:
    """Return the counts of terms in a range of texts."""
    features, strings = _taken(shared, part)
    return features.counted(strings)


def rows_of_part(shared: Shared, part: tuple[int, int]) -> Arrays:
    """Return the features of a range of texts."""
    features, strings = _taken(shared, part)
    (X,) = features.transform_chunks(strings, len(strings))
    return {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.asarray(X.shape)}


def _taken(shared: Shared, part: tuple[int, int]) -> tuple[TextFeatures, list[str]]:
    features, texts = shared
    first, end = part
    return features, next(strings_in(texts[first:end], end - first, first))
