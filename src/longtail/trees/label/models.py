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
from longtail.core.explanation import Explanation
from longtail.core.fingerprint import data_fingerprint, fingerprint
from longtail.core.inputs import check_labels
from longtail.core.parameters import check_at_least_zero, check_choice, check_positive, check_whole
from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.core.state import State
from longtail.core.threads import in_threads, thread_count
from longtail.errors import DataError, ModelError, ParameterError
from longtail.linear.options import SolverOptions
from longtail.objectives import resolve_weighting
from longtail.trees.label.clustering import balanced_clusters, k_clusters
from longtail.trees.label.explain import explained
from longtail.trees.label.hierarchy import tree_from_hierarchy
from longtail.trees.label.nodes import NodeTrainer, train_nodes, trained_nodes
from longtail.trees.label.representation import REPRESENTATIONS, label_representation
from longtail.trees.label.search import search
from longtail.trees.label.tree import LabelTree, Split, grow
from longtail.trees.label.weights import TreeModel

Plan = Callable[[int], LabelTree]

POWERS = (1, 2, 3, 4)
_EARLIER_POWER = 2  # of models that were saved before it could be chosen


@dataclass(kw_only=True, eq=False, repr=False)
class LabelTreeModel(Estimator):
    """Base of Parabel and Bonsai: label trees with a linear classifier for every child of every node.

    The classifiers of a node train on the points that have a label below the node. The score of a label is the mean
    over trees of exp(-sum of [1 - w.x]+^power along its path), in (0, 1]. Labels that no beam reaches are not
    predicted, so a row may end in padding. Labels without training points are in no tree.
    """

    adjustable = free_on_resume = ("beam", "power")
    trains_in_parts = True

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
    power: int = 2
    n_jobs: int = -1
    random_state: int = 0

    trees_: list[TreeModel] = field(init=False)
    # Number of trees trained so far, removed ones included; the next tree gets this number.
    n_trained_: int = field(init=False)

    @abstractmethod
    def _split(self, rows: sparse.csr_matrix) -> Split:
        """Return how to split the labels of a node, given the representations of all labels."""

    def _representation(self) -> str:
        return "pifa"

    def _max_depth(self) -> int | None:
        return None

    def add_tree(self, X: Any, Y: Any, *, run: Run | None = None) -> Self:
        """Train one more tree, on the data of `fit` or on newer data with the same features and labels.

        Parameters
        ----------
        X : sparse matrix or array
            CSR or dense features.
        Y : sparse matrix, array or list of lists
            A 0/1 matrix, or one list of label ids per point.
        run : Run, optional
            Where to show progress and where to keep finished trees.

        Returns
        -------
        self
        """
        self.check_fitted()
        self.check_parameters()
        X = self._check_X(X, fitted=True)
        Y = check_labels(Y, n_points=X.shape[0], n_labels=self.n_labels_)
        run = run or Run()
        self._open_job(run, data_fingerprint(X, Y), first=self.n_trained_)
        self._train_trees(X, Y, run, 1)
        return self

    def remove_tree(self, i: int) -> Self:
        """Remove a tree; a model keeps at least one.

        Parameters
        ----------
        i : int
            Position of the tree in `trees_`, from 0.

        Returns
        -------
        self
        """
        self.check_fitted()
        if isinstance(i, bool) or not isinstance(i, (int, np.integer)) or not 0 <= i < len(self.trees_):
            raise ParameterError(f"there is no tree {i!r}; trees are numbered from 0 to {len(self.trees_) - 1}")
        if len(self.trees_) == 1:
            raise ParameterError("cannot remove the last tree; a model needs at least one")
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
        check_whole("power", self.power, 1)
        check_choice("power", self.power, POWERS)
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

        def trained(numbered: tuple[int, TreeModel | LabelTree]) -> TreeModel:
            number, tree = numbered
            if isinstance(tree, LabelTree):
                tree = self._trained_tree(X, Y, tree, number, run)
                if run.checkpoint:
                    run.checkpoint.put(f"tree-{number:04d}", tree.to_arrays())
            return tree

        numbers = range(self.n_trained_, self.n_trained_ + n_trees)
        # The next tree is grown while the nodes of this one train.
        with in_threads(saved_or_grown, numbers, n_jobs=self.n_jobs, ahead=2) as trees:
            for tree in run.each(trained, zip(numbers, trees, strict=True)):
                self.trees_ = [*self.trees_, tree]
                self.n_trained_ += 1

    def _seed(self, number: int) -> int:
        return int(np.random.SeedSequence([self.random_state, number]).generate_state(1)[0])

    def _plan(self, X: sparse.csr_matrix, Y: sparse.csr_matrix, with_points: NDArray[np.bool_]) -> Plan:
        """Return a function from seeds to trees: always the hierarchy, or another clustering per seed."""
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
        bundles = trainer.bundles()
        shape = np.frombuffer(fingerprint(tree.child_start, tree.child).encode(), np.uint8)
        with run.map(
            train_nodes, bundles, shared=trainer, name=f"nodes-{number:04d}", title=f"training tree {number + 1}",
            sizes=[nodes.size for nodes in bundles], mark=lambda nodes: shape, n_jobs=self.n_jobs,
            # The root and its children take longest; other nodes must not wait for them.
            ahead=len(bundles), memory=trainer.memory(), keep=False,
        ) as results:  # fmt: skip
            return TreeModel.of(tree, [node for arrays in results for node in trained_nodes(arrays)])

    def _predict(self, X: sparse.csr_matrix, k: int) -> Predictions:
        return search(
            X, self.trees_, k, n_labels=self.n_labels_, beam=self.beam, power=int(self.power), n_jobs=self.n_jobs
        )

    def _explain(self, X: sparse.csr_matrix, label: int) -> Explanation:
        return explained(X, self.trees_, label, int(self.power))

    def _get_state(self) -> State:
        state = State({"n_trained": self.n_trained_, "n_trees": len(self.trees_), "power": int(self.power)})
        for i, tree in enumerate(self.trees_):
            state.nest(f"tree{i}", State(arrays=tree.to_arrays()))
        return state

    def _set_state(self, state: State) -> None:
        self.power = state.whole("power") if "power" in state.values else _EARLIER_POWER
        if self.power not in POWERS:
            raise ModelError(f"power is {self.power}, but must be one of {', '.join(map(str, POWERS))}")
        self.n_trained_ = state.whole("n_trained")
        self.trees_ = [TreeModel.from_state(state.part(f"tree{i}")) for i in range(state.whole("n_trees", 1))]

    def _check_learned(self) -> None:
        for tree in self.trees_:
            tree.check(self.n_features_in_, self.n_labels_)


