"""Which models are worth a try on some data within some minutes: names, their estimators, and what each would cost.

Costs are estimated from the size of the data, in seconds of two cores, with constants fitted to the trainings in
docs/lab/runs. No clock is read: the same data and the same minutes give the same list on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from longtail.core import registry
from longtail.core.estimator import Estimator
from longtail.core.inputs import squared_lengths
from longtail.errors import ParameterError
from longtail.objectives import resolve_weighting

# What is tried, the most telling first: one of each kind, then the ends and the middle of the dial, then the rest.
EVERY = (
    "bonsai", "dismec", "dismec/pw-cb:0.5", "dismec/pw-cb", "bonsai/pw-cb:0.5", "dismec/pw-cb:0.25",
    "dismec/pw-cb:0.75",
)  # fmt: skip
KINDS = ("bonsai", "dismec")
_TREES = 3  # of Bonsai
# Seconds of two cores. Bonsai: per tree, label occurrence and feature of a row, per tree and label. DiSMEC: per point,
# feature and label for labels that see every point; labels with few points see a working set instead.
_BONSAI_ENTRY, _BONSAI_LABEL = 6.5e-8, 1.2e-4
_DISMEC_ENTRY, _DISMEC_RARE = 5e-10, 2.5e-4
_FEW = 16  # points; at most these, in a large set, make a label cheap
_LEAST_SECONDS = 0.05
_SMALL, _FOLDS = 20_000, 5  # points, below which all are predicted by cross-fitting
_SHARE, _MOST_HELD = 0.2, 10_000  # held out otherwise
_NEAR_ONE = 1e-3  # how far the squared length of a row may be from 1


@dataclass(frozen=True)
class Look:
    """What the data looks like, as far as costs depend on it.

    Parameters
    ----------
    points : int
        Number of points.
    labels : int
        Number of labels with points.
    few : int
        Number of those that have few points.
    row : float
        Features per point.
    per_point : float
        Labels per point.
    unit : bool, default True
        Rows of features have length 1.
    """

    points: int
    labels: int
    few: int
    row: float
    per_point: float
    unit: bool = True

    @classmethod
    def at(cls, X: sparse.csr_matrix, Y: sparse.csr_matrix) -> Look:
        """Look at the data."""
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        few = int(((counts > 0) & (counts <= _FEW)).sum())
        squares = squared_lengths(X)
        unit = bool((np.abs(squares[squares > 0] - 1) < _NEAR_ONE).all())
        return cls(X.shape[0], int((counts > 0).sum()), few, X.nnz / X.shape[0], Y.nnz / Y.shape[0], unit)

    def seconds(self, name: str) -> float:
        """Return the estimated seconds of one training on all points."""
        kind = name.split("/")[0]
        if kind == "bonsai":
            return _TREES * self.tree_seconds()
        full = self.labels - self.few if self.points >= _SMALL else self.labels
        seconds = _DISMEC_ENTRY * self.points * self.row * full + _DISMEC_RARE * (self.labels - full)
        return max(seconds, _LEAST_SECONDS)

    def tree_seconds(self) -> float:
        """Return the estimated seconds of one Bonsai tree."""
        entries = self.points * self.per_point * self.row
        return max(_BONSAI_ENTRY * entries + _BONSAI_LABEL * self.labels, _LEAST_SECONDS / _TREES)

    def default_minutes(self) -> float:
        """Return the larger of one minute and ten times one Bonsai tree."""
        return max(1.0, 10 * self.tree_seconds() / 60)

    def splits(self) -> dict[str, Any]:
        """Return how points are held out: all by five folds where there are few, else a share of at most 10,000."""
        if self.points < _SMALL:
            return {"folds": _FOLDS, "held_out": None}
        return {"held_out": min(_SHARE, _MOST_HELD / self.points)}

    def trial_seconds(self, name: str) -> float:
        """Return the estimated seconds of trying a model on points that it has not seen."""
        held = self.splits()["held_out"]
        return self.seconds(name) * (_FOLDS - 1 if held is None else 1 - held)

    def seconds_of(self, *names: str, pairs: bool = False) -> float:
        """Return the estimated seconds of trying these models and training the dearest, or the dearest of each kind."""
        dearest = {
            kind: max((self.seconds(n) for n in names if n.split("/")[0] == kind), default=0.0) for kind in KINDS
        }
        final = sum(dearest.values()) if pairs else max(dearest.values())
        return final + sum(self.trial_seconds(name) for name in names)


@dataclass(frozen=True)
class Plan:
    """What will be tried, and what is left out.

    Parameters
    ----------
    tried : list of str
        Names, in the order of the trials.
    left_out : list of str
        Names that do not fit into the minutes.
    pairs : bool
        There is time to put two models of different kinds together.
    minutes : float
        Minutes that were given, or the default.
    needed : float
        Estimated minutes for everything, the models left out included.
    """

    tried: list[str]
    left_out: list[str]
    pairs: bool
    minutes: float
    needed: float

    def choices(self) -> list[tuple[str, ...]]:
        """Return the models to choose from: each alone, then pairs, if there is time for them."""
        return pairs(self.tried) if self.pairs else [(name,) for name in self.tried]


def pairs(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return every name alone, then every pair of models of two kinds, in the order of the names."""
    alone: list[tuple[str, ...]] = [(name,) for name in names]
    kind = lambda name: name.split("/")[0]  # noqa: E731
    return alone + [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if kind(a) != kind(b)]


