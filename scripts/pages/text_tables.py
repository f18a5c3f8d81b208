"""Tables of docs/text-models.md; all are made from docs/lab/benchmarks."""

from __future__ import annotations

from typing import Any

from benchmarks.common.metrics import BESIDE_PSP, FEWER, METRICS
from benchmarks.common.tables import decimals, markdown_table
from scripts.pages.lab import OTHERS, Lab
from scripts.pages.tables import table

TEXT = "text-models-eurlex57k"
SHOWN = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", *BESIDE_PSP)
ENSEMBLE = OTHERS["eurlex57k"][1]
# Title -> configuration, as in the measurement file.
MODELS = {
    "XGRank, MiniLM, BCE, label names by the encoder": "xgrank-bce-encoder",
    "XGRank, MiniLM, BCE, no names": "xgrank-bce",
    "XGRank, MiniLM, GRank loss, label names by words": "xgrank",
    "XGRank, mpnet, GRank loss, label names by words": "xgrank-mpnet",
    "XGRank, mpnet, GRank loss, label names by the encoder": "xgrank-mpnet-encoder",
    "XGRank, mpnet, BCE, label names by the encoder": "xgrank-mpnet-bce-encoder",
    "XGRank, mpnet, BCE, label names by words": "xgrank-mpnet-bce",
    "the same, scores shifted by log PW-cb": "xgrank-mpnet-bce, shifted by pw-cb",
    "APLC, mpnet": "aplcxlnet",
    "APLC, mpnet, PW": "aplcxlnet-pw",
    "APLC, mpnet, PW-cb": "aplcxlnet-pw-cb",
    "AttentionXML": "attentionxml",
    "AttentionXML, PW, normalised over pairs": "attentionxml-pw-pairs",
    "AttentionXML, PW-cb, eq. 24": "attentionxml-pw-cb",
    "AttentionXML, PW-cb, normalised over pairs": "attentionxml-pw-cb-pairs",
    "AttentionXML, trained without weights, scores shifted by log PW": "attentionxml, shifted by pw",
    "AttentionXML, trained without weights, scores shifted by log PW-cb": "attentionxml, shifted by pw-cb",
    "DiSMEC, PW-cb, TF-IDF of words": "dismec-pw-cb",
    "DiSMEC, PW-cb, TF-IDF of words and pairs of words": "dismec-pw-cb-bigrams",
    "three XGRank + AttentionXML PW + both DiSMEC PW-cb, mean of calibrated probabilities": ENSEMBLE,
    "the same ensemble, exponent 0.04": f"{ENSEMBLE}, exponent 0.04",
}
NAMES = {  # title -> (variant as it is shown, configuration)
    "GRank, no names, mean of three seeds": ("`-without-names`", "xgrank-short-without-names, mean of 3 seeds"),
    "GRank, names by words, three seeds": ("(none)", "xgrank-short, mean of 3 seeds"),
    "GRank, names by the encoder, three seeds": ("`-encoder`", "xgrank-short-encoder, mean of 3 seeds"),
    "BCE, no names, three seeds": ("`-bce`", "xgrank-short-bce, mean of 3 seeds"),
    "BCE, names by words, one seed": ("`-bce-names`", "xgrank-short-bce-names"),
    "BCE, names by the encoder, three seeds": (
        "`-bce-names-encoder`", "xgrank-short-bce-names-encoder, mean of 3 seeds",
    ),
    "GRank, names by words, bf16": ("(none), seed 0", "xgrank-short"),
    "the same in float32": ("`-float32`", "xgrank-short-float32"),
}  # fmt: skip
LOSSES = {  # title -> (GRank, BCE): what follows xgrank-short
    "as above": ("-without-names", "-bce"),
    "12 epochs": ("-12", "-bce-12"),
    "one learning rate for all, 3e-4; dropout 0.5, 8 epochs": ("-one-rate", "-one-rate-bce"),
    "as above, but labels begin at 0 (`prior=False`)": ("-zero", "-bce-zero"),
    "one learning rate, labels begin at 0": ("-one-rate-zero", "-one-rate-bce-zero"),
    "nearest to the paper: one learning rate of 1e-4, labels begin at 0; 12 epochs": ("-paper", "-paper-bce"),
}
RATES = {
    "AttentionXML": "attentionxml", "XGRank, MiniLM, 512 tokens": "xgrank",
    "XGRank, mpnet, 256 tokens": "xgrank-mpnet-bce", "APLC, mpnet, 256 tokens": "aplcxlnet",
}  # fmt: skip
ENCODERS = {"aplcxlnet": " (mpnet)", "xgrank-bce-encoder": " (MiniLM)"}


def _scores(lab: Lab, part: str = "test") -> dict[str, dict[str, Any]]:
    return {row["configuration"]: row for row in lab.benchmarks[TEXT]["all_metrics"] if row["part"] == part}


def _runs(lab: Lab) -> dict[str, dict[str, Any]]:
    return {run["configuration"]: run for run in lab.benchmarks[TEXT]["runs"]}


