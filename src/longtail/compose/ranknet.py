"""RankNet: a small network that re-ranks the best labels of a base."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail.compose.candidates import Candidates
from longtail.compose.price import Frontier
from longtail.compose.reranker import Reranker
from longtail.compose.residual import ResidualBlocks
from longtail.core.parameters import check_at_least_zero, check_positive, check_whole
from longtail.core.run import Run
from longtail.core.state import State
from longtail.errors import ParameterError

logger = logging.getLogger(__name__)

_HELD_OUT = 0.2  # share of the unseen points by which the epoch is chosen


@dataclass(kw_only=True, eq=False, repr=False)
class RankNet(Reranker):
    """Labels re-ranked by residual bottleneck blocks that are trained with a population-aware loss.

    "Improving tail label prediction for extreme multi-label learning", section 3.2. The scores of the best labels of
    the base become log-odds z. Blocks z <- W2 relu(W1 sigmoid(z)) + z, whose hidden units see which labels are proposed
    together, change them. Labels are ranked by `P / p_l^exponent` of the result, as `PropensityRerank` does without
    blocks.

    The network learns from points that the base has not seen. All of them choose the exponent, by the rule of
    `PropensityRerank`: it costs at most `max_precision_loss` of the P@1 of the base (or of another `price_metric`). A
    fifth of them, from which the network does not learn, choose the epoch with the best PSP@1 at that P@1; if no epoch
    is better than the start of the network, no blocks are used.

    Training needs the `deep` extra (torch), prediction does not. Scores are for ranking only.

    Parameters
    ----------
    base : Estimator or None, default None
        Any estimator; None stands for `DiSMEC`.
    max_precision_loss : float, default 1.0
        Percentage points of `price_metric` that the exponent may cost.
    price_metric : str, default "P@1"
        The metric in which the price is stated, e.g. "P@5" or "nDCG@5". The epoch is chosen by PSP at the same k.
    exponent : float or None, default None
        A number from 0 to 1 to use instead of the chosen one (`exponent_`). It may be changed after `fit`, or given to
        `predict`, without training again.
    blocks : int, default 1
        Number of blocks. With 0 only the exponent is chosen, and torch is not needed.
    units : int, default 64
        Hidden units per block.
    balance : float, default 1.0
        lambda of the population-aware loss.
    margin : float, default 1.0
        c of the population-aware loss.
    negatives : int, default 15
        Wrong candidates per point in each training step.
    anchor : float, default 100.0
        Weight of the cross-entropy that is added to the population-aware loss, which alone would not keep
        probabilities.
    shrink : float, default 10.0
        Penalty that keeps the network close to its start.
    dropout : float, default 0.2
        Dropout in training.
    epochs : int, default 15
        Largest number of epochs.
    patience : int, default 8
        Epochs without progress before training stops.
    learning_rate : float, default 1e-3
        Learning rate of the network.
    batch_size : int, default 256
        Points per training step.
    candidates : int, default 15
        Number of labels of the base that are re-ranked; see `PropensityRerank`.
    propensity : PropensityModel, (A, B), str or array, default PropensityModel(A=0.55, B=1.5)
        Propensity model, its parameters, the name of a preset, or one propensity per label.
    folds : int, default 3
        The base is trained this many times, each time without one fold of the points, which it then predicts, and once
        on all points.
    held_out : float or None, default None
        Share of the points to hold out from a single extra training, instead of folds (cheaper).
    sample : int, default 100,000
        Largest number of unseen points to use.
    prefit : bool, default False
        The base is already fitted and stays as it is; `fit` gets points that it has not seen.
    random_state : int, default 0
        Seed of the split and of the network.

    Attributes
    ----------
    base_ : Estimator
        Fitted base.
    exponent_ : float
        The exponent that was chosen.
    blocks_ : ResidualBlocks
        The trained blocks; none if they did not improve PSP@1.
    held_out_psp_ : dict of str to float
        PSP@1, or PSP at the k of `price_metric`, on held-out points at the start ("start") and after training
        ("trained").
    inverse_propensities_ : ndarray of shape (n_labels,)
        1 / p_l of each label.
    """

    max_precision_loss: float = 1.0
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
        if self.dropout >= 1:
            raise ParameterError(f"dropout is {self.dropout!r}, but must be a share of at least 0 and below 1")

    def _learn(self, unseen: Candidates, run: Run) -> Candidates:
        order = np.random.default_rng([self.random_state, 1]).permutation(len(unseen))
        size = max(round(_HELD_OUT * order.size), 1)
        held, learning = unseen[np.sort(order[:size])], unseen[np.sort(order[size:])]
        # Without blocks and by all points: the blocks keep log-odds, so an exponent trades P@1 for PSP@1 at the same
        # rate before and after them, while a fifth of the points would only give it to the nearest twentieth.
        self.exponent_ = self._chosen_exponent(unseen, self.max_precision_loss)
        frontier = Frontier.at_exponent(held, self.inverse_propensities_, self.exponent_, self.price_metric)
        start = frontier.height(held.log_odds)
        self.blocks_, self.held_out_psp_ = ResidualBlocks.none(self.n_labels_), {"start": start}
        if self.blocks == 0 or len(learning) == 0:
            return unseen
        blocks = self._trained(learning, frontier, run)
        changed = blocks(held.labels, held.log_odds)
        trained = self.held_out_psp_["trained"] = frontier.height(changed)
        logger.info("%s on held-out points: %.4f at the start, %.4f after training", frontier.gain, start, trained)
        if trained <= start:
            return unseen
        self.blocks_, self.exponent_ = blocks, min(self.exponent_, frontier.exponent(changed))
        return replace(held, log_odds=changed.astype(np.float64))

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
        # One thread: the network is small, and the result must not depend on the number of threads.
        plan = TrainingPlan(
            epochs=self.epochs, learning_rate=self.learning_rate, batch_size=self.batch_size, metric=frontier.gain,
            patience=self.patience, precision="float32", device="cpu", random_state=self.random_state, n_jobs=1,
        )  # fmt: skip
        held = frontier.held

        def validate(arrays: dict[str, Any]) -> dict[str, float]:
            return {frontier.gain: frontier.height(ResidualBlocks(rows, **arrays)(held.labels, held.log_odds))}

        return ResidualBlocks(rows, **train_ranking_network(lists, settings, plan, validate=validate, run=run))

    def _propose(self, X: Any, k: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        labels, log_odds = super()._propose(X, k)
        return labels, self.blocks_(labels, log_odds)

    def _shift(self, X: Any, label: int) -> float:
        labels, log_odds = super()._propose(X, 1)
        place = np.flatnonzero(labels[0] == label)
        return float((self.blocks_(labels, log_odds) - log_odds)[0, place[0]]) if place.size else 0.0

    def _get_state(self) -> State:
        state = super()._get_state()
        state.values["held_out_psp"] = self.held_out_psp_
        state.nest("blocks", self.blocks_.to_state())
        return state

    def _set_state(self, state: State) -> None:
        super()._set_state(state)
        self.held_out_psp_ = state.values["held_out_psp"]
        self.blocks_ = ResidualBlocks.from_state(state.part("blocks"), self.n_labels_)
