"""Annif's REST API, version 1: what annif-client and Annif's own `http` backend call."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

import longtail
from longtail.serve import language as languages
from longtail.serve import schemas
from longtail.serve.feedback import entry
from longtail.serve.forms import checked, fields_of
from longtail.serve.models import Served
from longtail.serve.problems import MEDIA_TYPE, Problem
from longtail.serve.service import Service
from longtail.serve.suggesting import Suggestion, Wish, check_text, check_texts, suggest

_PROBLEM = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the entries of an OpenAPI schema for problems with these statuses."""
    return {status: {**_PROBLEM, "model": schemas.Problem, "description": "Problem"} for status in statuses}


_FORM = schemas.SuggestForm.model_json_schema()
_FORM_BODY = {"requestBody": {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": _FORM}}}}
_SUGGEST = problems(400, 404, 413, 415, 503, 504)


def annif_routes(service: Service) -> APIRouter:
    """Return the routes of Annif's API."""
    routes = APIRouter(prefix="/v1", tags=["Annif"])
    _add_information(routes, service)
    _add_suggestions(routes, service)
    _add_learning(routes, service)
    return routes


def _add_information(routes: APIRouter, service: Service) -> None:
    @routes.get("/", response_model=schemas.ApiInfo)
    async def show_info() -> Any:
        """Return what answers at this address."""
        return {"title": "Annif REST API", "version": f"longtail {longtail.__version__}"}

    @routes.get("/projects", response_model=schemas.Projects)
    async def list_projects() -> Any:
        """List the projects: the models that are served."""
        return {"projects": [project(served) for served in service.models.all()]}

    @routes.get("/projects/{project_id}", response_model=schemas.Project, responses=problems(404, 503))
    async def show_project(project_id: str) -> Any:
        """Show a project."""
        return project(service.models.get(project_id))

    @routes.get("/vocabs", response_model=schemas.Vocabs)
    async def list_vocabs() -> Any:
        """List the vocabularies, one per project."""
        return {"vocabs": [vocab(served) for served in service.models.all()]}


def _add_suggestions(routes: APIRouter, service: Service) -> None:
    @routes.post(
        "/projects/{project_id}/suggest", response_model=schemas.Results, responses=_SUGGEST, openapi_extra=_FORM_BODY
    )
    async def suggest_one(project_id: str, request: Request) -> Response:
        """Suggest labels for a text."""
        service.models.get(project_id)  # before the body is read
        content = await one_json(service, project_id, await fields_of(request))
        return Response(content, media_type="application/json")

    @routes.post("/projects/{project_id}/suggest-batch", response_model=list[schemas.BatchResults], responses=_SUGGEST)
    async def suggest_batch(
        project_id: str,
        body: schemas.Documents,
        limit: Annotated[schemas.Limit, Query()] = 10,
        threshold: Annotated[schemas.Threshold, Query()] = 0.0,
        language: Annotated[str | None, Query()] = None,
    ) -> Response:
        """Suggest labels for several texts."""
        asked = schemas.BatchQuery.model_construct(limit=limit, threshold=threshold, language=language)
        return Response(await batch_json(service, project_id, body, asked), media_type="application/json")


async def one_json(service: Service, project_id: str, fields: dict[str, list[str]]) -> str:
    """Return the suggestions for the text in a form, as JSON."""
    served = service.models.get(project_id)
    form = _form(fields)
    shown_in = service.language(served, form.language)
    wish = service.wish(served, form)
    served.check_reads_texts()
    found = await suggest(service.queue, served, [check_text(form.text, service.settings.max_text)], wish)
    return results_json(served, found[0], shown_in)


async def batch_json(service: Service, project_id: str, body: schemas.Documents, asked: schemas.BatchQuery) -> str:
    """Return the suggestions for several texts, as JSON."""
    served = service.models.get(project_id)
    shown_in = service.language(served, asked.language)
    served.check_reads_texts()
    wish = Wish(asked.limit, asked.threshold, body.exponent, service.numbers(served, body.exclude))
    texts = [document.text for document in body.documents]
    texts = check_texts(texts, service.settings.max_text, "documents.{}.text")
    found = await suggest(service.queue, served, texts, wish)
    parts = [
        f'{results_json(served, one, shown_in)[:-1]}, "document_id": {service.json(document.document_id)}}}'
        for one, document in zip(found, body.documents, strict=True)
    ]
    return f"[{', '.join(parts)}]"


def _add_learning(routes: APIRouter, service: Service) -> None:
    @routes.post(
        "/projects/{project_id}/learn", status_code=204, response_class=Response,
        responses=problems(400, 403, 404, 413, 503, 507),
    )  # fmt: skip
    async def learn(project_id: str, body: schemas.IndexedDocuments) -> Response:
        """Store texts with their labels for the next training; texts without either are ignored."""
        served = service.models.get(project_id)
        entries = [
            entry(
                served, check_text(one.text, service.settings.max_text, f"{number}.text"), "learn",
                accepted=service.known(served, [subject.uri for subject in one.subjects]),
            )
            for number, one in enumerate(body)
            if one.text is not None and one.subjects is not None
        ]  # fmt: skip
        await service.journal.append(served.id, entries)
        return Response(status_code=204)

    @routes.post("/detect-language", response_model=schemas.Languages, responses=problems(400, 413))
    async def detect_language(body: schemas.Candidates) -> Any:
        """Say which of some languages a text is in."""
        text = check_text(body.text, service.settings.max_text)
        return {"results": await asyncio.to_thread(languages.detect, text, body.languages)}


def project(served: Served) -> dict[str, Any]:
    """Return a model as one of Annif's projects."""
    return {
        "project_id": served.id,
        "name": served.settings.name or served.id,
        "language": served.labels.language,
        "backend": {"backend_id": "longtail"},
        "vocab": vocab(served),
        "vocab_language": served.labels.language,
        "is_trained": True,
        "modification_time": served.modified,
    }


def vocab(served: Served) -> dict[str, Any]:
    """Return the labels of a model as one of Annif's vocabularies."""
    return {
        "vocab_id": served.id, "languages": served.labels.languages, "size": len(served.labels), "loaded": True
    }  # fmt: skip


def results_json(served: Served, found: list[Suggestion], language: str) -> str:
    """Return suggestions as Annif's JSON."""
    start = served.labels.start_of_result
    return f'{{"results": [{", ".join(f"{start(one.label, language)}{one.score}}}" for one in found)}]}}'


def _form(fields: dict[str, list[str]]) -> schemas.SuggestForm:
    """Return the checked form: of a field given twice, the first value; empty fields other than `text` do not count."""
    if "text" not in fields:
        raise Problem(400, "text: field required (in the form)")
    exclude = [label for label in fields.pop("exclude", []) if label]
    given = {name: values[0] for name, values in fields.items() if values[0] or name == "text"}
    return checked(schemas.SuggestForm, {**given, "exclude": exclude})
