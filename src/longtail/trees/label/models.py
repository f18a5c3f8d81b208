"""Parabel and Bonsai: linear classifiers along label trees, with the propensity weightings of Qaraei et al."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core.estimator import Estimator, Prepared
from longtail.core.fingerprint import data_fingerprint
from longtail.core.inputs import check_labels
from longtail.core.parameters import check_at_least_zero, check_choice, check_positive, check_whole
from longtail.core.predictions import Predictions
from longtail.core.progress import reported
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.threads import in_threads, thread_count
from longtail.errors import DataError, ParameterError
from longtail.linear.solver import SolverOptions
from longtail.objectives import resolve_weighting
from longtail.trees.label.clustering import k_clusters, two_balanced_clusters
from longtail.trees.label.hierarchy import tree_from_hierarchy
from longtail.trees.label.nodes import NodeTrainer
from longtail.trees.label.representation import REPRESENTATIONS, label_representation
from longtail.trees.label.search import search
from longtail.trees.label.tree import LabelTree, Split, grow
from longtail.trees.label.weights import TreeModel

Plan = Callable[[int], LabelTree]


@dataclass(kw_only=True, eq=False, repr=False)
class LabelTreeModel(Estimator):
    """What Parabel and Bonsai share: trees of labels with a linear classifier for every child of every node.

    A node's classifiers train on the points that carry a label below the node. The score of a label is the mean over
    trees of exp(-sum of [1 - w.x]+^2 along its path), in (0, 1]; labels that no beam reaches are not predicted, so a
    row may end in padding. Labels without training points are in no tree.
    """

    adjustable = free_on_resume = ("beam",)

    n_trees: int = 3
    max_leaf: int = 100
    hierarchy: Any = None
    weighting: Any = None
    C: float = 1.0
    bias: float = 0.2
    tol: float = 0.1
    max_passes: int = 20
    prune: float = 0.1
    beam: int | None = 10
    n_jobs: int = -1
    random_state: int = 0

    trees_: list[TreeModel] = field(init=False)
    # Trees ever trained: the next one takes this as its number, also after others were removed.
    n_trained_: int = field(init=False)

    @abstractmethod
    def _split(self, rows: sparse.csr_matrix) -> Split:
        """How a node's labels are parted, given the representations of all labels."""

    def _representation(self) -> str:
        return "pifa"

    def _max_depth(self) -> int | None:
        return None

    def add_tree(self, X: Any, Y: Any, *, run: Run | None = None) -> Self:
        """Train one more tree, on the data of `fit` or on newer data with the same features and labels."""
        self.check_fitted()
        self.check_parameters()
        X = self._check_X(X, fitted=True)
        Y = check_labels(Y, n_points=X.shape[0], n_labels=self.n_labels_)
        run = run or Run()
        self._open_job(run, data_fingerprint(X, Y), first=self.n_trained_)
        self._train_trees(X, Y, run, 1)
        return self

    def remove_tree(self, i: int) -> Self:
        """Drop tree number i (0 is the first); the last one stays."""
        self.check_fitted()
        if isinstance(i, bool) or not isinstance(i, (int, np.integer)) or not 0 <= i < len(self.trees_):
            raise ParameterError(f"there is no tree {i!r}; trees are numbered from 0 to {len(self.trees_) - 1}")
        if len(self.trees_) == 1:
            raise ParameterError("a model needs at least one tree; this is its last")
        self.trees_ = [tree for j, tree in enumerate(self.trees_) if j != i]
        return self

    def check_parameters(self) -> None:
        check_positive(C=self.C, tol=self.tol)
        check_at_least_zero(bias=self.bias, prune=self.prune)
        for name in ("n_trees", "max_leaf", "max_passes"):
            check_whole(name, getattr(self, name), 1)
        check_whole("random_state", self.random_state, 0)
        if self.beam is not None:
            check_whole("beam", self.beam, 1)
        if self.hierarchy is not None and self.n_trees != 1:
            raise ParameterError(f"n_trees is {self.n_trees}, but a hierarchy is one tree; set n_trees to 1")
        thread_count(self.n_jobs)
        weighting = resolve_weighting(self.weighting)
        if not weighting.bounded:
            raise ParameterError(
                f"{type(self).__name__} cannot train with weighting={self.weighting!r}: {weighting.why_unbounded}"
            )

    def _fit(self, prepared: Prepared, run: Run) -> None:
        self.trees_, self.n_trained_ = [], 0
        self._train_trees(prepared.X, prepared.Y, run, self.n_trees)

    def _train_trees(self, X: sparse.csr_matrix, Y: sparse.csr_matrix, run: Run, n_trees: int) -> None:
        with_points = np.bincount(Y.indices, minlength=Y.shape[1]) > 0
        if not with_points.any():
            raise DataError("there is nothing to learn from: no point has a label")
        plan = self._plan(X, Y, with_points)

        def saved_or_grown(number: int) -> TreeModel | LabelTree:
            saved = run.checkpoint.get(f"tree-{number:04d}") if run.checkpoint else None
            return plan(self._seed(number)) if saved is None else TreeModel(**saved)

        numbers = range(self.n_trained_, self.n_trained_ + n_trees)
        # The next tree is grown while the nodes of this one train.
        with in_threads(saved_or_grown, numbers, n_jobs=self.n_jobs, ahead=2) as trees:
            for number, tree in zip(numbers, trees, strict=True):
                if isinstance(tree, LabelTree):
                    tree = self._trained_tree(X, Y, tree, number, run)
                    if run.checkpoint:
                        run.checkpoint.put(f"tree-{number:04d}", tree.to_arrays())
                self.trees_ = [*self.trees_, tree]
                self.n_trained_ = number + 1

    def _seed(self, number: int) -> int:
        return int(np.random.SeedSequence([self.random_state, number]).generate_state(1)[0])

    def _plan(self, X: sparse.csr_matrix, Y: sparse.csr_matrix, with_points: NDArray[np.bool_]) -> Plan:
        """From a seed to a tree: always the hierarchy, or another clustering for each seed."""
        if self.hierarchy is not None:
            given = tree_from_hierarchy(self.hierarchy, Y.shape[1], self.label_names_, with_points)
            return lambda seed: given
        split = self._split(label_representation(X, Y, self._representation()))
        labels = np.flatnonzero(with_points).astype(np.int32)
        return lambda seed: grow(
            labels, split, max_leaf=self.max_leaf, max_depth=self._max_depth(), seed=seed, n_jobs=self.n_jobs
        )

    def _trained_tree(
        self, X: sparse.csr_matrix, Y: sparse.csr_matrix, tree: LabelTree, number: int, run: Run
    ) -> TreeModel:
        options = SolverOptions("squared-hinge", self.C, self.bias, self.tol, self.max_passes, self.prune)
        trainer = NodeTrainer(X, Y, tree, options, resolve_weighting(self.weighting), self._seed(number))
        nodes = []
        with (
            reported(run.progress, f"training tree {number + 1}", tree.n_nodes) as advance,
            # The root and its children take longest; the others must not wait for them.
            in_threads(trainer.train, range(tree.n_nodes), n_jobs=self.n_jobs, ahead=tree.n_nodes) as trained,
        ):
            for node in trained:
                nodes.append(node)
                advance()
        return TreeModel.of(tree, nodes)

    def _predict(self, X: sparse.csr_matrix, k: int) -> Predictions:
        return search(X, self.trees_, k, n_labels=self.n_labels_, beam=self.beam, n_jobs=self.n_jobs)

    def _get_state(self) -> State:
        state = State({"n_trained": self.n_trained_, "n_trees": len(self.trees_)})
        for i, tree in enumerate(self.trees_):
            state.nest(f"tree{i}", State(arrays=tree.to_arrays()))
        return state

    def _set_state(self, state: State) -> None:
        self.n_trained_ = int(state.values["n_trained"])
        self.trees_ = [TreeModel(**state.part(f"tree{i}").arrays) for i in range(int(state.values["n_trees"]))]


