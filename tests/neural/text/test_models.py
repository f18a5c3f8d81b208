"""The text models on planted data, beyond the contract: what they learn, explain and refuse."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import longtail
from contract.planted import N_LABELS, WORDS_PER_LABEL, planted, word
from longtail.app.cli import main
from longtail.core.checkpoint import Checkpoint
from longtail.core.progress import Silent
from longtail.core.run import Run
from longtail.errors import DataError, ModelError, OutputError, ParameterError, TrainingError
from longtail.neural.losses import LOSSES, LabelWeights, Positives
from longtail.neural.text.aplcxlnet_network import AdaptiveClusters
from longtail.neural.text.clusters import label_clusters, points_of_clusters, token_features
from longtail.neural.text.encoder import TextEncoder
from longtail.neural.text.label_head import LabelHead, encoded, name_table
from longtail.neural.text.quantise import Int8Linear, quantised
from longtail.neural.text.tokeniser import EncoderTokeniser
from longtail.neural.text.tokens import Tokens
from neural.text.tiny import planted_encoder, write_encoder, write_tokenizer

TRAIN, TEST = planted(120), planted(40, seed=1)
SMALL: dict[str, Any] = {"length": 32, "epochs": 20, "batch_size": 16, "dropout": 0.0}
ENCODER: dict[str, Any] = SMALL | {"learning_rate": 5e-3, "head_learning_rate": 0.02, "n_jobs": 1}
CLUSTERED: dict[str, Any] = {"clusters_above": 2, "cluster_size": 2, "n_retrieved": 2, "label_width": 8, "epochs": 60}
WORDS: dict[str, Any] = SMALL | {
    "hidden": 16, "widths": (16,), "word_width": 16, "learning_rate": 0.02, "epochs": 30, "word_dropout": 0.0,
    "average_from": None,
}  # fmt: skip


def xgrank(**changes: Any) -> longtail.XGRank:
    return longtail.XGRank(**ENCODER | {"encoder": planted_encoder()} | changes)


def aplc(**changes: Any) -> longtail.APLCXLNet:
    return longtail.APLCXLNet(
        **ENCODER | {"encoder": planted_encoder(), "width": 16, "hidden_learning_rate": 0.02} | changes
    )


def attention(**changes: Any) -> longtail.AttentionXML:
    return longtail.AttentionXML(**WORDS | changes)


def share_found(model: Any, k: int = 2) -> float:
    rows = model.predict(TEST.texts, k=k).labels
    return float(np.mean([len(set(row) & set(true)) / len(true) for row, true in zip(rows, TEST.lists, strict=True)]))


# --- saving -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        (lambda: xgrank(**CLUSTERED | {"epochs": 1}), {"label_width": 9}),
        (lambda: aplc(epochs=1), {"width": 12}),
        (lambda: aplc(epochs=1), {"cuts": (0.3, 0.6)}),
        (lambda: attention(epochs=1), {"hidden": 9}),
        (lambda: attention(epochs=1), {"widths": (16, 8)}),
        (lambda: attention(epochs=1, clusters_above=4, cluster_size=2, beam=2), {"widths": ()}),
    ],
)
def test_parameters_of_the_network_that_were_changed_after_fit_are_not_saved(model, changes, tmp_path):
    fitted = model().fit(TRAIN.texts, TRAIN.Y)
    kept = {name: getattr(fitted, name) for name in changes}
    fitted.set_params(**changes)
    with pytest.raises(ParameterError, match=f"{next(iter(changes))}.* was changed after fit"):
        fitted.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
    fitted.set_params(**kept).save(tmp_path / "m")
    before = fitted.predict(TEST.texts, k=3)
    np.testing.assert_array_equal(longtail.load_model(tmp_path / "m").predict(TEST.texts, k=3).labels, before.labels)


# --- what they learn -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": "bce"}, {"pooling": "cls"}, {"label_features": "words"}, {"prior": False},
        CLUSTERED, CLUSTERED | {"loss": "bce"}, CLUSTERED | {"label_features": "words"}, CLUSTERED | {"prior": False},
    ],
)  # fmt: skip
def test_xgrank_finds_the_labels_in_every_form(changes, tmp_path):
    model = xgrank(**changes).fit(TRAIN.texts, TRAIN.Y, label_names=[f"w{3 * i:02d}" for i in range(N_LABELS)])
    assert share_found(model) >= 0.95
    model.save(tmp_path / "m")
    loaded, before = longtail.load_model(tmp_path / "m").predict(TEST.texts, k=4), model.predict(TEST.texts, k=4)
    np.testing.assert_array_equal(loaded.labels, before.labels)
    np.testing.assert_array_equal(loaded.scores, before.scores)


@pytest.mark.parametrize("clusters", [{}, CLUSTERED])
def test_labels_begin_at_how_frequent_they_are_or_at_zero(clusters):
    settings = clusters | {"epochs": 1, "learning_rate": 1e-12, "head_learning_rate": 1e-12}
    frequent = xgrank(**settings).fit(TRAIN.texts, TRAIN.Y).network_
    equal = xgrank(**settings, prior=False).fit(TRAIN.texts, TRAIN.Y).network_
    share = np.bincount(TRAIN.Y.indices, minlength=N_LABELS) / TRAIN.Y.shape[0]
    odds = frequent.head.bias.detach().numpy()
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), share, atol=0.02)
    heads = [equal.head, *([equal.clusters] if clusters else [])]
    assert max(float(head.bias.detach().abs().max()) for head in heads) < 1e-6


def test_texts_of_labels_may_come_from_a_file(tmp_path):
    ids, words = [f"C-{i}" for i in range(N_LABELS)], [word(3 * i) for i in range(N_LABELS)]
    file = tmp_path / "labels.json"
    file.write_text(json.dumps(dict(zip(ids, words, strict=True))))
    by_file = xgrank(label_text=str(file), epochs=2).fit(TRAIN.texts, TRAIN.Y, label_names=ids)
    by_name = xgrank(epochs=2).fit(TRAIN.texts, TRAIN.Y, label_names=words)
    assert by_file.label_names_ == ids
    np.testing.assert_array_equal(by_file.network_.head.text_vectors, by_name.network_.head.text_vectors)
    by_file.save(tmp_path / "m")
    expected = by_name.predict(TEST.texts, k=3)
    file.unlink()  # a fitted model does not need it any more
    for model in (by_file, longtail.load_model(tmp_path / "m")):
        np.testing.assert_array_equal(model.predict(TEST.texts, k=3).scores, expected.scores)


def test_labels_without_a_text_in_the_file_give_a_warning(tmp_path, caplog):
    ids = [f"C-{i}" for i in range(N_LABELS)]
    file = tmp_path / "labels.json"
    file.write_text(json.dumps({ids[0]: word(0)}))
    xgrank(label_text=str(file), epochs=1).fit(TRAIN.texts, TRAIN.Y, label_names=ids)
    assert [
        f"{file}: no text for {N_LABELS - 1} of the {N_LABELS} labels, e.g. 'C-1'" in r.getMessage()
        for r in caplog.records
    ] == [True]


def test_a_training_does_not_resume_with_other_label_texts(tmp_path):
    file = tmp_path / "labels.json"
    ids = [f"C-{i}" for i in range(N_LABELS)]
    for text in ("one", "two"):
        file.write_text(json.dumps(dict.fromkeys(ids, text)))
        run = Run(checkpoint=Checkpoint(tmp_path / "partial", resume=True))
        if text == "one":
            xgrank(label_text=str(file), epochs=1).fit(TRAIN.texts, TRAIN.Y, label_names=ids, run=run)
            continue
        with pytest.raises(OutputError, match="unfinished work with other data"):
            xgrank(label_text=str(file), epochs=1).fit(TRAIN.texts, TRAIN.Y, label_names=ids, run=run)


def test_one_long_label_text_does_not_widen_the_whole_table():
    table = name_table(Tokens.of([np.arange(100_000), np.arange(3)]))
    assert table.tolist() == [list(range(16)), [0, 1, 2, *[-1] * 13]]


@pytest.mark.parametrize("make", [xgrank, aplc, attention])
def test_validation_uses_the_network_of_its_epoch_and_not_an_8_bit_copy(make):
    plain, later = (make(held_out=0.3, epochs=5, quantise=q).fit(TRAIN.texts, TRAIN.Y) for q in ("none", "int8"))
    assert [e["P@1"] for e in later.history_.epochs] == [e["P@1"] for e in plain.history_.epochs]
    assert later._quantised is None
    later.predict(TEST.texts, k=1)
    assert later._quantised is not None


def test_a_loaded_model_does_not_write_to_the_cache_of_its_training(tmp_path):
    model = xgrank(epochs=1, token_cache=str(tmp_path / "cache")).fit(TRAIN.texts, TRAIN.Y)
    model.save(tmp_path / "m")
    assert longtail.load_model(tmp_path / "m").token_cache is None


@pytest.mark.parametrize(
    ("make", "remedy"), [(xgrank, "label_width"), (aplc, "width"), (attention, "hidden or clusters_above")]
)
def test_too_little_memory_names_a_remedy(make, remedy, monkeypatch):
    model = make()

    def none_left(*_: Any) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: not enough memory\nmore")

    monkeypatch.setattr(model, "_new_network", none_left)
    with pytest.raises(
        TrainingError, match=rf"network for \d+ labels .*not enough memory\).* smaller {remedy}.*, or train"
    ):
        model.fit(TRAIN.texts, TRAIN.Y)


def test_a_file_of_label_texts_that_cannot_be_used_is_refused_before_any_work(tmp_path):
    file = tmp_path / "labels.json"
    ids = [f"C-{i}" for i in range(N_LABELS)]
    with pytest.raises(DataError, match=r"labels\.json.*cannot be read \(No such file"):
        xgrank(label_text=str(file)).fit(TRAIN.texts, TRAIN.Y, label_names=ids)
    file.write_text('{"apple": "fruit"}')
    with pytest.raises(DataError, match=r"labels\.json: no text for any of the \d+ labels of the data, e\.g\. 'C-0'"):
        xgrank(label_text=str(file)).fit(TRAIN.texts, TRAIN.Y, label_names=ids)
    with pytest.raises(ParameterError, match=r"there are no label names to look up in it; pass label_names to fit"):
        xgrank(label_text=str(file)).fit(TRAIN.texts, TRAIN.Y)
    for wrong in ("", 3, None):
        with pytest.raises(ParameterError, match=r"label_text is .* must be true, false or a file"):
            xgrank(label_text=wrong).fit(TRAIN.texts, TRAIN.Y, label_names=ids)


@pytest.mark.parametrize("above", [4, 2])
def test_attentionxml_finds_the_labels_through_a_tree(above, tmp_path):
    model = attention(clusters_above=above, cluster_size=2, beam=2).fit(TRAIN.texts, TRAIN.Y)
    assert len(model.network_.levels) == (2 if above == 4 else 3)
    assert share_found(model) >= 0.95
    model.save(tmp_path / "m")
    loaded, before = longtail.load_model(tmp_path / "m").predict(TEST.texts, k=4), model.predict(TEST.texts, k=4)
    np.testing.assert_array_equal(loaded.labels, before.labels)
    np.testing.assert_array_equal(loaded.scores, before.scores)
    text = f"{word(0)} {word(9)}"
    assert model.explain(text, 0).tokens[0].token == word(0)
    found = model.predict([text], k=2)
    for label, score in zip(found.labels[0], found.scores[0], strict=True):
        assert model.explain(text, int(label)).score == pytest.approx(score, abs=1e-5)
    model.set_params(quantise="int8").predict([text], k=2)
    assert model._quantised is not None


def test_a_prediction_is_padded_where_too_few_labels_are_retrieved():
    model = xgrank(**CLUSTERED | {"n_retrieved": 1}).fit(TRAIN.texts, TRAIN.Y)
    found = model.predict(TEST.texts, k=N_LABELS)
    assert (found.labels[:, 2:] == -1).all()
    assert (found.labels[:, 0] >= 0).all()


@pytest.mark.parametrize("make", [xgrank, aplc, attention])
def test_a_weighting_raises_the_scores_of_rare_labels(make):
    plain, weighted = (make(weighting=w, epochs=6).fit(TRAIN.texts, TRAIN.Y) for w in (None, "pw-cb"))
    counts = np.bincount(TRAIN.Y.indices, minlength=N_LABELS)
    rare = int(counts.argmin())

    def mean_score(model: Any) -> float:
        found = model.predict(TEST.texts, k=N_LABELS)
        return float(np.mean(found.scores[found.labels == rare] - found.scores[:, 0]))

    assert mean_score(weighted) > mean_score(plain)


def test_validation_keeps_the_best_epoch(tmp_path):
    model = xgrank(held_out=0.2, epochs=6, metric="P@1").fit(TRAIN.texts, TRAIN.Y)
    measured = [epoch["P@1"] for epoch in model.history_.epochs]
    assert model.history_.best_epoch == int(np.argmax(measured))
    model.save(tmp_path / "m")
    assert longtail.load_model(tmp_path / "m").history_ == model.history_


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda: longtail.Ensemble(models=[attention(), xgrank(epochs=8)]),
        lambda: longtail.RankNet(base=attention(), folds=2, epochs=2, units=4),
        lambda: longtail.Taug(base=attention(), tau=0.3),
        lambda: longtail.Ensemble(models=[aplc(), attention()]),
        lambda: longtail.RankNet(base=aplc(), held_out=0.3, epochs=2, units=4),
        lambda: longtail.Taug(base=aplc(), tau=0.3),
    ],
    ids=["ensemble", "ranknet", "taug", "ensemble of aplc", "ranknet of aplc", "taug of aplc"],
)
def test_they_work_inside_wrappers(wrapped):
    assert share_found(wrapped().fit(TRAIN.texts, TRAIN.Y)) >= 0.95


# --- components against independent computations ---------------------------------------------------------------------


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
    vectors = encoded(encoder, tokeniser.tokens(texts), tokeniser.pad, torch.device("cpu"))
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
    assert any(isinstance(module, Int8Linear) for module in small._quantised.modules())


# --- explanations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [xgrank, aplc, attention])
def test_the_words_of_a_label_have_the_largest_weight(make):
    model = make().fit(TRAIN.texts, TRAIN.Y, label_names=[f"label {i}" for i in range(N_LABELS)])
    right = 0
    for label in range(N_LABELS):
        other = (label + 3) % N_LABELS
        own = [word(WORDS_PER_LABEL * label + j) for j in range(WORDS_PER_LABEL)]
        text = " ".join([*own, *(word(WORDS_PER_LABEL * other + j) for j in range(WORDS_PER_LABEL))])
        found = model.explain(text, f"label {label}")
        assert found.label == label
        assert sum(abs(token.weight) for token in found.tokens) == pytest.approx(1, abs=1e-5)
        assert [text[token.start : token.end] for token in found.tokens] == text.split()
        best = max(found.tokens, key=lambda token: token.weight)
        right += best.token in own
    assert right >= N_LABELS - 1


def test_explain_refuses_labels_that_do_not_exist():
    model = attention(epochs=1).fit(TRAIN.texts, TRAIN.Y)
    for label, message in ((N_LABELS, "has 6 labels"), (-1, "label"), ("x", "no label names")):
        with pytest.raises(ParameterError, match=message):
            model.explain("w00", label)


def test_explain_on_the_command_line(tmp_path, monkeypatch, capsys):
    names = [f"label {i}" for i in range(N_LABELS)]
    attention().fit(TRAIN.texts, TRAIN.Y, label_names=names).save(tmp_path / "m")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["longtail", "explain", str(tmp_path / "m"), *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    code, out, _ = run("w06 w07 w08 w20", "--json")
    assert code == 0
    assert json.loads(out)["label"] == "label 2"
    code, out, _ = run("w06 w00", "--label", "label 0")
    assert code == 0
    assert "label 0: score" in out
    code, _, err = run("w06", "--label", "labl 0")
    assert code == 2
    assert 'did you mean "label 0"?' in err


# --- what is refused -------------------------------------------------------------------------------------------------


def test_encoders_that_cannot_be_used_are_refused(tmp_path):
    good = Path(planted_encoder())

    def copy(name: str) -> Path:
        return Path(shutil.copytree(good, tmp_path / name))

    def refused(folder: Path, error: type[Exception], message: str, **changes: Any) -> None:
        with pytest.raises(error, match=message):
            xgrank(encoder=str(folder), **changes).fit(TRAIN.texts, TRAIN.Y)

    refused(tmp_path / "none", ModelError, "does not exist")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", ModelError, r"no config\.json")
    broken = copy("broken")
    (broken / "model.safetensors").write_bytes(b"x" * 100)
    refused(broken, ModelError, "cannot be loaded")
    without = copy("without")
    (without / "tokenizer.json").write_text("{}")
    refused(without, ModelError, "the tokenizer cannot be read")
    foreign = copy("foreign")
    write_tokenizer(foreign, [f"x{i}" for i in range(99)])
    refused(foreign, ParameterError, r"the tokenizer of .* tokens, but the encoder has vectors for \d+; use the tok")
    refused(good, ParameterError, "set length=64", length=65)
    untold = copy("untold")
    for file in untold.glob("tokenizer*"):
        file.unlink()
    refused(untold, ModelError, r"no tokenizer; its files")


def test_networks_that_are_not_text_encoders_are_refused(tmp_path):
    from transformers import T5Config, T5Model, ViTConfig, ViTModel

    small: dict[str, Any] = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    T5Model(T5Config(vocab_size=100, **small)).save_pretrained(tmp_path / "t5")
    vision: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    ViTModel(ViTConfig(intermediate_size=16, image_size=8, patch_size=4, **vision)).save_pretrained(tmp_path / "vit")
    for name, message in (("t5", "t5 cannot read a text of 32 tokens"), ("vit", "vit is not a text encoder")):
        write_tokenizer(tmp_path / name, [f"x{i}" for i in range(30)])
        with pytest.raises(ModelError, match=message):
            xgrank(encoder=str(tmp_path / name)).fit(TRAIN.texts, TRAIN.Y)


@pytest.mark.parametrize("make", [xgrank, attention])
def test_a_text_may_be_cut_shorter_or_longer_after_training(make, tmp_path):
    model = make(epochs=1, length=8).fit(TRAIN.texts, TRAIN.Y)
    text = " ".join(TEST.texts)
    scores = {}
    for length in (4, 8, 30):
        model.set_params(length=length)
        scores[length] = model.predict([text], k=3).scores
        words = 2 if make is xgrank else 0  # the encoder's special tokens
        np.testing.assert_array_equal(
            model.predict([" ".join(text.split()[: length - words])], k=3).scores, scores[length]
        )
        assert len(model.explain(text, 0).tokens) == length - words
    assert not np.array_equal(scores[4], scores[8])
    assert not np.array_equal(scores[8], scores[30])
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(longtail.load_model(tmp_path / "m").predict([text], k=3).scores, scores[30])
    if make is xgrank:
        with pytest.raises(ParameterError, match="set length=64"):
            model.set_params(length=65).predict([text])


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


@pytest.mark.parametrize("make", [xgrank, attention])
def test_a_model_trained_on_a_gpu_predicts_and_explains_without_one(make, tmp_path):
    model = make(epochs=1).fit(TRAIN.texts, TRAIN.Y)
    expected = model.predict(TEST.texts, k=3)
    model.set_params(device="cuda").save(tmp_path / "m")
    loaded = longtail.load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(TEST.texts, k=3).labels, expected.labels)
    assert loaded.explain(TEST.texts[0], 0).tokens


def test_a_tokenizer_that_knows_no_token_of_the_texts_is_refused(caplog):
    strangers = [f"xx{i}" for i in range(len(TRAIN.texts))]
    with pytest.raises(ModelError, match=f"knows no token of the first {len(strangers)} texts"):
        xgrank().fit(strangers, TRAIN.Y)
    mixed = [f"{text} {' '.join(['zz'] * 40)}" for text in TRAIN.texts]
    xgrank(epochs=1).fit(mixed, TRAIN.Y)
    assert any("for another language?" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("length", ["a", 1.5, 0])
def test_explain_checks_parameters_first(length):
    model = xgrank(epochs=1).fit(TRAIN.texts, TRAIN.Y).set_params(length=length)
    with pytest.raises(ParameterError, match="length is"):
        model.explain(TEST.texts[0], 0)


@pytest.mark.parametrize("make", [xgrank, aplc, attention])
def test_parameters_may_be_numpy_integers(make, tmp_path):
    model = make(length=np.int64(16), epochs=np.int32(1)).fit(TRAIN.texts, TRAIN.Y)
    model.set_params(length=np.int64(8)).save(tmp_path / "m")
    expected = model.predict(TEST.texts, k=3).labels
    np.testing.assert_array_equal(longtail.load_model(tmp_path / "m").predict(TEST.texts, k=3).labels, expected)


def test_a_path_is_a_folder_and_not_a_name_on_the_hub():
    with pytest.raises(ModelError, match="the encoder folder some/where does not exist"):
        xgrank(encoder=Path("some/where")).fit(TRAIN.texts, TRAIN.Y)


def test_files_and_folders_may_be_given_as_paths(tmp_path):
    table, vectors = tmp_path / "labels.json", tmp_path / "vectors.txt"
    names = [f"C-{i}" for i in range(N_LABELS)]
    table.write_text(json.dumps(dict.fromkeys(names, word(0))))
    vectors.write_text(f"{word(0)} {' '.join(['0.5'] * 16)}\n")
    models = [
        xgrank(encoder=Path(planted_encoder()), label_text=table, token_cache=tmp_path / "tokens", epochs=1),
        attention(vectors=vectors, epochs=1),
    ]
    for i, model in enumerate(models):
        model.fit(TRAIN.texts, TRAIN.Y, label_names=names).save(tmp_path / f"m{i}")
        loaded = longtail.load_model(tmp_path / f"m{i}")
        expected = model.predict(TEST.texts, k=3)
        np.testing.assert_array_equal(loaded.predict(TEST.texts, k=3).labels, expected.labels)


@pytest.mark.parametrize(
    ("make", "name"), [(xgrank, "encoder"), (xgrank, "label_text"), (xgrank, "token_cache"), (attention, "vectors")]
)
def test_the_home_of_an_unknown_user_is_refused(make, name):
    with pytest.raises(ParameterError, match=f"{name} is '~no-such-user/x', but there is no such user"):
        make(**{name: "~no-such-user/x"}).fit(TRAIN.texts, TRAIN.Y, label_names=[f"{i}" for i in range(N_LABELS)])


@pytest.mark.parametrize("make", [xgrank, aplc, attention])
def test_the_warning_about_a_weighting_comes_once(make, caplog):
    trees = {"clusters_above": 4, "cluster_size": 2} if make is not aplc else {}
    loss = {"loss": "bce"} if make is xgrank else {}
    make(weighting="unbiased", epochs=1, **trees, **loss).fit(TRAIN.texts, TRAIN.Y)
    assert ["Terms below 0 count as 0" in r.getMessage() for r in caplog.records] == [True]


def test_weights_that_are_missing_are_noticed(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = Path(write_encoder(tmp_path / "e"))
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.0.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks weights, e\.g\. 'encoder\.layer\.0\.output\.dense\.weight'"):
        xgrank(encoder=str(folder)).fit(TRAIN.texts, TRAIN.Y)


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        (xgrank, {"loss": "hinge"}), (xgrank, {"pooling": "max"}), (xgrank, {"dropout": 1.0}), (xgrank, {"length": 2}),
        (xgrank, {"weighting": "unbiased", "loss": "grank"}), (xgrank, {"encoder": 5}), (xgrank, {"quantise": "int4"}),
        (xgrank, {"token_cache": 5}), (xgrank, {"head_learning_rate": 0}), (aplc, {"cuts": (0.5, 0.3)}),
        (aplc, {"cuts": 0.5}), (attention, {"widths": 5}), (attention, {"vectors": 5}), (attention, {"hidden": 0}),
    ],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused(make, changes):
    with pytest.raises(ParameterError, match=next(iter(changes))):
        make(**changes).fit(TRAIN.texts, TRAIN.Y)


# --- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kill_after"),
    [(xgrank, 15), (lambda **changes: attention(clusters_above=4, cluster_size=2, beam=2, **changes), 35)],
    ids=["xgrank", "tree"],
)
def test_an_interrupted_training_resumes_to_the_same_model(make, kill_after, tmp_path):
    """Killed after some steps, with a checkpoint at every step; a tree has one checkpoint per level."""
    whole = make(epochs=3).fit(TRAIN.texts, TRAIN.Y).predict(TEST.texts, k=3)
    model = make(epochs=3, checkpoint_seconds=0.0)
    steps = []

    class Killed(Exception): ...

    class Impatient(Silent):
        def advance(self, amount: int = 1) -> None:
            steps.append(amount)
            if len(steps) == kill_after and kill:
                raise Killed

    kill = True
    with pytest.raises(Killed):
        model.fit(TRAIN.texts, TRAIN.Y, run=Run(Impatient(), Checkpoint(tmp_path / "c", resume=False)))
    kill = False
    model.fit(TRAIN.texts, TRAIN.Y, run=Run(Impatient(), Checkpoint(tmp_path / "c", resume=True)))
    again = model.predict(TEST.texts, k=3)
    np.testing.assert_array_equal(again.labels, whole.labels)
    np.testing.assert_array_equal(again.scores, whole.scores)


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda: xgrank(**CLUSTERED | {"epochs": 1}), "n_retrieved"),
        (lambda: attention(epochs=1, clusters_above=4, cluster_size=2, beam=2), "beam"),
    ],
)
def test_the_number_of_retrieved_clusters_may_be_changed_after_fit(make, parameter):
    model = make().fit(TRAIN.texts, TRAIN.Y)
    answers = {
        width: (model.set_params(**{parameter: width}).predict(TRAIN.texts, k=6).labels >= 0) for width in (1, 9)
    }
    assert answers[1].sum() < answers[9].sum() == answers[9].size  # one cluster has fewer labels than k


def test_an_encoder_in_the_home_folder_is_found(monkeypatch):
    folder = Path(xgrank().encoder)
    monkeypatch.setenv("HOME", str(folder.parent))
    model = xgrank(encoder=f"~/{folder.name}", epochs=1).fit(TRAIN.texts, TRAIN.Y)
    assert model.predict(TEST.texts[:1], k=1).labels.shape == (1, 1)
