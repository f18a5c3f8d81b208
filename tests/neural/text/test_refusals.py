"""What the text models refuse, before any work where they can."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from contract.planted import N_LABELS
from longtail.errors import ModelError, ParameterError, TrainingError
from neural.text.text_models import TRAIN, aplc, attention, xgrank
from neural.text.tiny import planted_encoder, write_encoder, write_tokenizer


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
    for name, message in (("t5", "t5 cannot read a text of 32 tokens"), ("vit", "'vit', which is not a text encoder")):
        write_tokenizer(tmp_path / name, [f"x{i}" for i in range(30)])
        with pytest.raises(ModelError, match=message):
            xgrank(encoder=str(tmp_path / name)).fit(TRAIN.texts, TRAIN.Y)


def test_a_tokenizer_that_knows_no_token_of_the_texts_is_refused(caplog):
    strangers = [f"xx{i}" for i in range(len(TRAIN.texts))]
    with pytest.raises(ModelError, match=f"knows no token of the first {len(strangers)} texts"):
        xgrank().fit(strangers, TRAIN.Y)
    mixed = [f"{text} {' '.join(['zz'] * 40)}" for text in TRAIN.texts]
    xgrank(epochs=1).fit(mixed, TRAIN.Y)
    assert any("for another language?" in record.getMessage() for record in caplog.records)


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
