"""Which models are worth a try on some data within some minutes: names, their estimators, and what each would cost.

Costs are estimated from the size of the data, in seconds of two cores: what grows is the number of pairs of a point and
a classifier that sees it. Which classifiers see all points, DiSMEC itself says, by the rule that it trains by. No clock
is read for that: the same data and the same minutes give the same list on every machine. Where minutes were asked for,
a `Stopwatch` shortens the list on a machine that is slower than estimated.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
_TREES, _CHILDREN, _LEAF, _DEPTH = 3, 100, 100, 3  # of Bonsai
# Seconds of two cores, fitted to trainings on five datasets (benchmarks.tail.costs). An entry is a feature of a point.
# Bonsai: per pair of a point and a classifier that sees it, per entry of such a pair, per label of a tree.
_BONSAI_PAIR, _BONSAI_ENTRY, _BONSAI_LABEL = 1.1e-8, 4.7e-10, 1e-5
# DiSMEC, labels that see all points: per pair of a point and a label, per entry of it, per entry of a positive.
_DISMEC_PAIR, _DISMEC_ENTRY, _DISMEC_POSITIVE_ENTRY = 2e-9, 1.8e-10, 1.25e-8
# DiSMEC, labels with working sets, which grow with the positives: per label, per positive, per entry of a positive.
_RARE_LABEL, _RARE_POSITIVE, _RARE_ENTRY = 4.5e-5, 7.5e-6, 3.1e-7
_CURVE_POINT = 3e-5  # to measure one choice at every exponent on one point
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
    frequent : int
        Number of classifiers of DiSMEC that see all points.
    frequent_positives : int
        Pairs of a point and one of these labels that it has.
    rare : int
        Number of classifiers that DiSMEC trains on working sets of their own, one for labels with the same points.
    rare_positives : int
        Pairs of a point and one of these labels that it has.
    row : float
        Features per point.
    per_point : float
        Labels per point.
    unit : bool, default True
        Rows of features have length 1.
    pace : mapping of str to float, default {}
        By kind of model: how many times slower than estimated this machine is.
    """

    points: int
    labels: int
    frequent: int
    frequent_positives: int
    rare: int
    rare_positives: int
    row: float
    per_point: float
    unit: bool = True
    pace: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def at(cls, X: sparse.csr_matrix, Y: sparse.csr_matrix) -> Look:
        """Look at the data."""
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        rare, same_as = registry.estimator_class("dismec")().working_sets(Y, np.ones(Y.shape[1]))
        trained = (counts > 0) & (same_as == np.arange(Y.shape[1]))
        frequent, rare = counts[trained & ~rare], counts[trained & rare]
        sizes = frequent.size, int(frequent.sum()), rare.size, int(rare.sum())
        squares = squared_lengths(X)
        unit = bool((np.abs(squares[squares > 0] - 1) < _NEAR_ONE).all())
        return cls(X.shape[0], int((counts > 0).sum()), *sizes, X.nnz / X.shape[0], Y.nnz / Y.shape[0], unit)

    def seconds(self, name: str) -> float:
        """Return the estimated seconds of one training on all points."""
        return self.pace.get(_kind(name), 1.0) * self._usual_seconds(name)

    def _usual_seconds(self, name: str) -> float:
        if _kind(name) == "bonsai":
            return _TREES * self.tree_seconds()
        everywhere = self.points * self.frequent * (_DISMEC_PAIR + self.row * _DISMEC_ENTRY)
        positives = self.frequent_positives * self.row * _DISMEC_POSITIVE_ENTRY
        apart = self.rare * _RARE_LABEL + self.rare_positives * (_RARE_POSITIVE + self.row * _RARE_ENTRY)
        return max(everywhere + positives + apart, _LEAST_SECONDS)

    def tree_seconds(self) -> float:
        """Return the estimated seconds of one Bonsai tree: at each node its points meet each of its children."""
        pairs, visits, nodes, size = 0.0, float(self.points), 1.0, float(self.labels)  # size: labels below a node
        for _ in range(_DEPTH - 1):
            if size <= _LEAF:
                break
            pairs += visits * _CHILDREN
            nodes, size = nodes * _CHILDREN, size / _CHILDREN
            visits = self.points * min(self.per_point, nodes)
        pairs += visits * size
        seconds = pairs * (_BONSAI_PAIR + self.row * _BONSAI_ENTRY) + self.labels * _BONSAI_LABEL
        return max(seconds, _LEAST_SECONDS / _TREES)

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

    def final_seconds(self, *names: str, together: bool = False) -> float:
        """Return the estimated seconds of training the dearest of these models, or the dearest of each kind."""
        dearest = [max((self.seconds(n) for n in names if _kind(n) == kind), default=0.0) for kind in KINDS]
        return sum(dearest) if together else max(dearest)

    def seconds_of(self, *names: str, together: bool = False) -> float:
        """Return the estimated seconds of trying these models, `together` in pairs as well, and training the choice."""
        held = self.splits()["held_out"]
        measured = _CURVE_POINT * (self.points if held is None else held * self.points)
        choices = len(pairs(names)) if together else len(names)
        tried = sum(self.trial_seconds(name) for name in names)
        return tried + measured * choices + self.final_seconds(*names, together=together)


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
        There is time to put two models of different kinds together, or there are none to put together.
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

    def only(self, tried: Sequence[str], *, pairs: bool) -> Plan:
        """Return the plan that tries no more than these models, and their pairs only if there is time for them."""
        late = [name for name in self.tried if name not in tried]
        pairs = self.pairs and (not late or (pairs and len(_kinds(tried)) > 1))
        return replace(self, tried=list(tried), left_out=[*late, *self.left_out], pairs=pairs)


