"""The OpenAPI schema and the service agree: schemathesis sends what the schema allows, and what it forbids."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, settings
from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier
from schemathesis.specs.openapi.checks import positive_data_acceptance

from longtail.serve.app import create_app
from longtail.serve.language import LANGUAGES
from longtail.serve.settings import ModelSettings, Settings
from serve.running import call

EXAMPLES = int(os.environ.get("LONGTAIL_SCHEMA_EXAMPLES", "4"))  # per operation; scripts/fuzz-service takes more
OPTIONS = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
GATE, _ = create_app(Settings(models={"unused": ModelSettings(path=Path("unused"))}))
SCHEMA = GATE.app.app.openapi()


def with_models() -> dict:
    """The schema with the ids of the models that there are, so that requests get past the first check."""
    changed = copy.deepcopy(SCHEMA)
    changed["paths"] = {path: item for path, item in changed["paths"].items() if "_id}" in path}
    for item in changed["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", []):
                if parameter["name"] in ("project_id", "model_id"):
                    parameter["schema"] = {"type": "string", "enum": ["texts", "rows"]}
    return changed


written, known = schemathesis.openapi.from_dict(SCHEMA), schemathesis.openapi.from_dict(with_models())


def test_the_schema_is_that_of_the_service(service):
    assert call(service.address, "/openapi.json")[1] == SCHEMA


def test_the_schema_names_no_answer_that_is_never_given():
    operations = [operation for item in SCHEMA["paths"].values() for operation in item.values()]
    assert "422" not in {status for operation in operations for status in operation["responses"]}
    assert "ValidationError" not in str(SCHEMA)


def test_the_languages_are_those_of_the_detector():
    assert sorted(LanguageIdentifier.from_model_file(MODEL_DIR / MODEL_FILE).labels) == LANGUAGES


@written.parametrize()
@OPTIONS
def test_every_operation_keeps_to_the_schema(case, service):
    case.call_and_validate(base_url=service.address)


@known.parametrize()
@OPTIONS
def test_every_operation_keeps_to_the_schema_with_models_that_exist(case, service):
    # A schema cannot say which languages, labels and features a model has.
    case.call_and_validate(base_url=service.address, excluded_checks=[positive_data_acceptance])
