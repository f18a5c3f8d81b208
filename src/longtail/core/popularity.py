"""The baseline that ignores features: every point gets the most frequent labels."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longtail.core.estimator import Estimator, Prepared
from longtail.core.fallback import label_shares
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State


class Popularity(Estimator):
    """The same ranking for every point: labels by number of training points.

    The score of a label is the share of training points that have it; a label of relevance 0.5 is half a point. This is
    the Popularity baseline of table 3 in Jain et al. (2016).

    Attributes
    ----------
    scores_ : ndarray of shape (n_labels,)
        Score of each label; -inf for labels without training points.
    """

    score_scale = "probability"

    def takes_relevances(self) -> bool:
        return True

    def _fit(self, prepared: Prepared, run: Run) -> None:
        relevances = np.bincount(prepared.Y.indices, prepared.Y.data, minlength=self.n_labels_)
        self.scores_ = label_shares(relevances, self.n_points_)

    def _predict(self, X: sparse.csr_matrix, k: int) -> Predictions:
        best = Predictions.from_dense(self.scores_[None, :], k)
        return best[np.zeros(X.shape[0], dtype=np.intp)]

    def _unreadable(self, X: sparse.csr_matrix) -> None:
        return None  # features do not matter, so a point without any is like all others

    def _get_state(self) -> State:
        return State(arrays={"scores": self.scores_})

    def _set_state(self, state: State) -> None:
        self.scores_ = state.array("scores", np.float32, (self.n_labels_,))
