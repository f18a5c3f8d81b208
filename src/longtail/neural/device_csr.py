"""A sparse matrix that is on the device as a whole, so that a training step needs only row numbers from the host."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse

Tensor = torch.Tensor


class Rows(NamedTuple):
    """Some rows of a sparse matrix: `columns` (nnz,), `values` (nnz,), and the start of each row, `offsets` (n,)."""

    columns: Tensor
    values: Tensor
    offsets: Tensor

    @property
    def lengths(self) -> Tensor:
        """Stored entries per row, (n,)."""
        end = self.offsets.new_tensor([self.columns.shape[0]])
        return torch.diff(self.offsets, append=end)

    @property
    def row_of_each(self) -> Tensor:
        """Position of each stored entry's row among these rows, (nnz,) int64."""
        n = self.offsets.shape[0]
        rows = torch.arange(n, device=self.offsets.device)
        return torch.repeat_interleave(rows, self.lengths, output_size=self.columns.shape[0])


class DeviceCsr:
    """CSR matrix with int32 column indices, on any device."""

    def __init__(self, matrix: sparse.csr_matrix, device: torch.device | str) -> None:
        self.shape = matrix.shape
        self.indptr = torch.from_numpy(matrix.indptr.astype(np.int64)).to(device)
        self.columns = torch.from_numpy(matrix.indices.astype(np.int32)).to(device)
        self.values = torch.from_numpy(matrix.data.astype(np.float32)).to(device)

    def rows(self, numbers: Tensor) -> Rows:
        """Return the rows with these numbers, in this order."""
        starts = self.indptr[numbers]
        lengths = self.indptr[numbers + 1] - starts
        ends = torch.cumsum(lengths, 0)
        offsets = ends - lengths
        total = int(ends[-1]) if numbers.numel() else 0
        entries = torch.arange(total, device=self.indptr.device)
        entries += torch.repeat_interleave(starts - offsets, lengths, output_size=total)
        return Rows(self.columns[entries], self.values[entries], offsets.to(torch.int32))
