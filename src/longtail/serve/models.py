"""The models that are served, and how one takes the place of another without a failed request."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longtail.core import store
from longtail.core.calibration import log_probability
from longtail.core.model import KIND, load_model
from longtail.data.vocabularies import read_vocabulary
from longtail.errors import LongtailError, ParameterError, first_line
from longtail.serve import metrics
from longtail.serve.figures import evaluations
from longtail.serve.labels import Labels
from longtail.serve.probabilities import calibrate_on, predict_log_odds
from longtail.serve.problems import Problem, busy
from longtail.serve.settings import ModelSettings, Settings
from longtail.workflow.decide import dial

logger = logging.getLogger(__name__)


Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The best labels of one point, by score.

    Parameters
    ----------
    labels : ndarray of int32
        Labels, best first; -1 pads.
    log_odds : ndarray of float64
        Their log-odds.
    pairs : list of (int, float)
        Labels with their probabilities, without padding.
    by_probability : bool
        Whether the pairs are in the order of their probabilities.
    """

    labels: NDArray[np.int32]
    log_odds: NDArray[np.float64]
    pairs: list[tuple[int, float]]
    by_probability: bool


_NOT_CALIBRATED = (
    "not calibrated: scores rank labels, and are no probabilities; run longtail calibrate, or name labelled texts that "
    "the model has not seen (calibration in the settings)"
)
_SOME = 4  # texts that are predicted together before any request: what batches need is loaded, too
_WARM_UP = "the first text loads what later ones need"


@dataclass(frozen=True, eq=False)
class Served:
    """One loaded model with all that requests ask of it; it never changes.

    Parameters
    ----------
    id : str
        Id in addresses.
    settings : ModelSettings
        What the settings say about it.
    model : Estimator
        Fitted model; a re-ranker with exponent 0, since the exponent comes with the request.
    labels : Labels
        Its labels.
    exponent : float
        Exponent of requests that name none: that of a re-ranker, 0 for other models.
    stamp : tuple
        Identity of its files when it was loaded, by `stamp_of`.
    modified : datetime
        When the directory was written.
    evaluations : list of dict
        How good it is, by `figures.evaluations`.
    explains : bool
        Whether the model says what each word contributed.
    """

    id: str
    settings: ModelSettings
    model: Any
    labels: Labels
    exponent: float
    stamp: Stamp
    modified: datetime
    evaluations: list[dict[str, Any]]
    explains: bool

    @property
    def reads_texts(self) -> bool:
        """Whether the model reads single texts."""
        return self.model.input_kind == "text" and (self.model.reading_ or {}).get("fields") != "separate"

    @property
    def reorders(self) -> bool:
        """Whether the most probable labels may be others than those with the best scores."""
        calibration = self.model.own_calibration()
        return calibration is not None and not calibration.keeps_order

    def predict(self, inputs: Any, k: int) -> list[Found]:
        """Return the k best labels per input with their log-odds; called in the prediction thread."""
        rows = sparse.vstack(inputs, format="csr") if self.model.input_kind == "features" else inputs
        found, log_odds = predict_log_odds(self.model, rows, k)
        metrics.texts.labels(self.id).inc(len(found))
        likely = np.exp(log_probability(log_odds)).tolist()
        falling = np.asarray((log_odds[:, 1:] <= log_odds[:, :-1]).all(axis=1))
        pairs = (
            [pair for pair in zip(labels, own, strict=True) if pair[0] >= 0]
            for labels, own in zip(found.labels.tolist(), likely, strict=True)
        )
        return [Found(*one) for one in zip(found.labels, log_odds, pairs, falling, strict=True)]

    def check_reads_texts(self) -> None:
        """Raise a problem unless the model reads texts."""
        if not self.reads_texts:
            kind = "features" if self.model.input_kind == "features" else "separate fields"
            raise Problem(400, f"the model {self.id!r} reads {kind}; use /longtail/v1/models/{self.id}/predict")