@dataclass(kw_only=True, eq=False, repr=False)
class Parabel(LabelTreeModel):
    """Balanced binary label trees (Prabhu et al. 2018).

    n_trees: trees, each from other random seeds of the clustering. max_leaf: nodes with more labels are parted in two.
    hierarchy: the tree to use instead of clustering (with n_trees=1): for each label its parent, as an array of ids (-1
        for none) or a mapping by label name (by id where the data have no names).
    weighting: None, "pw", "pw-cb" or an object of `longtail.objectives`; in the nodes by the number of points below.
    C, bias, tol, max_passes: of the node classifiers, as in `DiSMEC`. prune: weights below this absolute value are
        dropped. beam: nodes kept at each level of the search, None for all (exact, slow).
    n_jobs: threads, -1 for all cores; the model does not depend on it.
    """

    def _split(self, rows: sparse.csr_matrix) -> Split:
        return lambda labels, rng: two_balanced_clusters(rows, labels, rng)


@dataclass(kw_only=True, eq=False, repr=False)
class Bonsai(LabelTreeModel):
    """Wide, shallow label trees from plain k-means (Khandagale, Xiao and Babbar 2020).

    n_children: clusters that a node is parted into; a node with fewer labels, into as many as it has labels.
    max_leaf: nodes with more labels are parted. max_depth: levels of nodes; at the last one a node holds its labels,
        however many.
    representation: what labels are clustered by: "pifa" (the features of their points), "output" (the labels of their
        points) or "joint" (both).
    The other parameters are those of `Parabel`.
    """

    n_children: int = 100
    max_depth: int = 3
    representation: str = "pifa"

    def check_parameters(self) -> None:
        super().check_parameters()
        check_whole("n_children", self.n_children, 2)
        check_whole("max_depth", self.max_depth, 1)
        check_choice("representation", self.representation, REPRESENTATIONS)

    def _split(self, rows: sparse.csr_matrix) -> Split:
        return lambda labels, rng: k_clusters(rows, labels, min(self.n_children, labels.size), rng)

    def _representation(self) -> str:
        return self.representation

    def _max_depth(self) -> int:
        return self.max_depth