class Stopwatch:
    """Whether there is time for another trial, by the clock, on a machine that may be slower than estimated.

    Parameters
    ----------
    look : Look
        At the data.
    minutes : float or None
        Time for everything; None reads no clock and leaves nothing out.
    """

    def __init__(self, look: Look, minutes: float | None) -> None:
        self._look, self._limit = look, None if minutes is None else 60 * minutes
        self._began = self._last = time.monotonic()
        self._tried: list[str] = []
        self._took: dict[str, float] = {}  # by kind: what one kind of model takes says little about the other

    def tried(self, *names: str) -> None:
        """Note that models of one kind have been tried since the last call."""
        now, kind = time.monotonic(), _kind(names[0])
        self._took[kind] = self._took.get(kind, 0.0) + now - self._last
        self._tried += names
        self._last = now

    def allows(self, *names: str, together: bool = False) -> bool:
        """Return whether these models can all be tried and the choice be trained, at the pace of their kinds so far."""
        if self._limit is None:
            return True
        look = replace(self._look, pace=self._pace())
        ahead = max(look.seconds_of(*names, together=together) - sum(map(look.trial_seconds, self._tried)), 0.0)
        return time.monotonic() - self._began + ahead <= self._limit

    def _pace(self) -> dict[str, float]:
        """Return how many times the estimate trials of each kind have taken, at least 1; of others, as the slowest."""
        pace = {}
        for kind, took in self._took.items():
            estimated = sum(self._look.trial_seconds(name) for name in self._tried if _kind(name) == kind)
            pace[kind] = max(took / estimated, 1.0)
        return dict.fromkeys(KINDS, max(pace.values(), default=1.0)) | pace


def pairs(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return every name alone, then every pair of models of two kinds, in the order of the names."""
    alone: list[tuple[str, ...]] = [(name,) for name in names]
    return alone + [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if len(_kinds((a, b))) > 1]


def _kind(name: str) -> str:
    return name.split("/")[0]


def _kinds(names: Sequence[str]) -> set[str]:
    return set(map(_kind, names))


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
    fit = len(_kinds(tried)) > 1 and twice + look.seconds_of(*tried, together=True) <= 60 * minutes
    together = fit or len(_kinds(names)) == 1
    return Plan(tried, left, together, minutes, (twice + look.seconds_of(*names, together=True)) / 60)


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