def planned(look: Look, minutes: float | None, names: Sequence[str]) -> Plan:
    """Return the models to try within these minutes, the final training included; the first is always tried.

    Another model to try comes before pairs: where these do not fit, because two models would have to be trained in the
    end, only single models are chosen from.
    """
    minutes = look.default_minutes() if minutes is None else minutes
    twice = 0.0 if look.unit else look.trial_seconds(names[0])  # with rows as they are, and with rows of length 1
    tried: list[str] = []
    left: list[str] = []
    for name in names:
        seconds = twice + look.seconds_of(*tried, name)
        (left if tried and seconds > 60 * minutes else tried).append(name)
    one_kind = len({name.split("/")[0] for name in names}) == 1
    together = one_kind or twice + look.seconds_of(*tried, pairs=True) <= 60 * minutes
    return Plan(tried, left, together, minutes, (twice + look.seconds_of(*names, pairs=True)) / 60)


def model_named(name: str, *, unit_rows: bool = False, **shared: Any) -> Estimator:
    """Return the unfitted estimator for "bonsai" or "dismec/pw-cb:0.5".

    Parameters
    ----------
    name : str
        Kind, and weighting after a slash.
    unit_rows : bool, default False
        Scale rows of features to length 1 before it.
    **shared : Any
        `n_jobs` and `random_state`.

    Returns
    -------
    Estimator
    """
    kind, _, weighting = name.partition("/")
    model: Estimator = registry.estimator_class(kind)(weighting=weighting or None, **shared)
    scaled: Estimator = registry.estimator_class("unitrows")(model=model) if unit_rows else model
    return scaled


def check_names(names: Any) -> tuple[str, ...]:
    """Return the names of the models to choose from, or raise ParameterError."""
    if names is None:
        return EVERY
    listed = isinstance(names, (list, tuple)) and len(names) > 0 and all(isinstance(name, str) for name in names)
    if not listed or len(set(names)) < len(names):
        raise ParameterError(f"models is {names!r}, but must be a list of different names, e.g. {list(EVERY[:3])}")
    for name in names:
        kind, slash, weighting = name.partition("/")
        if kind not in KINDS or (slash and not weighting):
            raise ParameterError(
                f"models has {name!r}, but takes {' and '.join(KINDS)}, with a weighting or without, e.g. {EVERY[2]}"
            )
        if not resolve_weighting(weighting or None).bounded:
            raise ParameterError(f"models has {name!r}, but linear models cannot train with that weighting")
    return tuple(names)
