"""What evaluate and report score: a model or a file of predictions, with the test data and the training counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.app import options
from longtail.app.reading import read


@dataclass(frozen=True, eq=False)
class Subject:
    """Predictions for test points, and what they are scored with.

    Attributes
    ----------
    path : Path
        Model directory or predictions file.
    model : Estimator or None
        The model, unless this is a file.
    data : Dataset
        Test data.
    predictions : Predictions
        Predictions in the label ids of `data`.
    counts : ndarray of int64 or None
        Training points per label, if they are known.
    n_points : int or None
        Number of training points, likewise.
    training : Dataset or None
        Training data, if it was given.
    """

    path: Path
    model: Any
    data: Any
    predictions: Any
    counts: Any
    n_points: int | None
    training: Any

    @property
    def Y(self) -> Any:
        """Observed labels of the test points."""
        return self.data.binary().Y

    def shown_names(self) -> list[str] | None:
        """Return what people are shown for each label, if that differs from the names in the data."""
        vocabulary, names = getattr(self.model, "vocabulary_", None), self.data.label_names
        return None if vocabulary is None or names is None else [vocabulary.name(name) for name in names]


def load_subject(
    path: Path,
    data: Path,
    train: Path | None,
    reading: dict[str, Any],
    *,
    k: int,
    exponent: float | None = None,
) -> Subject:
    """Load a model or predictions with the test data; predict where it is a model.

    Parameters
    ----------
    path : Path
        Model directory or predictions file.
    data : Path
        Test data.
    train : Path or None
        Training data.
    reading : dict
        Options about reading.
    k : int
        Labels per point.
    exponent : float, optional
        Exponent of a re-ranker.

    Returns
    -------
    Subject
    """
    from longtail.errors import DataError, ParameterError

    if not path.exists():
        raise DataError("does not exist; give a model directory or a predictions file", path=path)
    if is_model(path):
        subject = _from_model(path, data, train, reading, exponent, k)
    elif exponent is not None:
        raise ParameterError(f"{path} is a predictions file; --exponent needs a model")
    else:
        subject = _from_file(path, data, train, reading)
    if subject.data.Y.nnz == 0:
        raise DataError("no point has a label, so there is nothing to compare predictions with", path=data)
    return subject


def load_other(path: Path, subject: Subject, reading: dict[str, Any], *, k: int) -> Any:
    """Return predictions of another model, or of a file, for the same points and in the same label ids."""
    from longtail.app.console import progress
    from longtail.core.model import load_model
    from longtail.data import read_predictions
    from longtail.data.labels import SEPARATOR
    from longtail.errors import DataError
    from longtail.workflow.apply import conform, predict_in_chunks
    from longtail.workflow.compare import in_labels_of

    if not path.exists():
        raise DataError("does not exist; give a model directory or a predictions file", path=path)
    if is_model(path):
        model = load_model(path)
        if subject.model is None:
            raise DataError(
                f"{subject.path} is a predictions file; compare it with another file, or begin with the model {path}"
            )
        in_labels_of(subject.predictions[:0], model, subject.model, shown=str(path), reference_shown=str(subject.path))
        found = predict_in_chunks(model, conform(subject.data, model), k, progress())
        return in_labels_of(found, model, subject.model, shown=str(path), reference_shown=str(subject.path))
    found = read_predictions(
        path,
        label_names=subject.data.label_names,
        ids_follow_names=subject.model is not None or subject.training is not None,
        separator=reading.get("separator", SEPARATOR),
    )
    if len(found) != subject.data.n_points:
        raise DataError(f"has {len(found):,} points, but the test data has {subject.data.n_points:,}", path=path)
    return found


def is_model(path: Path) -> bool:
    """Return whether a path is to be read as a model."""
    from longtail.core import store

    return store.kind_of(path) == "model" or path.is_dir()


def _from_model(
    path: Path, data: Path, train: Path | None, reading: dict[str, Any], exponent: float | None, k: int
) -> Subject:
    from longtail.app.console import progress
    from longtail.errors import DataError, ParameterError
    from longtail.workflow.apply import conform, predict_in_chunks

    model = options.load(path, exponent)
    names, training = model.label_names_, None
    counts, n_points = model.label_counts_, model.n_points_
    if names is None and train is not None:  # its labels have the order of the training data
        training = read(train, reading, model=model)
        names = training.label_names
        if training.n_labels != model.n_labels_:
            raise DataError(f"has {training.n_labels} labels, but {path} was trained on {model.n_labels_}", path=train)
    dataset = read(data, reading, model=model, label_names=names)
    if names is None and dataset.label_names is not None:
        raise ParameterError(
            f"{path} was trained without label names, so its labels cannot be matched with those of {data}; "
            "train it with label_names, or give its training data (--train DATA)"
        )
    if train is not None:
        training = read(train, reading, model=model, label_names=dataset.label_names)
        counts, n_points = training.label_counts, training.n_points
    predictions = predict_in_chunks(model, conform(dataset, model), k, progress())
    return Subject(path, model, dataset, predictions, counts, n_points, training)


def _from_file(path: Path, data: Path, train: Path | None, reading: dict[str, Any]) -> Subject:
    from longtail.data import read_predictions
    from longtail.data.labels import SEPARATOR
    from longtail.errors import ParameterError

    training = None if train is None else read(train, reading)
    dataset = read(data, reading, label_names=None if training is None else training.label_names)
    if training is not None and training.label_names is None and dataset.label_names is not None:
        raise ParameterError(f"{data} has label names, but {train} has none; they do not belong together")
    predictions = read_predictions(
        path,
        label_names=dataset.label_names,
        ids_follow_names=training is not None,
        separator=reading.get("separator", SEPARATOR),
    )
    if training is None:
        return Subject(path, None, dataset, predictions, None, None, None)
    return Subject(path, None, dataset, predictions, training.label_counts, training.n_points, training)
