"""Models to attack: every registered estimator, as the contract suite trains it, and variants with other arrays."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import longtail
from contract.models import NAMES, TRAIN, make
from contract.planted import N_LABELS, planted
from longtail.core import store, workspace
from longtail.core.estimator import Estimator
from longtail.core.vocabulary import Concept, Vocabulary
from longtail.linear import blocks, shards

# Quality does not matter here: one pass is enough.
_ONE_PASS = {"epochs": 1}


def _plain(name: str) -> Callable[[], Estimator]:
    def build() -> Estimator:
        model = make(name)
        quick = {key: value for key, value in _ONE_PASS.items() if key in model.get_params()}
        return model.set_params(**quick, **{key: 2 for key in model.get_params() if key == "n_trees"})

    return build


def _texts(**options: Any) -> Estimator:
    return longtail.TextPipeline(model=longtail.DiSMEC(), features=longtail.TextFeatures(min_df=1, **options))


def _encoder() -> str:
    from neural.text.tiny import planted_encoder

    return planted_encoder()


# Models with other arrays than those of the contract suite, and wrappers of wrappers.
VARIANTS: dict[str, Callable[[], Estimator]] = {
    "dismec, float32": lambda: longtail.DiSMEC(weight_dtype="float32"),
    "dismec, logistic": lambda: longtail.DiSMEC(loss="logistic"),
    "bonsai, exact": lambda: longtail.Bonsai(n_children=3, max_leaf=2, n_trees=1, beam=None),
    "pfastrexml, means": lambda: longtail.PfastreXML(n_trees=2, tail="means"),
    "taug, calibrated": lambda: longtail.Taug(base=longtail.DiSMEC(), tau=0.3, merge="calibrated"),
    "ensemble, ranks": lambda: longtail.Ensemble(models=[longtail.DiSMEC(), longtail.Popularity()], combine="ranks"),
    "ranknet of taug": lambda: longtail.RankNet(
        base=longtail.Taug(base=longtail.DiSMEC(), tau=0.3), folds=2, epochs=2, units=4
    ),
    "propensityrerank of textpipeline": lambda: longtail.PropensityRerank(
        base=longtail.TextPipeline(model=longtail.FastXML(n_trees=2), features=longtail.TextFeatures(min_df=1)), folds=2
    ),
    "textpipeline, words and characters": lambda: _texts(
        stop_words=["b"], stem="english", char_ngrams=(2, 3), field_weights={"a": 2.0}
    ),
    "textpipeline, hashed": lambda: _texts(hashing=64, char_ngrams=(2, 3), stop_words=["b"]),
    "textpipeline, embeddings": lambda: _texts(embeddings=_encoder()),
    "glas, hidden": lambda: make("glas", epochs=1, hidden=(8,), loss="bce"),
    "xgrank, clusters": lambda: make("xgrank", epochs=1, clusters_above=2, cluster_size=2, n_retrieved=2),
    "xgrank, words": lambda: make("xgrank", epochs=1, label_features="words"),
    "attentionxml, tree": lambda: make("attentionxml", epochs=1, clusters_above=2, cluster_size=2, beam=2),
}

# These are calibrated after their training: their directories hold probabilities, too.
_CALIBRATED = ("dismec, probabilities", "propensityrerank, objective")
VARIANTS |= {
    _CALIBRATED[0]: longtail.DiSMEC,
    _CALIBRATED[1]: lambda: longtail.PropensityRerank(base=longtail.DiSMEC(), folds=2, objective="macro-f1@3"),
}

# Only large models consist of several pieces. These get them from limits for six labels: shards of two labels, working
# copies in files, several array files.
_PIECES = {
    "shards": ((blocks, "BLOCK", 2), (shards, "_MOST_CLASSIFIERS", 2), (workspace, "_LEAST", 1)),
    "files": ((store, "_FILE_BYTES", 100),),
}
VARIANTS |= {
    "dismec, in shards": longtail.DiSMEC,
    "dismec, in shards and files": longtail.DiSMEC,
    "bonsai, in files": lambda: longtail.Bonsai(n_children=3, max_leaf=2, n_trees=2),
    "textpipeline, in shards": lambda: _texts(char_ngrams=(2, 3)),
}

VICTIMS: dict[str, Callable[[], Estimator]] = {name: _plain(name) for name in NAMES} | VARIANTS
# Those that need no torch, for tests that take seconds.
LIGHT = [
    name for name in VICTIMS
    if not any(heavy in name for heavy in ("glas", "xgrank", "attentionxml", "aplcxlnet", "ranknet", "embeddings"))
]  # fmt: skip


@contextmanager
def in_pieces(name: str) -> Iterator[None]:
    """Train and save a model within this: the limits of pieces are those that its name asks for."""
    wanted = [change for piece, changes in _PIECES.items() if piece in name.partition(" in ")[2] for change in changes]
    before = [getattr(module, limit) for module, limit, _ in wanted]
    try:
        for module, limit, value in wanted:
            setattr(module, limit, value)
        yield
    finally:
        for (module, limit, _), value in zip(wanted, before, strict=True):
            setattr(module, limit, value)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="attack-victims-")


@functools.cache
def saved(name: str) -> Path:
    """Return the directory of a model, trained and saved at the first call; it lives as long as the process."""
    path = Path(_folder().name) / name.replace(" ", "-").replace(",", "")
    model = VICTIMS[name]()
    names = [f"label {i}" for i in range(N_LABELS)]
    with in_pieces(name):
        model.fit(TRAIN.inputs(model.input_kind), TRAIN.Y, label_names=names)
    model.vocabulary_ = Vocabulary({name: Concept({"en": name.upper()}, ["x"], names[:1], "1.2") for name in names})
    model.reading_ = {"text": "title,text", "labels": "labels", "separator": ";"}
    if name in _CALIBRATED:
        unseen = planted(60, seed=5)
        model.calibrate(unseen.inputs(model.input_kind), unseen.Y)
    with in_pieces(name):
        model.save(path)
    return path
