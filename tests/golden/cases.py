"""What the golden files hold: models with their data, and command lines with theirs.

`LONGTAIL_RECORD_GOLDEN=1 pytest tests/golden` writes the files again; the difference that git then shows is what a
change does to predictions and messages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import longtail
from contract.models import ARGUMENTS
from contract.planted import planted
from longtail import Bonsai, DiSMEC, Ensemble, Parabel, PropensityRerank, RankNet, Taug, TextFeatures, TextPipeline
from longtail.core import registry
from longtail.core.estimator import Estimator

HERE = Path(__file__).parent
RECORDING = os.environ.get("LONGTAIL_RECORD_GOLDEN") == "1"


def bonsai(**changes: Any) -> Bonsai:
    return Bonsai(n_children=3, max_leaf=2, **changes)


def words() -> TextFeatures:
    return TextFeatures(min_df=1)


# Beyond every registered estimator as the contract suite trains it: modules around modules, losses and weightings.
COMBINATIONS: dict[str, Callable[[], Estimator]] = {
    "dismec, logistic loss": lambda: DiSMEC(loss="logistic", C=2.0),
    "dismec, hinge loss, pw-cb": lambda: DiSMEC(loss="hinge", weighting="pw-cb"),
    "bonsai, pw": lambda: bonsai(weighting="pw"),
    "parabel, exact search": lambda: Parabel(max_leaf=2, beam=None),
    "xgrank, grank loss": lambda: longtail.XGRank(**ARGUMENTS["xgrank"](), loss="grank"),
    "pfastrexml, means": lambda: longtail.PfastreXML(n_trees=5),
    "rerank over bonsai": lambda: PropensityRerank(base=bonsai(), folds=2, exponent=0.7),
    "ranknet over taug over bonsai": lambda: RankNet(base=Taug(base=bonsai(), tau=0.3), folds=2, epochs=2, units=4),
    "taug, calibrated": lambda: Taug(tau=0.3, merge="calibrated"),
    "ensemble of taug and bonsai, by ranks": lambda: Ensemble(models=[Taug(tau=0.3), bonsai()], combine="ranks"),
    "texts, rerank, dismec": lambda: TextPipeline(model=PropensityRerank(folds=2), features=words()),
    "rerank over texts": lambda: PropensityRerank(base=TextPipeline(features=words()), folds=2),
    "ensemble over texts": lambda: Ensemble(
        models=[TextPipeline(features=words()), TextPipeline(model=bonsai(), features=words())]
    ),
    "unit rows, ranknet without blocks": lambda: longtail.UnitRows(model=RankNet(blocks=0, folds=2)),
}
MODELS: dict[str, Callable[[], Estimator]] = {
    name: lambda name=name: registry.estimator_class(name)(**ARGUMENTS.get(name, dict)())
    for name in registry.estimator_names()
} | COMBINATIONS


def write_command_line_data(folder: Path) -> None:
    """train.txt, test.txt (features), train.jsonl, test.jsonl (texts and label names) and files that are broken."""
    for name, seed in (("train", 0), ("test", 1)):
        data = planted(60, seed)
        longtail.write_dataset(longtail.Dataset(Y=data.Y, X=data.X), folder / f"{name}.txt")
        lines = [
            json.dumps({"text": text, "labels": [f"name {i}" for i in labels]})
            for text, labels in zip(data.texts, data.lists, strict=True)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "broken.txt").write_text("3 2 2\n0 0:1\n0 x:1\n1 1:1\n")
    (folder / "broken.jsonl").write_text('{"text": "a", "labels": ["b"]}\n{"text": 1}\n')
    (folder / "no-labels.csv").write_text("id,text,tags\n1,hello,b\n")
    (folder / "gaps.jsonl").write_text('{"text": ""}\n{"text": "zyzzyva"}\n{"text": "w00 w01 w02"}\n')
    (folder / "foreign.jsonl").write_text('{"text": "w00", "labels": ["http://example.org/1", "name 0"]}\n')
    (folder / "data.unknown").write_text("?")
    (folder / "empty.jsonl").write_text("")
    (folder / "full").mkdir()
    (folder / "full" / "file").write_text("mine")
    (folder / "bad.toml").write_text('[data]\ntrain = "train.txt"\ntest = "test.txt"\n[model]\nname = "dismek"\n')
    (folder / "absent.toml").write_text(
        'dataset = "x"\n[data]\ntrain = "no.txt"\ntest = "no.txt"\n[model]\nname = "dismec"\n'
    )


# One after the other in one folder: later commands use what earlier ones wrote.
COMMANDS = """
--version
--list-models
train train.txt --model dismec --out features
train train.jsonl --model dismec --set features.min_df=1 --out texts
train train.jsonl --model propensityrerank --base dismec --set features.min_df=1 --set folds=2 --out reranked
train train.txt --model dismec --out features
train train.txt --model dismek --out m
train train.txt --model dismec --set D=1 --out m
train train.txt --model dismec --set C=-1 --out m
train train.txt --model dismec --set C --out m
train train.txt --model dismec --base bonsai --out m
train train.txt --model dismec --weighting heavy --out m
train train.txt --model popularity --weighting pw --out m
train train.txt --model dismec --weighting unbiased --out m
train train.txt --model dismec --threads 0 --out m
train train.txt --model xgrank --out m
train train.txt --model ensemble --out m
train train.jsonl --model dismec --unit-rows --out m
train absent.txt --model dismec --out m
train broken.txt --model dismec --out m
train broken.jsonl --model dismec --out m
train empty.jsonl --model dismec --out m
train no-labels.csv --model dismec --out m
train data.unknown --model dismec --out m
train train.txt --model dismec --out full
train train.txt --model dismec --out no/folder
train train.txt --model dismec
train train.txt --model dismec --minutes 1 --out m
train train.txt --weighting pw --out m
train train.txt --price -1 --out m
train train.txt --minutes 1 --set minutes=2 --out m
train train.txt --set 'models=["dismec", "dismec/pw-cb"]' --out chosen
info chosen
predict features test.txt --out p.jsonl
predict features test.txt --out p.jsonl
predict features test.txt --out p.xyz
predict features test.txt --out q.jsonl -k 0
predict features test.txt --out many.jsonl -k 50
predict texts gaps.jsonl --out gaps-1.jsonl
predict texts gaps.jsonl --out gaps-2.jsonl --fallback popular
predict texts gaps.jsonl --out gaps-3.jsonl --fallback often
predict texts --text zyzzyva --json
predict features test.txt
predict features test.jsonl --out q.jsonl
predict features --text w00
predict texts --text w00 --json
predict texts --text w00 --out q.jsonl
predict texts test.txt --out q.jsonl
predict features test.txt --out q.jsonl --exponent 0.5
predict reranked test.jsonl --out q.jsonl --exponent 2
predict reranked test.jsonl --out q.jsonl --exponent 0.9
predict nowhere test.txt --out q.npz
predict full test.txt --out q.npz
predict texts test.jsonl --out test.jsonl --overwrite
evaluate features test.txt --json
evaluate texts test.jsonl
evaluate texts foreign.jsonl
evaluate reranked test.jsonl --exponent 0 --json
evaluate p.jsonl test.txt
evaluate p.jsonl test.txt --train train.txt --json
evaluate p.jsonl test.txt --exponent 0.5
evaluate features test.jsonl
evaluate features test.txt --propensity 1
evaluate nowhere test.txt
explain texts w00
convert train.txt train
convert train.txt train
convert train.txt train.txt --overwrite
convert train.jsonl out.npz
convert train.txt out.xyz
info features
info train
info nowhere
bench bad.toml
bench nowhere.toml
bench absent.toml
unheard-of
serve
"""
