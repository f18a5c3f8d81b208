"""RankNet: a small network that re-ranks the base's best labels."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.compose.calibration import Floats
from longtail.compose.reranker import Candidates, Reranker, best_of, check_exponent, log_quotient
from longtail.compose.residual import ResidualBlocks
from longtail.core.parameters import check_at_least_zero, check_positive, check_whole
from longtail.core.run import Run
from longtail.core.state import State
from longtail.errors import ParameterError
from longtail.metrics import Matches, score

logger = logging.getLogger(__name__)

_EXPONENTS = np.linspace(0, 1, 21)
_VALIDATION = 0.2  # share of the unseen points that choose the epoch


@dataclass(kw_only=True, eq=False, repr=False)
class RankNet(Reranker):
    """Re-ranking by residual bottleneck blocks trained with a population-aware loss ("Improving tail label prediction
    for extreme multi-label learning", section 3.2).

    The base's scores of its best labels become log-odds z. Blocks z <- W2 relu(W1 sigmoid(z)) + z, whose hidden units
    see which labels are proposed together, change them, and labels are ranked by `P / p_l^exponent` of the result, as
    `PropensityRerank` does without blocks. The network learns from points that the base has not seen. All of these
    choose the exponent that costs `max_precision_loss` of the base's P@1, and a fifth of them, which the network does
    not learn from, the epoch with the best PSP@1 at that loss; if no epoch beats the network's start, there are no
    blocks.

    Training needs the `deep` extra (torch); prediction does not. Scores are meant for ranking.

    Parameters
    ----------
    max_precision_loss : float, default 1.0
        What the exponent may cost, in percentage points of P@1.
    exponent : float or None, default None
        A number from 0 to 1 in place of the chosen one (which is `exponent_`). As in `PropensityRerank` it may be
        changed after `fit`, or given to `predict`.
    blocks, units : int, default 1 and 64
        Number of blocks and of hidden units in each. Without blocks only the exponent is chosen, and torch is not
        needed.
    balance, margin : float, default 1.0
        lambda and c of the population-aware loss.
    negatives : int, default 15
        Wrong candidates per point that a training step looks at.
    anchor : float, default 100.0
        Weight of the cross-entropy beside that loss, which alone would lose probabilities.
    shrink, dropout : float, default 10.0 and 0.2
        What keeps the network close to its start.
    epochs, patience, learning_rate, batch_size
        Of the training of the network.
    base, candidates, propensity, folds, held_out, sample, prefit, random_state
        See `PropensityRerank`.
    """

    max_precision_loss: float = 1.0
    exponent: float | None = None
    blocks: int = 1
    units: int = 64
    balance: float = 1.0
    margin: float = 1.0
    negatives: int = 15
    anchor: float = 100.0
    shrink: float = 10.0
    dropout: float = 0.2
    epochs: int = 15
    patience: int = 8
    learning_rate: float = 1e-3
    batch_size: int = 256

    def check_parameters(self) -> None:
        super().check_parameters()
        check_whole("blocks", self.blocks, 0)
        for name in ("units", "negatives", "epochs", "patience", "batch_size"):
            check_whole(name, getattr(self, name), 1)
        check_positive(learning_rate=self.learning_rate)
        names = ("max_precision_loss", "balance", "margin", "anchor", "shrink", "dropout")
        check_at_least_zero(**{name: getattr(self, name) for name in names})
        if self.exponent is not None:
            check_exponent(self.exponent)
        if self.dropout >= 1:
            raise ParameterError(f"dropout is {self.dropout!r}, but must be a share from 0 up to, not including, 1")

    def _learn(self, unseen: Candidates, run: Run) -> None:
        order = np.random.default_rng([self.random_state, 1]).permutation(len(unseen))
        size = max(round(_VALIDATION * order.size), 1)
        held, learning = unseen[np.sort(order[:size])], unseen[np.sort(order[size:])]
        # Without blocks, by all points: log-odds stay log-odds, so that an exponent is the same exchange rate
        # before and after the blocks, while a fifth of the points tells it to a twentieth only.
        everything = Frontier.below_base(unseen, self.inverse_propensities_, self.max_precision_loss / 100)
        self.exponent_ = everything.exponent(unseen.log_odds)
        frontier = Frontier.at_exponent(held, self.inverse_propensities_, self.exponent_)
        start = frontier.height(held.log_odds)
        self.blocks_, self.validation_ = ResidualBlocks.none(self.n_labels_), {"start": start}
        if self.blocks == 0 or len(learning) == 0:
            return
        blocks = self._trained(learning, frontier, run)
        changed = blocks(held.labels, held.log_odds)
        trained = self.validation_["trained"] = frontier.height(changed)
        logger.info("PSP@1 on points held out: %.4f at the start, %.4f trained", start, trained)
        if trained > start:
            self.blocks_, self.exponent_ = blocks, min(self.exponent_, frontier.exponent(changed))

    def _trained(self, learning: Candidates, frontier: Frontier, run: Run) -> ResidualBlocks:
        from longtail.neural.plan import TrainingPlan
        from longtail.neural.ranking_network import RankedLists, RankingSettings, train_ranking_network

        known = np.unique(learning.labels[learning.labels >= 0])
        rows = np.full(self.n_labels_, -1, np.int32)
        rows[known] = np.arange(known.size)
        places = np.where(learning.labels >= 0, rows[learning.labels], np.int32(-1))
        lift = self.exponent_ * self._log_inverse[known]
        lists = RankedLists(places, learning.log_odds, learning.hits, lift, self.label_counts_[known])
        settings = RankingSettings(
            blocks=self.blocks, units=self.units, balance=self.balance, margin=self.margin, negatives=self.negatives,
            anchor=self.anchor, dropout=self.dropout, shrink=self.shrink,
        )  # fmt: skip
        # One thread: the network is small, and the result must not depend on their number.
        plan = TrainingPlan(
            epochs=self.epochs, learning_rate=self.learning_rate, batch_size=self.batch_size, metric="PSP@1",
            patience=self.patience, precision="float32", device="cpu", random_state=self.random_state, n_jobs=1,
        )  # fmt: skip
        held = frontier.held

        def validate(arrays: dict[str, Any]) -> dict[str, float]:
            return {"PSP@1": frontier.height(ResidualBlocks(rows, **arrays)(held.labels, held.log_odds))}

        return ResidualBlocks(rows, **train_ranking_network(lists, settings, plan, validate=validate, run=run))

    def _own_exponent(self) -> float:
        return self.exponent_ if self.exponent is None else self.exponent

    def _propose(self, X: Any, k: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        labels, log_odds = super()._propose(X, k)
        return labels, self.blocks_(labels, log_odds)

    def _get_state(self) -> State:
        state = super()._get_state()
        state.values |= {"exponent": float(self.exponent_), "validation": self.validation_}
        state.nest("blocks", self.blocks_.to_state())
        return state

    def _set_state(self, state: State) -> None:
        super()._set_state(state)
        self.exponent_, self.validation_ = float(state.values["exponent"]), state.values["validation"]
        self.blocks_ = ResidualBlocks.from_state(state.part("blocks"))


@dataclass(frozen=True, eq=False)
class Frontier:
    """PSP@1 against P@1 of held-out points as the exponent moves, and the P@1 that is to be left, `least`."""

    held: Candidates
    inverse_propensities: Floats
    least: float

    @classmethod
    def below_base(cls, held: Candidates, inverse_propensities: Floats, loss: float) -> Frontier:
        """`loss` of the P@1 that the points have without blocks and exponent is allowed."""
        frontier = cls.at_exponent(held, inverse_propensities, 0.0)
        return replace(frontier, least=frontier.least - loss)

    @classmethod
    def at_exponent(cls, held: Candidates, inverse_propensities: Floats, exponent: float) -> Frontier:
        """As much P@1 is to be left as this exponent leaves without blocks."""
        frontier = cls(held, inverse_propensities, np.nan)
        return replace(frontier, least=score(frontier._matches(held.log_odds, exponent), "P@1"))

    def height(self, log_odds: NDArray[Any]) -> float:
        """PSP@1 where the P@1 of these log-odds of the candidates has fallen to `least`.

        Where it is below that without any exponent: minus what is lacking.
        """
        precision, gain = self._measured(log_odds)
        if precision.max() < self.least:
            return float(precision.max() - self.least)
        return _at_precision(precision, gain, self.least)

    def exponent(self, log_odds: NDArray[Any]) -> float:
        """The largest exponent at which these log-odds of the candidates leave a P@1 of `least`."""
        precision, _ = self._measured(log_odds)
        return _at_precision(precision, _EXPONENTS, self.least)

    def _measured(self, log_odds: NDArray[Any]) -> tuple[Floats, Floats]:
        """P@1 and PSP@1 at every exponent."""
        matches = [self._matches(log_odds, exponent) for exponent in _EXPONENTS]
        precision, gain = (np.array([score(m, metric) for m in matches]) for metric in ("P@1", "PSP@1"))
        return precision, gain

    def _matches(self, log_odds: NDArray[Any], exponent: float) -> Matches:
        labels, inverse = self.held.labels, self.inverse_propensities
        ranked = best_of(labels, log_quotient(labels, log_odds, np.log(inverse), exponent), 1)
        return Matches.of(ranked, self.held.truth, inverse_propensities=inverse)


def _at_precision(precision: Floats, values: Floats, least: float) -> float:
    """The value at the last place where the precision is not below `least`, and a straight line on from there.

    Steps from one exponent to the next would hide small progress.
    """
    last = int(np.flatnonzero(precision >= least)[-1]) if (precision >= least).any() else 0
    if last + 1 == precision.size or precision[last] < least:
        return float(values[last])
    way = (precision[last] - least) / (precision[last] - precision[last + 1])
    return float(values[last] + way * (values[last + 1] - values[last]))
