"""The frame of all benchmarks: where data lies, how figures are recorded, and one function for tables.

Run a benchmark from the root of the repository, e.g. `python -m benchmarks.peers.compare`. Nothing here imports Numba
before it is used: benchmarks of networks run on machines that have little more than torch.
"""

from benchmarks.common.record import LAB, ROOT, about, add_out, image, load, save
from benchmarks.common.tables import decimals, markdown_table

__all__ = ["LAB", "ROOT", "about", "add_out", "decimals", "image", "load", "markdown_table", "save"]
