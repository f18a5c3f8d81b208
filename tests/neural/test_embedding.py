"""The embedding classifier and its training step, against plain NumPy versions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from torch.utils._python_dispatch import TorchDispatchMode

from longtail.neural import embedding, losses
from longtail.neural.device_csr import DeviceCsr
from longtail.neural.embedding import EmbeddingClassifier, EmbeddingTraining, SharedLengthLinear, _distinct
from longtail.neural.losses import LabelWeights
from longtail.neural.optimisers import Optimisers
from longtail.neural.plan import TrainingPlan
from longtail.neural.regularisers import CoOccurrence
from longtail.objectives import softmax_cross_entropy

N, D, L = 20, 15, 8


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.random((N, D)).astype(np.float32) * (rng.random((N, D)) < 0.4)
    Y = (rng.random((N, L)) < 0.25).astype(np.float32)
    Y[3] = 0
    return X, Y


def network(widths, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return EmbeddingClassifier(D, L, widths)


def training(data, widths=(6,), **changes):
    X, Y = (sparse.csr_matrix(part) for part in data)
    settings = {
        "loss": losses.softmax_cross_entropy, "weights": LabelWeights(None, Y.sum(0).A1, N), "co_occurrence": None,
        "regulariser": None, "strength": 1.0, "keep": 1.0, "negatives": 0, "labels_per_point": "sum",
    }  # fmt: skip
    return EmbeddingTraining(network(widths), DeviceCsr(X, "cpu"), DeviceCsr(Y, "cpu"), **(settings | changes))


def rows_of(X):
    return DeviceCsr(sparse.csr_matrix(X), "cpu").rows(torch.arange(len(X)))


def plain_embedding(net, X):
    x = X @ net.features.detach().numpy() + net.bias.detach().numpy()
    for layer in net.layers:
        W = layer.direction.detach().numpy()
        W = W / np.linalg.norm(W, axis=1, keepdims=True) * float(layer.length.detach())
        x = np.maximum(x, 0) @ W.T + layer.bias.detach().numpy()
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("widths", [(6,), (7, 6), (7, 5, 6)])
def test_points_are_unit_vectors_of_a_relu_network(data, widths):
    net = network(widths)
    with torch.no_grad():
        net.bias.add_(torch.linspace(-0.1, 0.2, widths[0]))
        for layer in net.layers:
            layer.length.mul_(1.7)
        found = net(rows_of(data[0]))
    np.testing.assert_allclose(found, plain_embedding(net, data[0]), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.norm(dim=1), 1, rtol=1e-5)


def test_every_output_of_a_layer_has_the_shared_length():
    layer = SharedLengthLinear(4, 3)
    rows = layer(torch.eye(4)) - layer.bias
    np.testing.assert_allclose(rows.detach().norm(dim=0), float(layer.length.detach()) * np.ones(3), rtol=1e-5)


def plain_scores(net, X):
    V = net.labels.detach().numpy()
    V = V / np.linalg.norm(V, axis=1, keepdims=True)
    return 20 * plain_embedding(net, X) @ V.T


def test_a_step_gives_the_mean_loss_over_its_points(data):
    X, Y = data
    step = training(data)
    points = torch.tensor([5, 3, 0, 11])
    scores = plain_scores(step.network, X[points])
    expected = np.mean([softmax_cross_entropy(s, y, np.ones(L)) for s, y in zip(scores, Y[points], strict=True)])
    assert float(step.training_step(points).detach()) == pytest.approx(expected, rel=1e-4)


def test_with_one_label_per_point_the_loss_is_on_average_that_of_the_mean(data):
    X, Y = data
    step = training(data, labels_per_point="one")
    points = torch.tensor([5, 3, 0, 11])
    scores = plain_scores(step.network, X[points])
    expected = 0.0
    for s, y in zip(scores, Y[points], strict=True):
        if y.any():
            expected += softmax_cross_entropy(s, y, np.ones(L) / y.sum()) / len(points)
    mean = training(data, labels_per_point="mean").training_step(points)
    assert float(mean.detach()) == pytest.approx(expected, rel=1e-4)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        drawn = [float(step.training_step(points)) for _ in range(400)]
    assert len({round(value, 4) for value in drawn}) > 1
    assert np.mean(drawn) == pytest.approx(expected, abs=3 * np.std(drawn) / 20)


def test_with_all_labels_drawn_sampling_changes_nothing(data):
    points = torch.arange(N)  # every label occurs
    assert data[1].any(0).all()
    full, sampled = training(data), training(data, negatives=3)
    torch.testing.assert_close(sampled.training_step(points), full.training_step(points))


def test_sampled_labels_are_the_batchs_own_and_some_others(data):
    step = training(data, negatives=2)
    seen = []
    step.loss = lambda scores, positives, *weights, stands_for: seen.append((positives, stands_for)) or scores.sum()
    points = torch.tensor([5, 0])
    step.training_step(points)
    own = np.flatnonzero(data[1][points].any(0))
    positives, stands_for = seen[0]
    assert len(stands_for) == own.size + 2
    assert stands_for[: own.size].tolist() == [1] * own.size
    assert positives.rows.tolist() == np.nonzero(data[1][points])[0].tolist()
    assert own[positives.columns.numpy()].tolist() == np.nonzero(data[1][points])[1].tolist()


@pytest.mark.parametrize("own", [[], [0], [7], [0, 1, 2], [2, 5, 6], [5, 6, 7], list(range(L))], ids=str)
@pytest.mark.parametrize("negatives", [1, 3, L])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_labels_are_drawn_from_all_that_the_batch_does_not_have(data, own, negatives, groups):
    step, others = training(data, negatives=negatives), sorted(set(range(L)) - set(own))
    size = min(negatives, len(others))
    times = np.zeros(L)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(200):
            drawn, share = step._others(torch.tensor(own, dtype=torch.int64), groups)
            assert drawn.shape == (max(min(groups, len(others) // size), 1) if size else 1, size)
            assert len(set(drawn.flatten().tolist())) == drawn.numel()
            assert share * size == pytest.approx(len(others))
            times[drawn[-1]] += share
    assert np.flatnonzero(times).tolist() == others
    assert (np.abs(times[others] - 200) < 4 * np.sqrt(200 * L)).all()


@pytest.mark.parametrize(("n", "size"), [(0, 0), (1, 1), (5, 5), (9, 2), (1000, 1), (1000, 30)])
def test_numbers_are_drawn_once_each_and_in_random_order(n, size):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draws = np.array([_distinct(n, size, torch.device("cpu")).tolist() for _ in range(3000)]).reshape(3000, size)
    assert all(len(set(draw)) == size for draw in draws.tolist())
    if size:
        assert draws.min() >= 0
        assert draws.max() < n
        places = draws.mean(0)  # each place is uniform over all numbers, so its mean is (n - 1) / 2
        assert (np.abs(places - (n - 1) / 2) <= 4 * n / np.sqrt(12 * 3000)).all()


def test_each_group_of_points_is_scored_against_its_own_draws(data, monkeypatch):
    monkeypatch.setattr(embedding, "_GROUPS", 2)
    step, seen = training(data, negatives=2), []
    points = torch.tensor([5, 0, 3])
    own = np.flatnonzero(data[1][points].any(0))
    others = torch.tensor(sorted(set(range(L)) - set(own)))[torch.tensor([[3, 0], [1, 2]])]
    step._others = lambda found, groups: (others, 2.0)
    step.loss = lambda scores, positives, *weights, stands_for: seen.append((scores, stands_for)) or scores.sum()
    step.training_step(points)
    scores, stands_for = (part.detach().numpy() for part in seen[0])
    everything = plain_scores(step.network, data[0][points])
    for i, group in enumerate([0, 0, 1]):
        expected = everything[i][[*own, *others[group].tolist()]]
        np.testing.assert_allclose(scores[i], expected, rtol=1e-4, atol=1e-4)
    assert stands_for.tolist() == [1] * len(own) + [2, 2]


@pytest.mark.parametrize("name", ["bce", "squared-hinge", "margin"])
def test_a_loss_that_is_a_sum_over_negatives_is_on_average_that_over_all_labels(data, name):
    points = torch.tensor([5, 3, 0])
    expected = float(training(data, loss=losses.LOSSES[name]).training_step(points).detach())
    step = training(data, loss=losses.LOSSES[name], negatives=1)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        found = [float(step.training_step(points)) for _ in range(400)]
    error = np.std(found) / np.sqrt(len(found))
    assert 0 < error < 0.05 * expected
    assert np.mean(found) == pytest.approx(expected, abs=3 * error)


def test_the_exponentials_inside_the_softmax_are_on_average_those_of_all_labels(data):
    """The sum inside the logarithm of the softmax loss, over the labels that a point does not have."""
    points = torch.tensor([5, 3, 0])
    step, sums = training(data, negatives=1), []

    def loss(scores, positives, own, opposite, *, stands_for):
        terms = (scores / 20).exp() * stands_for  # cosines: with the scale, single terms would drown the others
        sums.append(terms.index_put(positives, torch.zeros(())).sum(1).numpy())
        return scores.sum()

    step.loss = loss
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        for _ in range(400):
            step.training_step(points)
    terms = np.exp(plain_scores(step.network, data[0][points]) / 20)
    expected = (terms * (data[1][points] == 0)).sum(1)
    errors = np.std(sums, axis=0) / np.sqrt(len(sums))
    assert (np.abs(np.mean(sums, axis=0) - expected) < 3.5 * errors).all()


@pytest.mark.parametrize("widths", [(6,), (7, 6)])
@pytest.mark.parametrize("negatives", [0, 3])
def test_sparse_gradients_are_the_dense_ones_with_each_row_once(data, widths, negatives):
    gradients = []
    for sparse_ones in (False, True):
        step = training(
            data, widths, sparse=sparse_ones, negatives=negatives, regulariser="glas",
            co_occurrence=CoOccurrence(sparse.csr_matrix(data[1]), "cpu"),
        )  # fmt: skip
        with torch.random.fork_rng():
            torch.manual_seed(3)
            step.training_step(torch.tensor([5, 3, 0, 11])).backward()
        gradients.append({name: p.grad for name, p in step.named_parameters()})
    dense, found = gradients
    for name, gradient in found.items():
        rows = gradient._indices()[0] if gradient.is_sparse else torch.arange(0)
        assert len(rows) == len(rows.unique())
        torch.testing.assert_close(gradient.to_dense(), dense[name], rtol=1e-4, atol=1e-6)
    assert found["network.features"].is_sparse
    assert found["network.labels"].is_sparse == (negatives > 0)


class Written(TorchDispatchMode):
    """Count the values that operations write: new tensors and those changed in place, but not views."""

    def __init__(self):
        super().__init__()
        self.values = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        found = operation(*args, **(kwargs or {}))
        if operation.is_view:
            return found
        if operation == torch.ops.aten.index_put_.default:  # returns the whole table, but writes some of its rows
            self.values += args[2].numel()
            return found
        for result in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(result, torch.Tensor) and result.layout == torch.strided:
                self.values += result.numel()
        return found


def step_among(data, n_labels, **changes):
    """Return a training step on data whose labels are the first of `n_labels`."""
    X, Y = (sparse.csr_matrix(part) for part in data)
    many = sparse.csr_matrix((Y.data, Y.indices, Y.indptr), shape=(N, n_labels))
    settings = {
        "loss": losses.softmax_cross_entropy, "co_occurrence": CoOccurrence(many, "cpu"), "regulariser": "glas",
        "weights": LabelWeights(None, np.bincount(Y.indices, minlength=n_labels), N), "strength": 1.0, "keep": 1.0,
        "labels_per_point": "mean",
    }  # fmt: skip
    net = EmbeddingClassifier(D, n_labels, (6,))
    return EmbeddingTraining(net, DeviceCsr(X, "cpu"), DeviceCsr(many, "cpu"), **(settings | changes))


def test_what_a_step_touches_does_not_grow_with_the_labels(data):
    """The same batch among ever more labels: rows with a gradient, rows updated, and columns of the scores."""
    points, touched = torch.tensor([5, 3, 0, 11]), []
    own = int(data[1][points].any(0).sum())
    for n_labels in (L, 100 * L, 10_000 * L):
        step = step_among(data, n_labels, negatives=5)
        labels = step.network.labels
        optimisers = Optimisers(step, TrainingPlan())
        before = labels.detach().clone()
        step.training_step(points).backward()
        rows = labels.grad._indices()[0]
        optimisers.step(1.0)
        touched.append(len(rows))
        assert int((labels != before).any(1).sum()) <= len(rows) <= own + 5 * len(points)
    assert touched[1:] == [own + 5 * len(points)] * 2


def test_the_work_of_a_step_does_not_grow_with_the_labels(data):
    """All values that a step writes, its update included, as GLaS draws labels by default above 16,000 of them."""
    points, work = torch.arange(N), []
    own = int(data[1].any(0).sum())
    for n_labels in (16_001, 50_000, 200_000):
        step = step_among(data, n_labels, negatives=1000)
        optimisers = Optimisers(step, TrainingPlan())
        for _ in range(2):  # the first step makes the state of the optimisers, which has a row per label
            optimisers.clear_gradients()
            with Written() as written:
                step.training_step(points).backward()
                touched = step.network.labels.grad._indices().shape[1]
                optimisers.step(1.0)
        assert touched == own + 1000 * min(16, (n_labels - own) // 1000)
        work.append(written.values)
    assert max(work) < 1.1 * min(work)  # 15 groups fit into 16,001 labels, 16 into more


@pytest.mark.parametrize("regulariser", ["glas", "spread-out", "gravity"])
def test_the_regulariser_is_added_with_its_strength(data, regulariser):
    U = CoOccurrence(sparse.csr_matrix(data[1]), "cpu")
    points = torch.arange(N)
    values = []
    for strength in (0.0, 1.0, 3.0):
        step = training(data, regulariser=regulariser, strength=strength, co_occurrence=U)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            values.append(float(step.training_step(points).detach()))
    assert values[1] > values[0]
    assert values[2] - values[0] == pytest.approx(3 * (values[1] - values[0]), rel=1e-2)


def test_input_dropout_drops_features_and_keeps_their_sum_on_average(data):
    step = training(data, keep=0.5)
    seen = []
    forward = step.network.forward
    step.network.forward = lambda rows, **how: seen.append(rows.values) or forward(rows, **how)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(300):
            step.training_step(torch.arange(N))
    values = torch.stack(seen)
    full = rows_of(data[0]).values
    assert ((values == 0) | torch.isclose(values, 2 * full)).all()
    assert (values == 0).float().mean() == pytest.approx(0.5, abs=0.02)


def test_forgotten_features_have_no_weight(data):
    net = network((6,))
    net.forget_features(torch.arange(D) == 4)
    changed = data[0].copy()
    changed[:, 4] = 9
    with torch.no_grad():
        np.testing.assert_array_equal(net(rows_of(changed)), net(rows_of(data[0] * (np.arange(D) != 4))))


def test_a_batch_of_points_without_labels_has_loss_0(data):
    step = training(data, regulariser="glas", co_occurrence=CoOccurrence(sparse.csr_matrix(data[1]), "cpu"))
    assert float(step.training_step(torch.tensor([3])).detach()) == 0
