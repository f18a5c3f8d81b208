"""DiSMEC: one linear classifier per label, with the propensity weightings of Qaraei et al."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.estimator import Estimator, Prepared
from longtail.core.explanation import Explanation, feature_weights
from longtail.core.fingerprint import fingerprint
from longtail.core.parameters import check_at_least_zero, check_choice, check_positive, check_whole
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.threads import thread_count
from longtail.core.workspace import Workspace
from longtail.errors import ParameterError
from longtail.linear.gpu import devices, hook
from longtail.linear.limits import check_point_weights
from longtail.linear.options import LOSSES, SolverOptions, TrainedBlock
from longtail.linear.shards import ShardBuilder, Shards
from longtail.linear.weights import rows_in_order
from longtail.objectives import resolve_weighting

# Solvers load Numba and are imported where training begins: a loaded model that predicts one point does without.
if TYPE_CHECKING:
    from longtail.linear.groups import Group, Solvers

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class PointsWithWeights(Prepared):
    """Training points, their weights, and the dual variables that the solver starts from."""

    weights: NDArray[np.float32] | None
    duals: sparse.csr_matrix | None

    def job(self) -> dict[str, Any]:
        weights = "" if self.weights is None else fingerprint(self.weights)
        duals = "" if self.duals is None else fingerprint(self.duals.data, self.duals.indices, self.duals.indptr)
        return {"sample_weight": weights, "start": duals}


@dataclass(kw_only=True, eq=False, repr=False)
class DiSMEC(Estimator):
    """One linear classifier per label, trained one-vs-rest (Babbar and Schoelkopf 2017).

    Scores are margins w.x + b. With the logistic loss they are probabilities, of the weighted problem: with a weighting
    they are meant for ranking only.

    Parameters
    ----------
    weighting : None, str or object, default None
        Weight W_l of a label's positives: None (all 1), "pw", "pw-cb", "pw-cb:0.5" (a strength from 0 to 1) or an
        object of `longtail.objectives`.
    C : float, default 1.0
        Cost of the loss, in LIBLINEAR's scaling.
    loss : {"squared-hinge", "hinge", "logistic"}, default "squared-hinge"
        Loss function.
    bias : float, default 0.5
        Value of the constant feature; 0 for none.
    tol : float, default 0.03
        Relative duality gap at which the training of a label ends.
    max_passes : int, default 100
        Passes over the training points, at most.
    prune : float, default 0.05
        Weights below this absolute value are dropped.
    weight_dtype : {"float16", "float32"}, default "float16"
        How weights are kept and saved. A model with a weight above 65,504, which float16 cannot hold, keeps float32.
    solver : {"auto", "full"}, default "auto"
        "auto" trains labels with a few points on working sets where the training set is large: their positives, the
        negatives that resemble them, and a weighted sample of the others. "full" trains every label on all points; so
        do the other losses and warm starts.
    warm_start : bool, default False
        Keep the dual variables, and start the next `fit` on the same points from them (e.g. along a path of C).
    device : {"cpu", "cuda", "auto"}, default "cpu"
        "cuda" trains every label on all points on the GPUs of this machine, and ranks labels there if points are many
        (extra `gpu`). "auto" does so where there is a GPU, and says so where it is the CPU. `predict` takes it, too.
    reproducible : bool, default False
        On a GPU: take steps in a fixed order, so that the same bits come out every time, several times as slowly.
        Otherwise the last digits vary within `tol`. On the CPU they never do.
    n_jobs : int, default -1
        Number of threads, -1 for all cores. The model does not depend on it.
    random_state : int, default 0
        Seed of the order in which points are visited and of the label blocks.

    Attributes
    ----------
    weights_ : (D, L) csr_matrix of float32
        Weights by feature; a copy, made at each access.
    intercept_ : (L,) array of float32
        Intercepts; -inf for labels without training points.
    gaps_ : (L,) array of float64
        Relative duality gap that each label reached, on the problem that it was trained on: that of all points, or its
        working set.

    Notes
    -----
    The weights of label l minimise

        |w|^2 / 2 + C * W_l * sum_{positives} r * loss(w.x) + C * sum_{negatives} loss(-w.x)

    with W_l from Qaraei et al. 2021, eqs. 16, 21, 22, and r the relevance of the label for the point, 1 unless Y has
    numbers below 1. The papers write |w|^2 where LIBLINEAR has |w|^2 / 2, so their C = 1 is C = 0.5 here. With
    relevances, every label is trained on all points, as by solver="full". `linear/kernels.py` describes the solver.
    """

    # What the log advises when labels have not reached `tol` after `max_passes`.
    remedy = "raise max_passes or tol"
    adjustable = not_saved = ("device",)
    trains_in_parts = True

    weighting: Any = None
    C: float = 1.0
    loss: str = "squared-hinge"
    bias: float = 0.5
    tol: float = 0.03
    max_passes: int = 100
    prune: float = 0.05
    weight_dtype: str = "float16"
    solver: str = "auto"
    warm_start: bool = False
    device: str = "cpu"
    reproducible: bool = False
    n_jobs: int = -1
    random_state: int = 0

    def fit(  # type: ignore[override]
        self,
        X: Any,
        Y: Any,
        *,
        sample_weight: Any = None,
        label_names: Sequence[str] | None = None,
        run: Run | None = None,
        verbose: bool = False,
    ) -> Self:
        """Train on points and their observed labels.

        Parameters
        ----------
        X : sparse matrix, array or DataFrame
            CSR or dense features.
        Y : sparse matrix, array, DataFrame, or list of lists
            A 0/1 matrix, or one list of label names or label ids per point. Numbers between 0 and 1 are relevances:
            a label of relevance 0.5 counts half as much as one of 1.
        sample_weight : array_like, optional
            Factor of the loss per point, above 0; a point of weight 2 counts as the same point twice.
        label_names : sequence of str, optional
            Distinct names, kept with the model and written to its directory.
        run : Run, optional
            Where to show progress and where to keep finished blocks.
        verbose : bool, default False
            Show progress: a bar in a terminal or a notebook, elsewhere a line every half minute.

        Returns
        -------
        self
        """
        return super().fit(X, Y, label_names=label_names, run=run, verbose=verbose, sample_weight=sample_weight)

    @property
    def score_scale(self) -> str | None:  # type: ignore[override]
        """The scale of scores: probabilities with the logistic loss and without a weighting, else margins."""
        return "probability" if self.loss == "logistic" and self.weighting is None else None

    def takes_relevances(self) -> bool:
        return True

    def check_parameters(self) -> None:
        check_positive(C=self.C, tol=self.tol)
        check_at_least_zero(bias=self.bias, prune=self.prune)
        check_whole("max_passes", self.max_passes, 1)
        check_whole("random_state", self.random_state, 0)
        if self.random_state >= 2**32:
            raise ParameterError(f"random_state is {self.random_state}, but must be below 2**32")
        check_choice("loss", self.loss, list(LOSSES))
        check_choice("solver", self.solver, ("auto", "full"))
        check_choice("weight_dtype", self.weight_dtype, ("float16", "float32"))
        check_choice("device", self.device, devices.DEVICES)
        hook.check_device(self.device, warm_start=self.warm_start)
        thread_count(self.n_jobs)
        weighting = resolve_weighting(self.weighting)
        if not weighting.bounded:
            raise ParameterError(f"DiSMEC cannot train with weighting={self.weighting!r}: {weighting.why_unbounded}")

    def solver_options(self) -> SolverOptions:
        """Return these parameters as options of the solver."""
        return SolverOptions(
            self.loss, self.C, self.bias, self.tol, self.max_passes, self.prune, keep_duals=self.warm_start
        )

    def _prepare(
        self, X: sparse.csr_matrix, Y: sparse.csr_matrix, *, sample_weight: Any = None, **more: Any
    ) -> PointsWithWeights:
        super()._prepare(X, Y, **more)
        hook.check_labels(self.device, relevances=_has_relevances(Y))
        weights = check_point_weights(sample_weight, X.shape[0])
        return PointsWithWeights(X, Y, weights, self._kept_duals(X.shape[0], Y.shape[1]))

    def _fit(self, prepared: Prepared, run: Run) -> None:
        assert isinstance(prepared, PointsWithWeights)
        Y = prepared.Y
        own, _ = resolve_weighting(self.weighting).coefficients(self.label_counts_, self.n_points_)
        if self.device == "cuda" and run.engine.elsewhere:
            raise ParameterError("device='cuda' trains on the GPUs of this machine alone; set device='cpu'")
        graded = _has_relevances(Y)
        on_gpus = self.device != "cpu" and not graded and not run.engine.elsewhere
        if on_gpus and self._fit_on_gpus(prepared, own, run):
            return
        rare, same_as = self.working_sets(Y, own)
        self._train(*self._groups(prepared, own, rare, same_as, run.workspace), same_as, run)

    def working_sets(
        self, Y: sparse.csr_matrix, weights: NDArray[np.floating]
    ) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return which labels are trained on working sets of their own, and how labels share a classifier.

        Parameters
        ----------
        Y : (n, L) csr_matrix
            Label indicator.
        weights : (L,) array
            Weight of each label's positives.

        Returns
        -------
        rare : (L,) array of bool
            Labels with working sets; each of the others sees all points.
        same_as : (L,) array of int
            For each label the first one that has the same classifier.
        """
        from longtail.linear.rare import identical_labels, rare_labels

        # Dual variables are those of points, which working sets have only some of.
        full = self.solver == "full" or self.warm_start or _has_relevances(Y)
        rare = np.zeros(Y.shape[1], np.bool_) if full else rare_labels(Y, self.loss)
        return rare, identical_labels(Y, weights) if rare.any() else np.arange(Y.shape[1])

    def _fit_on_gpus(self, prepared: PointsWithWeights, own: NDArray[np.floating], run: Run) -> bool:
        """Train on GPUs and return True, or return False if the CPU is to do it."""
        from longtail.linear.gpu.train import Job

        how: dict[str, Any] = {"seed": self.random_state, "ordered": self.reproducible, "dtype": self.weight_dtype}
        job = Job(prepared.X, prepared.Y, self.solver_options(), own, prepared.weights, **how)
        trained = hook.train_on_gpus(self.device, job, run, warm_start=self.warm_start)
        if trained is None:
            return False
        self.gaps_, self._shards = trained.gaps, Shards([trained.weights])
        self._warn_of_unfinished()
        return True

    def _groups(
        self,
        prepared: PointsWithWeights,
        own: NDArray[np.floating],
        rare: NDArray[np.bool_],
        same_as: NDArray[np.intp],
        workspace: Workspace,
    ) -> tuple[Solvers, list[Group]]:
        """Return all labels that have points, of identical ones the first: blocks of frequent ones, then rare ones."""
        from longtail.linear.blocks import label_blocks
        from longtail.linear.groups import Group, Solvers
        from longtail.linear.rare import GROUP, WorkingSetSolver
        from longtail.linear.solver import BlockSolver

        X, Y, seed = prepared.X, prepared.Y, self.random_state
        settings: dict[str, Any] = {
            "positive_weights": own, "point_weights": prepared.weights, "seed": seed, "workspace": workspace,
        }  # fmt: skip
        full = BlockSolver(X, Y, self.solver_options(), **settings)
        if not rare.any():
            blocks = label_blocks(X, Y, seed=seed)
            return Solvers([full], prepared.duals), [Group(block, 0) for block in blocks]
        once = same_as == np.arange(Y.shape[1])
        frequent = np.flatnonzero(once & ~rare & (self.label_counts_ > 0))
        blocks = label_blocks(X, sparse.csr_matrix(Y[:, frequent]), seed=seed)
        groups = [Group(frequent[block], 0) for block in blocks]
        sets = WorkingSetSolver(X, Y, self.solver_options(), **settings)
        few = np.flatnonzero(once & rare)
        few = few[np.argsort(-self.label_counts_[few], kind="stable")]
        groups += [Group(few[i : i + GROUP], 1) for i in range(0, few.size, GROUP)]
        return Solvers([full, sets], prepared.duals), groups

    def _train(self, solvers: Solvers, groups: list[Group], same_as: NDArray[np.intp], run: Run) -> None:
        from longtail.linear.groups import train_groups

        gaps = np.zeros(self.n_labels_)
        shards = ShardBuilder(same_as, self.n_features_in_, self.weight_dtype, run.workspace)
        duals: list[sparse.csr_matrix | None] = []

        def keep(labels: NDArray[np.intp], trained: TrainedBlock) -> None:
            gaps[labels] = trained.gaps
            shards.add(labels, trained.weights, trained.intercepts)
            duals.append(trained.duals)

        train_groups(solvers, groups, keep, run=run, n_jobs=self.n_jobs)
        self.gaps_, self._shards = gaps[same_as], shards.result()
        self._warn_of_unfinished()
        if self.warm_start:
            self._duals = rows_in_order(duals, [group.labels for group in groups], self.n_labels_, self.n_points_)

    def _warn_of_unfinished(self) -> None:
        trained = int((self.label_counts_ > 0).sum())
        logger.info("trained %d labels to a relative duality gap of at most %.3g", trained, self.gaps_.max())
        unfinished = int((self.gaps_ > self.tol).sum())
        if unfinished:
            logger.warning(
                "%d labels did not reach a duality gap of %g in %d passes; %s",
                unfinished, self.tol, self.max_passes, self.remedy,
            )  # fmt: skip

    def _kept_duals(self, n_points: int, n_labels: int) -> sparse.csr_matrix | None:
        """Return the dual variables of the previous fit, if a warm start is wanted and their shape fits the data."""
        kept = getattr(self, "_duals", None) if self.warm_start else None
        return kept if kept is not None and kept.shape == (n_labels, n_points) else None

    def _predict(self, X: sparse.csr_matrix, k: int) -> Predictions:
        best = None
        if self.device != "cpu":
            best = hook.top_on_gpu(self.device, self._shards, X, k)
        if best is None:
            best = self._shards.top(X, k, n_jobs=self.n_jobs)
        if self.loss != "logistic":
            return best
        from scipy.special import expit  # here: it takes long to load, and other losses do not need it

        return Predictions(best.labels, np.where(best.labels >= 0, expit(best.scores), -np.inf))

    def _explain(self, X: sparse.csr_matrix, label: int) -> Explanation:
        weights = self._shards.of(label)
        bias = float(weights.intercepts[weights.of_label[label]])
        contributions = X.data * weights.of_features(label, X.indices)
        margin = bias + float(contributions.sum())
        found = Explanation(label, margin, [], bias, feature_weights(X.indices, X.data, contributions))
        if self.loss != "logistic":
            return found
        from scipy.special import expit

        return found.carried(float(expit(bias)), float(expit(margin)))

    @property
    def weights_(self) -> sparse.csr_matrix:
        """Return the weights as a new (features, labels) matrix of float32."""
        self.check_fitted()
        return self._shards.to_csr()

    @property
    def intercept_(self) -> NDArray[np.float32]:
        """Return one intercept per label; -inf for labels without training points."""
        self.check_fitted()
        return self._shards.label_intercepts()

    def _get_state(self) -> State:
        state = self._shards.to_state()
        state.arrays["gaps"] = self.gaps_
        return state

    def _set_state(self, state: State) -> None:
        self.gaps_ = state.array("gaps", np.float64, (self.n_labels_,))
        self._shards = Shards.from_state(state, self.n_features_in_, self.n_labels_)

    def _check_learned(self) -> None:
        self._shards.check_numbers()


def _has_relevances(Y: sparse.csr_matrix) -> bool:
    return bool((Y.data != 1).any())
