"""AutoModel: a few models tried on held-out points, and the best for rare labels at a stated price trained on all."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.compose import frontier
from longtail.compose.candidates import best_of
from longtail.compose.frontier import CANDIDATES
from longtail.compose.mean import explained_mean
from longtail.compose.portfolio import Look, Plan, Stopwatch, check_names, model_named, planned
from longtail.compose.price import check_price_metric
from longtail.compose.reranker import WithPropensities, check_exponent
from longtail.core.calibrated import calibration_in_training
from longtail.core.calibration import Calibration, CalibrationOfGroups
from longtail.core.check_arrays import check_above_zero
from longtail.core.estimator import Prepared
from longtail.core.explanation import Explanation
from longtail.core.parameters import check_at_least_zero, check_positive, check_whole
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.threads import thread_count
from longtail.core.unseen import Splits, predict_unseen
from longtail.core.wrapper import Wrapper
from longtail.errors import DataError, ModelError
from longtail.objectives.propensity import Propensities, PropensityModel, propensities_from

logger = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False, repr=False)
class AutoModel(Wrapper):
    """The best of a few models for rare labels, at a price in precision that is stated beforehand.

    A look at the data and the minutes decide which models are tried: Bonsai and DiSMEC, without a weighting and with
    PW-cb at several strengths. Each is trained without some points, which it then predicts. On these predictions, at no
    further training, pairs of models and a re-ranker (`P / p^exponent`) are tried as well. Of everything that keeps the
    P@1 of the best single model up to `max_precision_loss`, the one with the most PSP@1 is trained on all points, if
    the last part of the price buys at least three quarters of its own size. Where rows of features do not have length
    1, the first model is tried with such rows, too, and the better way is kept.

    It is a portfolio, not a search: `longtail tune` looks further. Without `minutes` no clock is read: costs are
    estimated from the size of the data, for two cores, so the same data and seed give the same model on every machine.

    Parameters
    ----------
    minutes : float or None, default None
        Time for everything; None for the larger of one minute and ten times one Bonsai tree, as estimated for two
        cores. What does not fit is left out: by the estimate, or by the clock where the machine is slower. The first
        model is always tried.
    max_precision_loss : float, default 1.0
        Percentage points of `price_metric` that the chosen model may be below the best single one.
    price_metric : str, default "P@1"
        The metric in which the price is stated, e.g. "P@5" or "nDCG@5"; what is gained for it is PSP at the same k.
    models : list of str or None, default None
        Names to choose from, the most important first, e.g. `["bonsai", "dismec", "dismec/pw-cb:0.5"]`; None for seven.
    exponent : float or None, default None
        A number from 0 to 1 to use instead of the chosen exponent (`exponent_`). It may be changed after `fit`, or
        given to `predict`, without training again.
    propensity : PropensityModel, (A, B), str or array, default PropensityModel(A=0.55, B=1.5)
        Propensity model, its parameters, the name of a preset, or one propensity per label.
    n_jobs : int, default -1
        Number of threads, -1 for all cores. The model does not depend on it.
    random_state : int, default 0
        Seed of the split and of the models.

    Attributes
    ----------
    parts_ : list of Estimator
        The chosen models, fitted on all points: one, or two whose probabilities are averaged.
    chosen_ : list of str
        Their names.
    unit_rows_ : bool
        Rows of features are scaled to length 1 first.
    exponent_ : float
        The exponent that was chosen.
    choices_ : dict
        Everything that was tried, with what it reached on points that the models had not seen.
    report_ : list of str
        The choice in five lines: data, what was tried, what was chosen, why, and what more time would allow.
    inverse_propensities_ : ndarray of shape (n_labels,)
        1 / p_l of each label.
    """

    adjustable = free_on_resume = ("exponent",)

    minutes: float | None = None
    max_precision_loss: float = 1.0
    price_metric: str = "P@1"
    models: Any = None
    exponent: float | None = None
    propensity: Propensities = PropensityModel()  # noqa: RUF009 (frozen)
    n_jobs: int = -1
    random_state: int = 0

    @property
    def parts(self) -> list[Any]:
        """None: the models inside are chosen in `fit`."""
        return []

    @property
    def score_scale(self) -> str | None:  # type: ignore[override]
        """The scale of scores: logarithms of probabilities with exponent 0."""
        exponent = getattr(self, "exponent_", None) if self.exponent is None else self.exponent
        return "log probability" if exponent == 0 else None

    def with_default_parts(self) -> Self:
        return self

    def check_parameters(self) -> None:
        if self.minutes is not None:
            check_positive(minutes=self.minutes)
        check_at_least_zero(max_precision_loss=self.max_precision_loss)
        check_price_metric(self.price_metric, CANDIDATES)
        check_names(self.models)
        check_whole("random_state", self.random_state, 0)
        thread_count(self.n_jobs)
        if self.exponent is not None:
            check_exponent(self.exponent)

    def _prepare(self, X: Any, Y: sparse.csr_matrix, **more: Any) -> WithPropensities:
        super()._prepare(X, Y, **more)
        if Y.shape[1] < 2:
            raise DataError(
                "one label leaves nothing to rank, and so nothing to choose by; choose a model, e.g. dismec"
            )
        propensities = propensities_from(self.propensity, self.label_counts_, self.n_points_)
        return WithPropensities(X, Y, self.label_counts_, self.n_points_, 1 / propensities)

    def _fit(self, prepared: Prepared, run: Run) -> None:
        assert isinstance(prepared, WithPropensities)
        X, Y = prepared.X, prepared.Y
        self.inverse_propensities_ = prepared.inverse
        look = Look.at(X, Y)
        plan = planned(look, self.minutes, check_names(self.models))
        trials, plan = self._tried(X, Y, look, plan, run)
        curves = [trials.curve(names) for names in plan.choices()]
        reference = trials.reference
        best = frontier.best(curves, reference, self.max_precision_loss)
        best = trials.refined(best, reference, self.max_precision_loss)
        self.chosen_, self.exponent_ = list(best.names), best.exponent
        self.calibrations_ = [trials.calibrations[name] for name in best.names]
        n_held = int(trials.truth.shape[0])
        self.choices_ = {
            "tried": frontier.rows(curves, reference, self.max_precision_loss), "left_out": plan.left_out,
            "minutes": round(plan.minutes, 2), "held_out_points": n_held,
        }  # fmt: skip
        plain = copy.copy(self)
        plain.exponent = 0.0  # probabilities do not depend on it
        likeliest = plain._combined(trials.of(best.names), CANDIDATES)
        self.probabilities_ = calibration_in_training(plain, likeliest, trials.truth)
        self.report_ = self._reported(look, plan, reference, best, n_held)
        for line in self.report_:
            logger.info("%s", line)
        self.parts_ = [self._fitted(name, X, Y, run.part(f"model-{name.replace('/', '-')}")) for name in self.chosen_]

    def _fitted(self, name: str, X: Any, Y: sparse.csr_matrix, run: Run) -> Any:
        return self._named(name, self.unit_rows_).fit(X, Y, label_names=self.label_names_, run=run)

    def _named(self, name: str, unit_rows: bool) -> Any:
        return model_named(name, unit_rows=unit_rows, n_jobs=self.n_jobs, random_state=self.random_state)

    def _tried(self, X: Any, Y: sparse.csr_matrix, look: Look, plan: Plan, run: Run) -> tuple[frontier.Trials, Plan]:
        """Train models without some points and return what they predict for them, and the plan that time allowed.

        Sets `unit_rows_`.
        """
        watch = Stopwatch(look, self.minutes)
        splits = Splits(random_state=self.random_state, **look.splits())
        truth = Y[np.concatenate([rows for _, rows in splits.split(look.points)])]

        def predicted(name: str, unit_rows: bool) -> Predictions:
            part = f"try-{name.replace('/', '-')}{'-unit' * unit_rows}"
            new = lambda: self._named(name, unit_rows)  # noqa: E731
            k, names = min(CANDIDATES, Y.shape[1]), self.label_names_
            return predict_unseen(new, X, Y, splits, k=k, run=run, label_names=names, name=part).predictions

        def trials(found: dict[str, Predictions]) -> frontier.Trials:
            return frontier.Trials(found, truth, self.inverse_propensities_, self.price_metric)

        first = plan.tried[0]
        ways = {scaled: predicted(first, scaled) for scaled in ((False,) if look.unit else (False, True))}
        reached = {scaled: trials({first: found}).as_it_is(first) for scaled, found in ways.items()}
        self.unit_rows_ = max(reached, key=lambda scaled: reached[scaled].kept + reached[scaled].gained)
        found = {first: ways[self.unit_rows_]}
        watch.tried(*[first] * len(ways))
        for name in plan.tried[1:]:
            if watch.allows(*found, name):
                found[name] = predicted(name, self.unit_rows_)
                watch.tried(name)
        return trials(found), plan.only(list(found), pairs=watch.allows(*found, together=True))

    def _reported(
        self, look: Look, plan: Plan, reference: frontier.Reached, best: frontier.Reached, n_held: int
    ) -> list[str]:
        metric, gain = self.price_metric, f"PSP@{self.price_metric.partition('@')[2]}"
        how = "by cross-fitting" if look.splits()["held_out"] is None else "held out"
        pairs = len(plan.choices()) > len(plan.tried)
        missing = [*plan.left_out, *([] if plan.pairs else ["pairs"])]
        more = f"more time would allow {', '.join(missing)}: about {plan.needed:.2g} minutes"
        ranked = f"re-ranked with exponent {best.exponent:.3g}" if best.exponent else "not re-ranked"
        return [
            f"looked at {look.points:,} points, {look.labels:,} labels, {look.row:.0f} features and "
            f"{look.per_point:.1f} labels per point; time for {plan.minutes:.2g} min",
            f"tried {', '.join(plan.tried)}{', their pairs' * pairs} and a re-ranker on {n_held:,} points {how}",
            f"chose {' + '.join(best.names)}{' on rows of length 1' * self.unit_rows_}, {ranked}",
            f"because it gains most for at most {self.max_precision_loss:g} of {metric}: {gain} {best.gained:.1f} and "
            f"{metric} {best.kept:.1f}; the best single model, {reference.names[0]}, has {reference.gained:.1f} and "
            f"{reference.kept:.1f}",
            more if missing else "everything in the portfolio was tried; longtail tune looks further",
        ]

    def _predict(self, X: Any, k: int) -> Predictions:
        wanted = max(k, min(CANDIDATES, self.n_labels_))
        return self._combined([part.predict(X, k=wanted) for part in self.parts_], k)

    def _combined(self, found: list[Predictions], k: int) -> Predictions:
        """Return the k best labels of the predictions of the chosen models."""
        values = [frontier.probabilities(c, part) for c, part in zip(self.calibrations_, found, strict=True)]
        labels, logs = frontier.log_means(found, values)
        return best_of(labels, logs + self._own_exponent() * np.log(self.inverse_propensities_)[labels], k)

    def _explain(self, X: Any, label: int) -> Explanation:
        groups = [CalibrationOfGroups([calibration]) for calibration in self.calibrations_]
        weights = np.full(len(groups), 1 / len(groups))
        found = explained_mean(self, X, label, groups, weights, CANDIDATES)
        lift = self._own_exponent() * float(np.log(self.inverse_propensities_[label]))
        assert found.bias is not None
        return found.carried(found.bias + lift, found.score + lift)

    def _own_exponent(self) -> float:
        """Return the exponent that prediction uses: the parameter, or else the one that was chosen."""
        return self.exponent_ if self.exponent is None else self.exponent

    def has_probabilities(self) -> bool:
        """Return whether there are probabilities: once fitted, since the models were calibrated on unseen points."""
        return super().has_probabilities() or hasattr(self, "calibrations_")

    def _scores_to_calibrate(self, found: Predictions) -> NDArray[np.float32]:
        return (found.scores - self._own_exponent() * np.log(self.inverse_propensities_)[found.labels]).astype(
            np.float32
        )

    def _get_state(self) -> State:
        state = super()._get_state()
        state.values |= {
            "chosen": self.chosen_, "exponent": float(self.exponent_), "choices": self.choices_, "report": self.report_,
            "unit_rows": self.unit_rows_,
        }  # fmt: skip
        state.arrays["inverse_propensities"] = self.inverse_propensities_
        for i, calibration in enumerate(self.calibrations_):
            state.nest(f"calibration{i}", calibration.to_state())
        return state

    def _set_state(self, state: State) -> None:
        super()._set_state(state)
        values = state.values
        self.chosen_, self.choices_, self.report_ = values["chosen"], values["choices"], values["report"]
        if not isinstance(self.chosen_, list) or len(self.chosen_) != len(self.parts_):
            raise ModelError(f"chosen names {self.chosen_!r}, but there are {len(self.parts_)} models inside")
        if not isinstance(self.report_, list) or not all(isinstance(line, str) for line in self.report_):
            raise ModelError("the report is not a list of lines")
        self.exponent_, self.unit_rows_ = check_exponent(values["exponent"]), bool(values.get("unit_rows", False))
        self.calibrations_ = [Calibration.from_state(state.part(f"calibration{i}")) for i in range(len(self.parts_))]
        inverse = state.array("inverse_propensities", (np.float64, np.float32), (self.n_labels_,))
        check_above_zero("inverse_propensities", inverse)
        self.inverse_propensities_ = inverse