@dataclass(kw_only=True, eq=False, repr=False)
class Parabel(LabelTreeModel):
    """Balanced label trees (Prabhu et al. 2018).

    Labels are halved by balanced spherical 2-means until at most `max_leaf` are left; every child of every node has a
    linear classifier.

    Parameters
    ----------
    n_children : int, default 16
        Children of an inner node, a power of two. With 16, four halvings make one node; with 2 the tree is binary, as
        in the paper.
    n_trees : int, default 3
        Number of trees; each starts its clusterings from other random labels.
    max_leaf : int, default 100
        Nodes with more labels are split.
    hierarchy : array_like, mapping or None, default None
        Tree to use instead of clustering, with `n_trees=1`: one parent per label, as an array of ids (-1 for none) or
        as a mapping by label name (by id if the data has no names).
    weighting : None, str or object, default None
        None, "pw", "pw-cb", "pw-cb:0.5" (a strength) or an object of `longtail.objectives`. In an inner node, the
        points below a child count as its positives.
    C : float, default 1.0
        Cost of the loss of the node classifiers, in LIBLINEAR's scaling (see `DiSMEC`).
    bias : float, default 0.2
        Value of the constant feature; 0 for none.
    tol : float, default 0.01
        Relative duality gap at which the training of a classifier ends.
    max_passes : int, default 20
        Passes over the points of a node, at most.
    prune : float, default 0.1
        Weights below this absolute value are dropped.
    beam : int or None, default 10
        Nodes kept per level of the search; None for all (exact and slow). It may be changed after `fit`, or given to
        `predict`.
    power : int, default 3
        Power of the hinge in scores, 1 to 4: with a higher one, edges that are a little below their margin cost less,
        and edges far below it more. It may be changed after `fit`, or given to `predict`.
    n_jobs : int, default -1
        Number of threads, -1 for all cores. The model does not depend on it.
    random_state : int, default 0
        Seed of the clusterings and of the order in which points are visited.

    Attributes
    ----------
    trees_ : list of TreeModel
        Trained trees.
    n_trained_ : int
        Number of trees trained so far, removed ones included.

    Notes
    -----
    Labels are compared by the sum of the unit-length features of their points (section 4.1). The classifiers of a node
    have the squared hinge loss and train on the points that have a label below the node (section 4.2). The score of a
    label is the mean over trees of exp(-sum of [1 - w.x]+^power along its path), in (0, 1] (section 4.3, where the
    power is 2). Labels that no beam reaches are not predicted: a row may end in padding.
    """

    n_children: int = 16
    tol: float = 0.01
    power: int = 3

    def check_parameters(self) -> None:
        super().check_parameters()
        check_whole("n_children", self.n_children, 2)
        if int(self.n_children).bit_count() != 1:
            raise ParameterError(f"n_children is {self.n_children}, but must be a power of two: 2, 4, 8, 16, ...")

    def _split(self, rows: sparse.csr_matrix) -> Split:
        return lambda labels, rng: balanced_clusters(rows, labels, int(self.n_children), self.max_leaf, rng)


