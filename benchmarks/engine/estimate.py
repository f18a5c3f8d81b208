"""What a training of DiSMEC would take on a cluster: from measured costs of single blocks and from sizes.

The cost of a block of 32 frequent labels grows with the number of feature values, since it passes over all points; that
of a group of rare labels with the number of points, which its search looks at. What all parts share goes once to each
node; what they learned comes back to the driver over one connection. Nothing else is taken into account: no waiting for
the last blocks, no lost nodes.
"""

from __future__ import annotations

import pickle
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse

from longtail import DiSMEC
from longtail.core.workspace import Workspace
from longtail.engine.transport import pack
from longtail.linear.dismec import PointsWithWeights
from longtail.linear.groups import train_group
from longtail.linear.rare import GROUP, identical_labels, rare_labels
from longtail.linear.simd import BLOCK
from longtail.objectives import resolve_weighting

SAMPLED = 6  # blocks and groups that are timed, evenly from all
NETWORK = 1.25e9  # bytes per second of a connection of 10 Gbit/s


@dataclass(frozen=True)
class Size:
    """Size of a training set, of a cluster, and what is assumed of both."""

    name: str
    points: int
    labels: int
    values_per_point: float
    frequent: float  # share of the labels that have more than 15 points
    nodes: int
    cores: int


# Points and labels are those of the XC repository; values per point and the share of frequent labels are assumed.
AMAZON_3M = Size("Amazon-3M", 1_717_899, 2_812_281, 50, 0.25, 32, 16)


def block_costs(X: sparse.csr_matrix, Y: sparse.csr_matrix) -> dict[str, Any]:
    """Time some blocks and groups of labels on one core; return their means, and the bytes that are sent."""
    model = DiSMEC()
    model.label_counts_ = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int64)
    model.n_points_ = X.shape[0]
    own, _ = resolve_weighting(None).coefficients(model.label_counts_, X.shape[0])
    rare, same_as = rare_labels(Y, model.loss), identical_labels(Y, own)
    solvers, groups = model._groups(PointsWithWeights(X, Y, None, None), own, rare, same_as, Workspace())
    sent: list[int] = []
    pack(solvers, lambda array: sent.append(array.nbytes), pickle._Pickler)  # type: ignore[arg-type]
    found: dict[str, Any] = {"points": X.shape[0], "values": int(X.nnz), "shared_mb": sum(sent) / 1e6}
    for kind, name in enumerate(("frequent", "rare")):
        chosen = [group for group in groups if group.solver == kind]
        seconds, n_bytes, n_labels = [], 0, 0
        for place in np.unique(np.linspace(0, len(chosen) - 1, SAMPLED).astype(int)) if chosen else ():
            started = time.process_time()
            arrays = train_group(solvers, chosen[place])
            seconds.append(time.process_time() - started)
            n_bytes += sum(array.nbytes for array in arrays.values())
            n_labels += chosen[place].labels.size
        found[name] = {
            "parts": len(chosen), "cpu_s": float(np.mean(seconds or [0.0])), "slowest_s": max(seconds, default=0.0),
            "bytes_per_label": n_bytes / max(n_labels, 1),
        }  # fmt: skip
    return found


def estimate(costs: dict[str, Any], size: Size) -> dict[str, Any]:
    """Return seconds of a training of this size on its cluster, by what takes them."""
    values = size.points * size.values_per_point
    n_frequent, n_rare = size.labels * size.frequent, size.labels * (1 - size.frequent)
    block = costs["frequent"]["cpu_s"] * values / costs["values"]
    group = costs["rare"]["cpu_s"] * size.points / costs["points"]
    cpu = n_frequent / BLOCK * block + n_rare / GROUP * group
    shared = costs["shared_mb"] * 1e6 * values / costs["values"]
    results = n_frequent * costs["frequent"]["bytes_per_label"] + n_rare * costs["rare"]["bytes_per_label"]
    return asdict(size) | {
        "block_s": block, "group_s": group, "cpu_hours": cpu / 3600, "shared_gb": shared / 1e9,
        "results_gb": results / 1e9, "compute_s": cpu / (size.nodes * size.cores),
        # From node to node, as Ray does it: each round doubles the nodes that have a copy.
        "broadcast_s": shared / NETWORK * np.ceil(np.log2(size.nodes + 1)), "results_s": results / NETWORK,
    }  # fmt: skip