@table("text-models")
def _models(lab: Lab) -> str:
    scores, runs, cells = _scores(lab), _runs(lab), []
    for title, configuration in MODELS.items():
        trained = runs.get(configuration.partition(",")[0], {}).get("parameters", {})
        cells.append([title, *(str(trained.get(name, "")) for name in ("length", "epochs"))])
        cells[-1] += decimals(scores[configuration], SHOWN)
    return markdown_table(["test split", "tokens", "epochs", *SHOWN], cells)


@table("xgrank-names")
def _names(lab: Lab) -> str:
    dev, test = _scores(lab, "dev"), _scores(lab)
    columns = FEWER
    cells = [
        [title, shown, *decimals(dev[name], ("P@1",)), *decimals(test[name], columns)]
        for title, (shown, name) in NAMES.items()
    ]
    return markdown_table(["", "recipe", "P@1, dev", *columns], cells, left=(0, 1))


@table("xgrank-loss")
def _losses(lab: Lab) -> str:
    test, cells = _scores(lab), []
    columns = ("P@1", "P@5", "PSP@1", *BESIDE_PSP)
    for title, ends in LOSSES.items():
        names = [f"xgrank-short{end}" for end in ends]
        seeds = [f"{name}, mean of 3 seeds" for name in names]
        pair = [test[name] for name in (seeds if title == "as above" else names)]
        cells.append([title, ", ".join(f"`{end}`" for end in ends)])
        for column in columns:
            if any(column not in row for row in pair):
                cells[-1] += ["–", "–"]
                continue
            best = max(row[column] for row in pair)
            cells[-1] += [f"**{row[column]:.2f}**" if row[column] == best else f"{row[column]:.2f}" for row in pair]
    header = [f"{loss} {column}" for column in columns for loss in ("GRank", "BCE")]
    return markdown_table(["", "recipes", *header], cells, left=(0, 1))


@table("text-rates")
def _rates(lab: Lab) -> str:
    runs, cells = _runs(lab), []
    for title, name in RATES.items():
        run = runs[name]
        share = f"{100 * run['share_of_bf16_peak']:.1f} %" if "share_of_bf16_peak" in run else "–"
        cells.append([title, f"{run['epoch_s']:.1f}", f"{run['train_points_per_s']:,.0f}"])
        cells[-1] += [f"{run['train_tokens_per_s']:,.0f}", share, f"{run['predict_test_s']:.1f}"]
        cells[-1] += [f"{run['predict_one_ms']:.0f}"]
    header = ["training, alone on the GPU", "s per epoch", "points/s", "tokens/s", "share of bf16 peak"]
    return markdown_table([*header, "predict 6,000 texts, s", "one text, ms"], cells)


@table("mpnet-step")
def _mpnet_step(lab: Lab) -> str:
    cells = [
        [row["code"], row["layers compiled"], f"{row['step ms']:.1f}", f"{row['points/s']:,}",
         "" if row["GB"] is None else f"{row['GB']:.1f}"]
        for row in lab.benchmarks["mpnet-step"]["rows"]
    ]  # fmt: skip
    header = ["mpnet, 64 x 256 tokens", "layers compiled", "step, ms", "points/s", "GB"]
    return markdown_table(header, cells, left=(0, 1))


@table("encoder-step")
def _encoder_step(lab: Lab) -> str:
    cells = [
        [row["encoder"], str(row["tokens"]), str(row["batch"]), row["compiled"], f"{row['first steps s']:.1f}",
         f"{row['step ms']:.1f}", f"{row['tokens/s']:,}", f"{row['bf16 peak %']:.1f} %", f"{row['GB']:.1f}"]
        for row in lab.benchmarks["encoder-step"]["rows"]
    ]  # fmt: skip
    header = ["encoder", "tokens", "batch", "layers compiled", "first steps, s", "step, ms", "tokens/s"]
    return markdown_table([*header, "share of bf16 peak", "GB"], cells, left=(0, 3))


@table("cluster-recall")
def _cluster_recall(lab: Lab) -> str:
    found = lab.benchmarks["cluster-recall-yso-finna-en"]
    recall = found["cluster_recall"]
    row = ["recall of labels, %", *(f"{value:.1f}" for value in recall.values())]
    first = markdown_table(["clusters retrieved", *recall], [row])
    figures = decimals(found["metrics"], METRICS)
    second = markdown_table(["yso-finna-en", *METRICS], [["X-GRank, MiniLM, clusters", *figures]])
    return f"{first}\n\n{second}"


@table("one-core")
def _one_core(lab: Lab) -> str:
    rows = sorted(lab.benchmarks["one-core"]["rows"], key=lambda row: row["none"])
    cells = [
        [f"{row['recipe']}{ENCODERS.get(row['recipe'], '')}", str(row["tokens"]), *decimals(row, ("none", "int8"), 0)]
        for row in rows
    ]
    return markdown_table(["recipe", "tokens", "ms per text, float32", "ms per text, 8-bit weights"], cells)


@table("quantise")
def _quantise(lab: Lab) -> str:
    cells = []
    for what, weights in lab.benchmarks["quantise"]["found"].items():
        for name, row in weights.items():  # the network of the long texts has hardly been trained
            figures = [f"{value:.2f}" for value in row["P"]] if what == "titles" else ["", "", ""]
            cells.append([f"{what}, {name}", *figures, f"{row['ms']:.1f}"])
    return markdown_table(["one thread", "P@1", "P@3", "P@5", "ms per text"], cells)
