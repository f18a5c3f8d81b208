"""longtail train: train a model by name and save it as a directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options
from longtail.app.fitting import Merge, Place, Ray, Shard, Workspace, fit_and_save
from longtail.app.reading import data_name, kept, read, reads_data

_ROWS_LOOKED_AT = 10_000

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="Model, e.g. dismec (longtail --list-models prints all); without it, the best of a few is chosen.",
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option(metavar="M", help="Without --model: time for everything; default: 1, or more for large data."),
]
Price = Annotated[
    float | None,
    typer.Option(
        metavar="POINTS",
        help="Without --model, or with a re-ranker: points of P@1 that may be lost for rare labels; default: 1.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Parameter of the model, e.g. C=0.5 or features.min_df=2; repeatable."
    ),
]
VocabularyFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Names and parents of labels: CSV, JSON or SKOS (.rdf .ttl .nt).")
]
Base = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Model inside a wrapper, e.g. bonsai, or dismec,bonsai for ensemble."),
]
Weighting = Annotated[
    str | None,
    typer.Option(metavar="W", help="Weighting of the loss: pw, pw-cb, unbiased, or e.g. pw-cb:0.5 for half of it."),
]
Language = Annotated[str | None, typer.Option(metavar="CODE", help="Language of the names in the vocabulary, e.g. fi.")]
UnitRows = Annotated[
    bool, typer.Option("--unit-rows", help="Scale rows of features to length 1, in training and in prediction.")
]


@reads_data
def train(
    data: options.Data,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="MODEL", help="Directory to write the model to.")],
    model: Model = None,
    minutes: Minutes = None,
    price: Price = None,
    base: Base = None,
    weighting: Weighting = None,
    settings: Settings = None,
    vocabulary: VocabularyFile = None,
    language: Language = None,
    unit_rows: UnitRows = False,
    calibrate: options.Calibrate = "auto",
    threads: Annotated[int | None, typer.Option(metavar="N", help="Number of threads; default: all cores.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", min=0, help="Seed of all random numbers.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished run (MODEL.partial).")] = False,
    shard: Shard = None,
    merge: Merge = False,
    ray: Ray = None,
    workspace: Workspace = None,
    overwrite: options.Overwrite = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Train a model and write it to a directory.

    Without --model, a few models are tried on held-out points, and the best for rare labels is trained.
    Texts become TF-IDF features, which are part of the model, unless it reads texts itself.
    While it runs, finished parts are kept in MODEL.partial; --resume continues a killed run.
    """
    from longtail.core import workspace as workspaces
    from longtail.core.model import KIND
    from longtail.core.parameters import check_choice
    from longtail.core.processes import helps_another_process
    from longtail.core.store import check_free
    from longtail.workflow.build import build_estimator, parse_settings
    from longtail.workflow.vocabulary import with_vocabulary, without_vocabulary

    options.check_threads(threads)
    check_choice("--calibrate", calibrate, ("auto", "yes", "no"))
    check_free(out, kind=KIND, overwrite=overwrite)
    place = Place(shard, merge, ray)
    place.check(out)
    workspaces.Workspace(workspace)  # a wrong folder is said before the data is read
    values = parse_settings(settings or [])
    name = model or "auto"
    if name == "auto":
        _check_choice(base, weighting)
    values = _with_price(values, name, minutes, price)

    def build(text: bool, values: dict[str, Any]) -> Any:
        estimator = build_estimator(
            name, text=text, unit_rows=unit_rows and not text, base=base, weighting=weighting, settings=values,
            threads=threads, seed=seed,
        )  # fmt: skip
        estimator.check_parameters()
        place.check_model(estimator)
        return estimator

    _check_settings(build, without_vocabulary(values))
    dataset = read(data, reading, workspace=workspace)
    _check_kind(dataset, data, unit_rows=unit_rows)
    known = _vocabulary(vocabulary, language, dataset)
    estimator = build(text=dataset.X is None, values=with_vocabulary(values, known, dataset))
    check_points(estimator, dataset, data, name, separate=reading.get("fields") == "separate")
    _name_fields(estimator, reading)
    estimator.vocabulary_ = known
    _read_label_texts(estimator, vocabulary)
    if estimator.input_kind == "features" and not helps_another_process():
        _mention_lengths(estimator, dataset.X)
    estimator.reading_ = kept(reading)
    how: dict[str, Any] = {"resume": resume, "overwrite": overwrite, "place": place, "workspace": workspace}
    fit_and_save(estimator, dataset, out, calibrate, name=data_name(data), **how)


def _with_price(values: dict[str, Any], model: str, minutes: float | None, price: float | None) -> dict[str, Any]:
    """Return the settings with --minutes and --price, or raise ParameterError if the model has no such parameter."""
    from longtail.core.parameters import check_at_least_zero, check_positive
    from longtail.core.registry import estimator_class
    from longtail.errors import ParameterError

    if minutes is not None:
        check_positive(**{"--minutes": minutes})
    if price is not None:
        check_at_least_zero(**{"--price": price})
    for option, name, number, has in (
        ("--minutes", "minutes", minutes, "the choice of a model; give it without --model"),
        ("--price", "max_precision_loss", price, "the choice of a model (no --model), propensityrerank and ranknet"),
    ):
        if number is None:
            continue
        if name not in estimator_class(model)().get_params(deep=False):
            raise ParameterError(f"{model} has no {option}, which is for {has}")
        if name in values:
            raise ParameterError(f"{option} and --set {name} are the same; give one of them")
        values = values | {name: number}
    return values


