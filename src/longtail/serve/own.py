"""What Annif's API has not: features, explanations, search among labels, models, feedback; under /longtail/v1."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Response
from scipy import sparse

from longtail.errors import ParameterError
from longtail.features.pipeline import model_behind
from longtail.serve import schemas
from longtail.serve.annif import problems
from longtail.serve.feedback import entry
from longtail.serve.models import Served
from longtail.serve.probabilities import origin
from longtail.serve.problems import Problem
from longtail.serve.service import Service
from longtail.serve.suggesting import Suggestion, check_text, check_texts, suggest

_LEVELS = {"lowest": 0.0, "median": 0.5, "highest": 1.0}
_SUGGEST = problems(400, 404, 413, 503, 504)


def own_routes(service: Service) -> APIRouter:
    """Return the routes under /longtail/v1."""
    routes = APIRouter(prefix="/longtail/v1", tags=["longtail"])
    _add_models(routes, service)
    _add_predictions(routes, service)
    _add_feedback(routes, service)
    return routes


def _add_models(routes: APIRouter, service: Service) -> None:
    @routes.get("/models", response_model=schemas.ModelList)
    async def list_models() -> Any:
        """List the models."""
        return {"models": [described(service, served) for served in service.models.all()]}

    @routes.get("/models/{model_id}", response_model=schemas.Model, responses=problems(404, 503))
    async def show_model(model_id: str) -> Any:
        """Show a model: labels, counts, propensities, metrics."""
        return described(service, service.models.get(model_id))

    @routes.get("/models/{model_id}/labels", response_model=schemas.LabelList, responses=problems(400, 404, 503))
    async def search_labels(
        model_id: str,
        q: Annotated[str, Query(max_length=200, description="Words or beginnings of words.")] = "",
        limit: Annotated[int, Query(ge=1, le=schemas.MOST_RESULTS)] = 20,
        offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        language: Annotated[str | None, Query()] = None,
    ) -> Any:
        """Search among the names, notations and ids of labels; without `q`, list labels by falling frequency."""
        served = service.models.get(model_id)
        shown_in = service.language(served, language)
        total, found = await asyncio.to_thread(served.labels.search, q, shown_in, limit, offset)
        return {"total": total, "labels": [served.labels.described(number, shown_in) for number in found]}


def _add_predictions(routes: APIRouter, service: Service) -> None:
    @routes.post("/models/{model_id}/suggest", response_model=schemas.Ranked, responses=_SUGGEST)
    async def suggest_texts(model_id: str, body: schemas.SuggestBody) -> Any:
        """Suggest labels for texts, with all that is known about the labels."""
        served = service.models.get(model_id)
        shown_in = service.language(served, body.language)
        wish = service.wish(served, body)
        served.check_reads_texts()
        texts = check_texts(body.texts, service.settings.max_text, "texts.{}")
        found = await suggest(service.queue, served, texts, wish)
        return {"results": [[_ranked(served, one, shown_in) for one in row] for row in found]}

    @routes.post("/models/{model_id}/predict", response_model=schemas.Ranked, responses=_SUGGEST)
    async def predict_points(model_id: str, body: schemas.PredictBody) -> Any:
        """Suggest labels for rows of features."""
        served = service.models.get(model_id)
        shown_in = service.language(served, body.language)
        wish = service.wish(served, body)
        rows = _rows(served, body.points)
        found = await suggest(service.queue, served, rows, wish)
        return {"results": [[_ranked(served, one, shown_in) for one in row] for row in found]}

    @routes.post("/models/{model_id}/explain", response_model=schemas.Explained, responses=_SUGGEST)
    async def explain(model_id: str, body: schemas.ExplainBody) -> Response:
        """Say what each word of a text contributed to the score of a label."""
        served = service.models.get(model_id)
        served.check_reads_texts()
        text = check_text(body.text, service.settings.max_text)
        number = served.labels.number(body.label)
        if number is None:
            raise Problem(404, f"label {body.label!r} is not one of the model {served.id!r}")
        found = await service.queue.submit(
            (served, "explain", object()), lambda inputs: [_explained(served, inputs[0], number)], [text]
        )
        return Response(found[0], media_type="application/json")


def _add_feedback(routes: APIRouter, service: Service) -> None:
    @routes.post(
        "/models/{model_id}/feedback", response_model=schemas.Stored, responses=problems(400, 403, 404, 413, 503, 507)
    )
    async def feedback(model_id: str, body: schemas.FeedbackBody) -> Any:
        """Store which labels of a text are right and which are wrong; answered once that is on the disk."""
        served = service.models.get(model_id)
        accepted, rejected, added = (
            service.known(served, labels) for labels in (body.accepted, body.rejected, body.added)
        )
        wrong = set(rejected) & {*accepted, *added}
        if wrong:
            raise Problem(400, f"label {sorted(wrong)[0]!r} is both right and wrong; name it once")
        text = check_text(body.text, service.settings.max_text)
        line = entry(
            served, text, "feedback", accepted=accepted, rejected=rejected, added=added, document_id=body.document_id
        )
        await service.journal.append(served.id, [line])
        return {"stored": 1}


def described(service: Service, served: Served) -> dict[str, Any]:
    """Return all that is known about a model."""
    labels, model = served.labels, served.model
    counts, bands = labels.counts, np.asarray(labels.bands)
    propensities = 1 / labels.inverse_propensities[counts > 0]
    total = max(int(counts.sum()), 1)
    return {
        "id": served.id,
        "name": served.settings.name or served.id,
        "model": type(model_behind(model)).__name__,
        "reads": "texts" if served.reads_texts else "features",
        "language": labels.language,
        "languages": labels.languages,
        "points": model.n_points_,
        "labels": len(labels),
        "bands": {
            name: {"labels": int((bands == name).sum()), "share": float(counts[bands == name].sum() / total)}
            for name in ("head", "torso", "tail", "unseen")
        },
        "propensities": {
            name: float(np.quantile(propensities, level)) for name, level in _LEVELS.items()
        },
        "probabilities": origin(model),
        "exponent": served.exponent,
        "explains": served.explains,
        "feedback": service.journal.is_on,
        "modified": served.modified,
        "parameters": {key: _plain(value) for key, value in model_behind(model).get_params(deep=False).items()},
        "evaluations": served.evaluations,
        "limits": {
            "texts": schemas.MOST_DOCUMENTS, "characters": service.settings.max_text, "limit": schemas.MOST_RESULTS,
        },
    }  # fmt: skip


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def _ranked(served: Served, found: Suggestion, language: str) -> dict[str, Any]:
    known = served.labels.described(found.label, language)
    return {**known, "score": found.score, "probability": found.probability}


def _rows(served: Served, points: list[schemas.Point]) -> list[sparse.csr_matrix]:
    if served.model.input_kind != "features":
        raise Problem(400, f"the model {served.id!r} reads texts; use /longtail/v1/models/{served.id}/suggest")
    width = served.model.n_features_in_
    rows = []
    for place, point in enumerate(points):
        if len(point.indices) != len(point.values):
            said = f"{len(point.indices)} indices, but {len(point.values)} values"
            raise Problem(400, f"points.{place}: there are {said}")
        if point.indices and max(point.indices) >= width:
            raise Problem(
                400, f"points.{place}: index {max(point.indices)} is too large; the model has {width} features"
            )
        if len(set(point.indices)) != len(point.indices):
            raise Problem(400, f"points.{place}: an index occurs twice")
        values = np.asarray(point.values, np.float32)
        shape = (np.zeros(len(point.indices), np.int32), np.asarray(point.indices, np.int32))
        rows.append(sparse.csr_matrix((values, shape), shape=(1, width)))
    return rows


def _explained(served: Served, text: str, number: int) -> str:
    """Return an explanation as JSON, which the prediction thread makes: a long text has many words."""
    try:
        found = served.model.explain(text, number)
    except ParameterError as error:
        raise Problem(400, str(error)) from error
    tokens = [{"token": one.token, "start": one.start, "end": one.end, "weight": one.weight} for one in found.tokens]
    labels = served.labels
    name = labels.name(number, labels.language)
    return json.dumps({"uri": labels.uri(number), "label": name, "score": found.score, "tokens": tokens})