@dataclass(kw_only=True, eq=False, repr=False)
class Bonsai(LabelTreeModel):
    """Wide, shallow label trees from k-means without balancing (Khandagale, Xiao and Babbar 2020).

    Parameters
    ----------
    n_children : int, default 100
        Clusters that a node is split into; for a node with fewer labels, as many as it has labels.
    max_leaf : int, default 100
        Nodes with more labels are split.
    max_depth : int, default 3
        Levels of nodes. A node at the last level keeps all its labels, however many.
    representation : {"pifa", "output", "joint"}, default "pifa"
        What labels are compared by: the features of their points, the labels of their points, or both.
    n_trees : int, default 3
        Number of trees; each starts its clusterings from other random labels.
    hierarchy : array_like, mapping or None, default None
        Tree to use instead of clustering, with `n_trees=1`: one parent per label, as an array of ids (-1 for none) or
        as a mapping by label name (by id if the data has no names).
    weighting : None, str or object, default None
        None, "pw", "pw-cb", "pw-cb:0.5" (a strength) or an object of `longtail.objectives`. In an inner node, the
        points below a child count as its positives.
    C : float, default 1.0
        Cost of the loss of the node classifiers, in LIBLINEAR's scaling (see `DiSMEC`).
    bias : float, default 0.2
        Value of the constant feature; 0 for none.
    tol : float, default 0.1
        Relative duality gap at which the training of a classifier ends.
    max_passes : int, default 20
        Passes over the points of a node, at most.
    prune : float, default 0.1
        Weights below this absolute value are dropped.
    beam : int or None, default 10
        Nodes kept per level of the search; None for all (exact and slow). It may be changed after `fit`, or given to
        `predict`.
    power : int, default 2
        Power of the hinge in scores, 1 to 4: with a higher one, edges that are a little below their margin cost less,
        and edges far below it more. It may be changed after `fit`, or given to `predict`.
    n_jobs : int, default -1
        Number of threads, -1 for all cores. The model does not depend on it.
    random_state : int, default 0
        Seed of the clusterings and of the order in which points are visited.

    Attributes
    ----------
    trees_ : list of TreeModel
        Trained trees.
    n_trained_ : int
        Number of trees trained so far, removed ones included.

    Notes
    -----
    Node classifiers and scores are those of `Parabel`. In shallow trees fewer errors add up along a path; in clusters
    of any size similar labels stay together (section 3.2).
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