def _check_choice(base: str | None, weighting: str | None) -> None:
    """Raise ParameterError for options that need a model of one's own."""
    from longtail.errors import ParameterError

    for option, given in (("--base", base), ("--weighting", weighting)):
        if given is not None:
            raise ParameterError(f"{option} {given} needs a model; add --model NAME, e.g. --model dismec")


def _check_settings(build: Callable[..., Any], values: dict[str, Any]) -> None:
    """Raise ParameterError for a wrong name or value, before a large file is read."""
    from longtail.errors import ParameterError

    try:
        build(text=True, values=values)
    except ParameterError as error:
        try:
            build(text=False, values=values)  # a name may fit only one kind of data
        except ParameterError:
            raise error from None


def _check_kind(dataset: Any, data: Path, *, unit_rows: bool) -> None:
    from longtail.errors import DataError

    if unit_rows and dataset.X is None:
        raise DataError("--unit-rows is for features, but this dataset has only texts", path=data)


def _vocabulary(file: Path | None, language: str | None, dataset: Any) -> Any:
    """Read the vocabulary, or make one of the label texts in the data; None if there are none."""
    from longtail.data import read_vocabulary
    from longtail.errors import ParameterError
    from longtail.workflow.vocabulary import check_overlap, vocabulary_of

    if file is None:
        if language is not None:
            raise ParameterError("--language is the language of a vocabulary (use --vocabulary FILE)")
        return vocabulary_of(dataset)
    found = read_vocabulary(file, language=language)
    check_overlap(found, dataset, file)
    return found


def _read_label_texts(estimator: Any, file: Path | None) -> None:
    """Let models that read the texts of labels read them from the vocabulary, unless they have another file."""
    if file is not None:
        default = [key for key, value in estimator.get_params().items() if key.endswith("label_text") and value is True]
        estimator.set_params(**dict.fromkeys(default, str(file)))


def check_points(estimator: Any, dataset: Any, data: Path, model: str, *, separate: bool) -> None:
    """Raise an error if the model cannot use weights, relevances or prefixed words of this dataset."""
    from longtail.errors import DataError, ParameterError
    from longtail.features import TextPipeline

    if estimator.input_kind == "text" and dataset.texts is None:
        raise DataError(f"{model} needs texts, but this dataset has only features", path=data)
    if separate and estimator.input_kind == "text" and not isinstance(estimator, TextPipeline):
        raise ParameterError(f"--fields separate is for models on TF-IDF features, but {model} reads texts itself")
    if dataset.weights is not None and not estimator.takes_weights():
        raise ParameterError(
            f"{model} takes no weights of points, but {data} has some; use dismec, or no --weight-field"
        )
    if dataset.has_relevances and not estimator.takes_relevances():
        raise DataError(
            f"has relevances of labels, which {model} cannot use; count every label as 1 by --relevance-field '', or "
            "use dismec",
            path=data,
        )


def _name_fields(estimator: Any, reading: dict[str, Any]) -> None:
    """Tell TextFeatures the names of separate fields, which weights and all that looks behind their prefixes need."""
    from longtail.core.registry import unknown
    from longtail.data.reading import Reading
    from longtail.errors import ParameterError
    from longtail.features import TextPipeline

    features = estimator.features if isinstance(estimator, TextPipeline) else None
    if features is None:
        return
    weights = features.field_weights or {}
    if reading.get("fields") != "separate":
        if weights:
            raise ParameterError("features.field_weights is for several text fields with --fields separate")
        return
    names = [path.name for path in Reading(text=reading.get("text", "text")).text_paths()]
    for name in weights:
        if name not in names:
            raise ParameterError(f"features.field_weights: {unknown('field', name, names)}")
    looks_behind = ("stem", "stop_words", "char_ngrams", "embeddings")  # the prefix of a word
    if weights or any(getattr(features, name) is not None for name in looks_behind):
        features.set_params(field_weights=dict.fromkeys(names, 1.0) | weights)


def _mention_lengths(estimator: Any, X: Any) -> None:
    """Tell the user if the lengths of rows are not what models expect; features are used as they are."""
    import numpy as np

    from longtail.app.console import say
    from longtail.core import registry
    from longtail.features import UnitRows
    from longtail.features.scaling import row_lengths

    parts = [estimator, *estimator.get_params().values()]
    any_length = tuple(map(registry.estimator_class, ("popularity", "auto")))  # AutoModel tries both
    if isinstance(estimator, any_length) or any(isinstance(part, UnitRows) for part in parts):
        return
    lengths = row_lengths(X[:: max(X.shape[0] // _ROWS_LOOKED_AT, 1)])
    lengths = lengths[lengths > 0]
    usual = float(np.median(lengths)) if lengths.size else 1.0
    if not 0.5 <= usual <= 2:
        say(
            f"note: rows of features have lengths around {usual:.3g}, but most models expect 1; --unit-rows scales them"
        )
