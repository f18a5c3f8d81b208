"""The embedding classifier and its training step, against plain NumPy versions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from longtail.neural import losses
from longtail.neural.device_csr import DeviceCsr
from longtail.neural.embedding import EmbeddingClassifier, EmbeddingTraining, SharedLengthLinear
from longtail.neural.losses import LabelWeights
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
    step.loss = lambda scores, positives, *weights: seen.append((scores.shape[1], positives)) or scores.sum()
    points = torch.tensor([5, 0])
    step.training_step(points)
    own = np.flatnonzero(data[1][points].any(0))
    width, positives = seen[0]
    assert own.size <= width <= own.size + 2
    assert positives.rows.tolist() == np.nonzero(data[1][points])[0].tolist()


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
    step.network.forward = lambda rows: seen.append(rows.values) or forward(rows)
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
