"""Parts of the text networks against independent computations."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from scipy import sparse

from contract.planted import word
from longtail.neural.losses import LOSSES, LabelWeights, Positives
from longtail.neural.text.aplcxlnet_network import AdaptiveClusters
from longtail.neural.text.clusters import label_clusters, points_of_clusters, token_features
from longtail.neural.text.encoder import TextEncoder
from longtail.neural.text.label_head import LabelHead, encoded, name_table
from longtail.neural.text.quantise import Int8Linear, quantised
from longtail.neural.text.tokeniser import EncoderTokeniser
from longtail.neural.text.tokens import Tokens
from neural.text.text_models import CLUSTERED, TEST, TRAIN, xgrank
from neural.text.tiny import planted_encoder


def test_one_long_label_text_does_not_widen_the_whole_table():
    table = name_table(Tokens.of([np.arange(100_000), np.arange(3)]))
    assert table.tolist() == [list(range(16)), [0, 1, 2, *[-1] * 13]]


def test_labels_without_points_fill_clusters_up_and_then_make_their_own():
    tokens = Tokens.of([[label] for label in range(5)])
    Y = sparse.csr_matrix(np.eye(5, 100_000, dtype=np.float32))
    members = label_clusters(token_features(tokens), Y, 4, seed=0)
    assert members.shape == (25_000, 4)
    assert sorted(members.flatten().tolist()) == list(range(100_000))


def test_label_clusters_keep_every_label_once_and_similar_ones_together():
    tokens = Tokens.of([[label // 2, label // 2, 6 + label % 2] for label in range(6) for _ in range(4)])
    Y = sparse.csr_matrix(np.eye(6, dtype=np.float32)[np.repeat(np.arange(6), 4)])
    before = tokens.ids.copy()
    members = label_clusters(token_features(tokens), Y, 2, seed=0)
    np.testing.assert_array_equal(tokens.ids, before)
    kept = members[members >= 0].tolist()
    assert sorted(kept) == list(range(6))
    assert members.shape[1] == 2
    above = points_of_clusters(Y, members).toarray()
    assert above.sum() == 24
    for cluster, labels in enumerate(members.tolist()):
        for label in labels:
            assert label < 0 or above[4 * label, cluster] == 1


def test_candidate_scores_are_those_of_all_labels():
    torch.manual_seed(0)
    names = torch.tensor([[0, 2], [1, -1], [-1, -1]])
    head = LabelHead(6, torch.zeros(3), label_width=4, names=names, name_width=5)
    h, words = torch.randn(2, 6), torch.randn(3, 5)
    every = head(h, words)
    candidates = torch.tensor([[2, 0], [1, 1]])
    torch.testing.assert_close(head(h, words, candidates), every.gather(1, candidates))
    of_names = torch.stack([(words[0] + words[2]) / 2, words[1], torch.zeros(5)])
    expected = head.map(h) @ head.identity.T + head.name_map(h) @ of_names.T
    torch.testing.assert_close(every, expected)


def test_the_encoder_compares_texts_of_labels_with_its_last_layer():
    encoder = TextEncoder.load(planted_encoder(), pooling="mean", layers=2)
    tokeniser = EncoderTokeniser.load(planted_encoder(), 32)
    texts = [word(3), f"{word(4)} {word(5)} {word(6)}", word(3)]
    done: list[object] = []
    shown = SimpleNamespace(
        start=lambda *task: done.append(task), advance=done.append, finish=lambda: done.append("finished")
    )
    vectors = encoded(encoder, tokeniser.tokens(texts), tokeniser.pad, torch.device("cpu"), progress=shown)
    assert done == [("reading label texts", 3), 3, "finished"]
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3))
    torch.testing.assert_close(vectors[0], vectors[2])
    with torch.no_grad():
        alone = encoder.eval()(torch.tensor([tokeniser.pieces(texts[1])[0]]), None)[0]
    torch.testing.assert_close(vectors[1], torch.nn.functional.normalize(alone[-vectors.shape[1] :], dim=0))
    head = LabelHead(encoder.width, torch.tensor([1.0, 2.0, 3.0]), text_vectors=vectors)
    head.identity.data.zero_()
    h = torch.randn(2, encoder.width)
    every = head(h, encoder.word_vectors)
    torch.testing.assert_close(every, h[:, -vectors.shape[1] :] @ vectors.T + torch.tensor([1.0, 2.0, 3.0]))
    candidates = torch.tensor([[2, 0], [1, 1]])
    torch.testing.assert_close(head(h, encoder.word_vectors, candidates), every.gather(1, candidates))


def test_adaptive_clusters_give_the_loss_of_their_definition():
    """The head has one node per tail; a tail counts only for points with a label in it."""
    torch.manual_seed(0)
    clusters = AdaptiveClusters(8, [2, 4], torch.zeros(7), torch.zeros(2))
    h = torch.randn(3, 8)
    targets = torch.tensor([[1, 0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 1, 1], [1, 0, 0, 0, 0, 0, 0]])
    none = LabelWeights(None, np.ones(7), 3), LabelWeights(None, np.ones(2), 3)
    found = clusters.loss(h, Positives.of(targets), LOSSES["bce"], *none)
    bce = torch.nn.functional.binary_cross_entropy_with_logits
    nodes = torch.stack([targets[:, 2:4].any(1), targets[:, 4:].any(1)], 1)
    expected = bce(clusters.head(h), torch.cat([targets[:, :2], nodes], 1).float(), reduction="sum")
    expected = expected + bce(clusters.tails[0](h[[0]]), targets[[0], 2:4].float(), reduction="sum")
    expected = expected + bce(clusters.tails[1](h[[1]]), targets[[1], 4:].float(), reduction="sum")
    torch.testing.assert_close(found, expected / 3)
    probability = torch.sigmoid(clusters.head(h))
    tail = probability[:, [2]] * torch.sigmoid(clusters.tails[0](h))
    torch.testing.assert_close(clusters(h)[:, 2:4].exp(), tail)


def test_eight_bit_layers_are_close_and_predictions_with_them_agree():
    torch.manual_seed(0)
    linear = torch.nn.Linear(64, 32)
    x = torch.randn(5, 3, 64)
    exact = linear(x)
    error = (quantised(torch.nn.Sequential(linear))(x) - exact).abs().max() / exact.abs().max()
    assert 0 < error < 0.02
    model = xgrank().fit(TRAIN.texts, TRAIN.Y)
    plain = model.predict(TEST.texts, k=1).labels
    small = model.set_params(quantise="int8")
    assert (small.predict(TEST.texts, k=1).labels == plain).mean() >= 0.95
    assert any(isinstance(module, Int8Linear) for module in small._copies["int8"].modules())


def test_clusters_and_labels_share_the_loss_by_steps_whatever_a_step_is_made_of(monkeypatch):
    from longtail.neural.text.xgrank_network import ClusterNetwork

    shares = []
    real = ClusterNetwork.training_loss

    def short_of_memory(self, batch, y):
        if batch["tokens"].shape[0] > 4:
            raise torch.OutOfMemoryError("out of memory")
        shares.append(self.lambda_)
        return real(self, batch, y)

    monkeypatch.setattr(ClusterNetwork, "training_loss", short_of_memory)
    model = xgrank(**CLUSTERED | {"epochs": 2, "batch_size": 16}).fit(TRAIN.texts, TRAIN.Y)
    steps = 2 * -(-len(TRAIN.texts) // 16)
    assert model.history_.parts >= 4
    assert sorted(set(shares)) == [0.5 * step / steps for step in range(steps)]  # eq. 9