def load_served(name: str, settings: ModelSettings) -> Served:
    """Load a model and all that belongs to it, and predict once, so that the first request does not wait.

    Parameters
    ----------
    name : str
        Id in addresses.
    settings : ModelSettings
        What the settings say about the model.

    Returns
    -------
    Served

    Raises
    ------
    LongtailError
        If the model, its vocabulary, its calibration data or its metrics cannot be read.
    """
    stamp = stamp_of(settings)
    model = load_model(settings.path)
    if settings.calibration is not None:
        calibrate_on(model, settings.calibration)
    vocabulary = model.vocabulary_
    if settings.vocabulary is not None:
        vocabulary = read_vocabulary(settings.vocabulary, language=settings.language or None)
    exponent = dial(model)
    if exponent is not None:
        model = model.adjusted(exponent=0.0)
    served = Served(
        id=name, settings=settings, model=model,
        labels=Labels(model, vocabulary, settings.uri_prefix, settings.language), exponent=exponent or 0.0, stamp=stamp,
        modified=datetime.fromtimestamp(stamp[0][0] / 1e9, UTC),
        evaluations=evaluations(settings.path, settings.metrics), explains=_explains(model),
    )  # fmt: skip
    if served.reads_texts:
        served.predict([_WARM_UP] * _SOME, min(10, model.n_labels_))
    return served


def stamp_of(settings: ModelSettings) -> Stamp:
    """Return what changes when a model directory is overwritten, or a file that the settings name beside it.

    Time, inode and size of its manifest, then of its vocabulary, calibration data and metrics; zeros for no file.
    """
    files = (settings.path / store.MANIFEST, settings.vocabulary, settings.calibration, settings.metrics)
    return tuple(map(_identity, files))


def _identity(file: Path | None) -> tuple[int, int, int]:
    if file is None:
        return 0, 0, 0
    try:
        found = file.stat()
    except OSError:  # whoever reads it will say so
        return 0, 0, 0
    return found.st_mtime_ns, found.st_ino, found.st_size


def check_models(settings: Settings) -> None:
    """Raise an error for a directory that is no model, before any process is started."""
    for model in settings.models.values():
        store.read_manifest(model.path, KIND)


class Models:
    """Models by id; `refresh` loads what is new or has changed and exchanges it in one step.

    Parameters
    ----------
    settings : Settings
        Settings of the service.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._served: dict[str, Served] = {}
        self._failed: dict[str, Stamp] = {}  # what could not be loaded, to say so once
        self._loading = threading.Lock()

    @property
    def ready(self) -> bool:
        """Whether all models are loaded."""
        return len(self._served) == len(self.settings.models)

    def all(self) -> Sequence[Served]:
        """Return the loaded models in the order of the settings."""
        return [self._served[name] for name in self.settings.models if name in self._served]

    def get(self, name: str) -> Served:
        """Return a model by its id, or raise a problem: 404 if there is none, 503 while it is loading."""
        served = self._served.get(name)
        if served is not None:
            return served
        if name in self.settings.models:
            raise busy(f"the model {name!r} is being loaded; try again in a moment")
        raise Problem(404, f"Project '{name}' not found", "Project not found")

    def refresh(self, *, again: bool = True) -> None:
        """Load models that are not loaded, or whose files have changed; called in a thread.

        Parameters
        ----------
        again : bool, default True
            Also try what could not be loaded, and has not changed since.

        Raises
        ------
        LongtailError
            If a model cannot be loaded for the first time. One that cannot be loaded again stays as it was.
        """
        with self._loading:
            changed = False
            for name, settings in self.settings.models.items():
                old = self._served.get(name)
                try:
                    stamp = stamp_of(settings)
                    if old is not None and (stamp == old.stamp or (not again and stamp == self._failed.get(name))):
                        continue
                    self._failed[name] = stamp
                    new = load_served(name, settings)
                except Exception as error:  # whatever it is, the old model can go on
                    metrics.reloads.labels(name, "failed").inc()
                    if old is None:
                        raise
                    logger.error("model %s: not replaced, the old one stays (%s)", name, first_line(error))
                    continue
                self._served, changed = {**self._served, name: new}, True
                metrics.reloads.labels(name, "loaded").inc()
                logger.info("model %s: loaded from %s", name, settings.path)
                if not new.model.has_probabilities():
                    logger.warning("model %s: %s", name, _NOT_CALIBRATED)
            if changed:
                _keep_out_of_collections()


def _keep_out_of_collections() -> None:
    """Let the garbage collector pass over what stays: a look at all of it takes 100 ms, in which nobody is served."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _explains(model: Any) -> bool:
    """Return whether a model explains its scores, by asking it."""
    if model.input_kind != "text":
        return False
    try:
        model.explain(_WARM_UP, int(model.label_counts_.argmax()))
    except ParameterError:
        return False
    except LongtailError:  # it would, for a text with words that it knows
        return True
    return True
