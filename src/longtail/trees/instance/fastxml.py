"""FastXML, PfastXML and PfastreXML: one forest, three ways to weight and rank labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.estimator import Estimator, Prepared
from longtail.core.parameters import check_at_least_zero, check_choice, check_positive, check_whole
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.threads import thread_count
from longtail.errors import ParameterError
from longtail.linear.dismec import DiSMEC
from longtail.objectives.propensity import Propensities, PropensityModel, propensities_from
from longtail.trees.instance.descend import top_of_forest
from longtail.trees.instance.forest import Forest
from longtail.trees.instance.grow import Grower, GrowOptions, grow_tree
from longtail.trees.instance.tail import Centres, Classifiers

_LARGEST = 1e10  # of C, bias, gamma and inverse propensities: their products with features must fit float32
_TAILS: dict[str, type[Centres] | type[Classifiers]] = {"means": Centres, "linear": Classifiers}


@dataclass(kw_only=True, eq=False, repr=False)
class FastXML(Estimator):
    """Trees over points whose nodes optimise nDCG (Prabhu and Varma, KDD 2014).

    A node divides its points into two sides such that one ranking of the labels per side suits the points there, then
    learns a sparse hyperplane that separates the sides; points follow the hyperplane. Nodes with at most `max_leaf`
    points, and nodes that cannot be divided, are leaves.

    The score of a label is the share of training points with the label in the leaf that a point reaches, averaged over
    trees; from 0 to 1. Labels that none of these leaves has are not predicted: a row may end in padding.

    Parameters
    ----------
    n_trees : int, default 50
        Number of trees, each grown from its own random start.
    max_leaf : int, default 10
        Nodes with more points are divided.
    labels_per_leaf : int, default 100
        Labels that a leaf keeps, at most.
    C : float, default 2.0
        Cost of the loss of the hyperplanes, in LIBLINEAR's scaling.
    bias : float, default 1.0
        Value of the constant feature; 0 for none.
    n_jobs : int, default -1
        Number of threads, -1 for all cores. The model does not depend on it.
    random_state : int, default 0
        Seed of the random starts.

    Attributes
    ----------
    forest_ : Forest
        Grown trees.

    Notes
    -----
    Hyperplanes minimise |w|_1 + sum_i c_i log(1 + exp(-y_i w.x_i)), y_i the side of point i. c_i is C divided by the
    share of the points that are on this side, so that both sides weigh the same.
    """

    trains_in_parts = True

    n_trees: int = 50
    max_leaf: int = 10
    labels_per_leaf: int = 100
    C: float = 2.0
    bias: float = 1.0
    n_jobs: int = -1
    random_state: int = 0

    def check_parameters(self) -> None:
        for name in ("n_trees", "max_leaf", "labels_per_leaf"):
            check_whole(name, getattr(self, name), 1)
        check_whole("random_state", self.random_state, 0)
        check_positive(C=self.C)
        check_at_least_zero(bias=self.bias)
        _check_not_too_large(C=self.C, bias=self.bias)
        thread_count(self.n_jobs)

    def _label_weights(self) -> NDArray[np.float64]:
        return np.ones(self.n_labels_)

    def _fit(self, prepared: Prepared, run: Run) -> None:
        options = GrowOptions(self.max_leaf, self.labels_per_leaf, self.C, self.bias)
        weights = self._label_weights()
        grower = Grower(prepared.X, prepared.Y, options, label_weights=weights, seed=self.random_state)
        with run.map(
            grow_tree, range(self.n_trees), shared=grower, name="tree", title="growing trees", n_jobs=self.n_jobs
        ) as grown:
            shape = self.n_features_in_, self.n_labels_
            self.forest_ = Forest.joined([Forest.from_arrays(arrays, *shape) for arrays in grown])

    def _predict(self, X: sparse.csr_matrix, k: int) -> Predictions:
        return top_of_forest(X, self.forest_, k, n_jobs=self.n_jobs)

    def _get_state(self) -> State:
        state = State()
        state.nest("forest", self.forest_.to_state())
        return state

    def _set_state(self, state: State) -> None:
        self.forest_ = Forest.from_state(state.part("forest"), self.n_features_in_, self.n_labels_)

    def _check_learned(self) -> None:
        self.forest_.check()


@dataclass(kw_only=True, eq=False, repr=False)
class PfastXML(FastXML):
    """FastXML whose nodes optimise propensity-scored nDCG: label l counts 1 / p_l (Jain et al., KDD 2016, section 6).

    Parameters
    ----------
    propensity : PropensityModel, (A, B), str, array or None, default PropensityModel(A=0.55, B=1.5)
        Propensity model, its parameters, the name of a preset, or one propensity per label. None if no labels are
        missing, which is FastXML.
    n_trees : int, default 50
        Number of trees, each grown from its own random start.
    max_leaf : int, default 10
        Nodes with more points are divided.
    labels_per_leaf : int, default 100
        Labels that a leaf keeps, at most.
    C : float, default 2.0
        Cost of the loss of the hyperplanes, in LIBLINEAR's scaling.
    bias : float, default 1.0
        Value of the constant feature; 0 for none.
    n_jobs : int, default -1
        Number of threads, -1 for all cores. The model does not depend on it.
    random_state : int, default 0
        Seed of the random starts.

    Attributes
    ----------
    forest_ : Forest
        Grown trees.

    Notes
    -----
    Scores are the label frequencies in the leaves, as in FastXML, divided by the propensities. If the propensities are
    right, this is an unbiased estimate of the share of points that the label really applies to. It may exceed 1.
    """

    propensity: Propensities = PropensityModel()  # noqa: RUF009 (frozen)

    def _label_weights(self) -> NDArray[np.float64]:
        propensities = propensities_from(self.propensity, self.label_counts_, self.n_points_)
        if propensities.min() < 1 / _LARGEST:
            raise ParameterError(
                f"the propensity of label {propensities.argmin()} is {propensities.min():g}, but must be at least "
                f"{1 / _LARGEST:g}"
            )
        return np.asarray(1 / propensities)


@dataclass(kw_only=True, eq=False, repr=False)
class PfastreXML(PfastXML):
    """PfastXML whose proposed labels are re-ranked with tail classifiers (Jain et al., KDD 2016, section 6).

    Parameters
    ----------
    alpha : float, default 0.8
        Weight of the trees, from 0 to 1; 1 ranks as PfastXML does. It may be changed after `fit`, or given to
        `predict`.
    gamma : float, default 30.0
        Sharpness of the tail classifiers with tail="means"; 30 suits rows of unit length. It may be changed after
        `fit`, or given to `predict`.
    tail : {"means", "linear"}, default "means"
        Tail classifiers: the paper's, or linear ones trained as in `DiSMEC`. Linear ones take longer to train and rank
        better, see docs/instance-trees.md.
    weighting : None, str or object, default None
        Weighting of the loss with tail="linear", as in `DiSMEC`: None, "pw", "pw-cb" or an object of
        `longtail.objectives`.
    propensity : PropensityModel, (A, B), str, array or None, default PropensityModel(A=0.55, B=1.5)
        Propensity model, its parameters, the name of a preset, or one propensity per label. None if no labels are
        missing, which is FastXML.
    n_trees : int, default 50
        Number of trees, each grown from its own random start.
    max_leaf : int, default 10
        Nodes with more points are divided.
    labels_per_leaf : int, default 100
        Labels that a leaf keeps, at most.
    C : float, default 2.0
        Cost of the loss of the hyperplanes, in LIBLINEAR's scaling.
    bias : float, default 1.0
        Value of the constant feature; 0 for none.
    n_jobs : int, default -1
        Number of threads, -1 for all cores. The model does not depend on it.
    random_state : int, default 0
        Seed of the random starts.

    Attributes
    ----------
    forest_ : Forest
        Grown trees.
    tail_ : Centres or Classifiers
        Tail classifiers of all labels.

    Notes
    -----
    The score of a label that the trees propose is alpha log P_l + (1 - alpha) log s_l, where P_l is its score in
    PfastXML. Scores are logarithms, mostly below 0, and meant for ranking. With tail="means",
    s_l = 1 / (1 + exp(gamma/2 |x - mu_l|^2)), where mu_l is the mean of the label's training points. With
    tail="linear", s_l = exp(-[1 - w_l.x]+^2).
    """

    adjustable = free_on_resume = ("alpha", "gamma")

    alpha: float = 0.8
    gamma: float = 30.0
    tail: str = "means"
    weighting: Any = None

    def check_parameters(self) -> None:
        super().check_parameters()
        check_at_least_zero(alpha=self.alpha, gamma=self.gamma)
        _check_not_too_large(gamma=self.gamma)
        check_choice("tail", self.tail, tuple(_TAILS))
        if self.alpha > 1:
            raise ParameterError(f"alpha is {self.alpha!r}, but must be a number from 0 to 1")
        if self.tail == "linear":
            self._learner().check_parameters()
        elif self.weighting is not None:
            raise ParameterError(
                f"weighting is {self.weighting!r}, but tail={self.tail!r} trains no loss; set tail='linear'"
            )

    def _learner(self) -> DiSMEC:
        return Classifiers.learner(self.weighting, n_jobs=self.n_jobs, random_state=self.random_state)

    def _fit(self, prepared: Prepared, run: Run) -> None:
        grow = super()._fit
        _, self.tail_ = run.together(lambda: grow(prepared, run), lambda: self._tail(prepared.X, prepared.Y, run))

    def _tail(self, X: sparse.csr_matrix, Y: sparse.csr_matrix, run: Run) -> Centres | Classifiers:
        if self.tail == "linear":
            return Classifiers.of(self._learner().fit(X, Y, run=run.part("tail")))
        return Centres.of(X, Y)

    def _predict(self, X: sparse.csr_matrix, k: int) -> Predictions:
        return top_of_forest(
            X, self.forest_, k, tail=self.tail_, alpha=self.alpha, gamma=self.gamma, n_jobs=self.n_jobs
        )

    def _get_state(self) -> State:
        state = super()._get_state()
        state.nest(next(name for name, kind in _TAILS.items() if isinstance(self.tail_, kind)), self.tail_.to_state())
        return state

    def _set_state(self, state: State) -> None:
        super()._set_state(state)
        name = next(name for name in _TAILS if name in state.values)
        self.tail_ = _TAILS[name].from_state(state.part(name), self.n_features_in_, self.n_labels_)

    def _check_learned(self) -> None:
        super()._check_learned()
        self.tail_.check()


def _check_not_too_large(**values: float) -> None:
    for name, value in values.items():
        if value > _LARGEST:
            raise ParameterError(f"{name} is {value!r}, but must be at most {_LARGEST:g}")
