"""Bodies of requests and responses, as the OpenAPI schema shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field

from longtail.serve.language import LANGUAGES

MOST_RESULTS = 1_000  # labels per text
MOST_DOCUMENTS = 32  # texts per request, as in Annif
MOST_LEARNED = 10_000  # texts per request


def _whole(value: Any) -> Any:
    """Return 3 for 3.0, which JSON does not tell apart."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_WHOLE = BeforeValidator(_whole)  # last in its row: the bounds before it stay in the schema
# U+0000 is no character of a text; everything else is. The pattern is for those who read the schema: `check_text` says
# where a NUL is.
_NO_NUL = {"pattern": r"^[^\x00]*$"}
Text = Annotated[str, Field(json_schema_extra=_NO_NUL, description="Input text.", examples=["A quick brown fox."])]
Threshold = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, description="Lowest probability of a result.")]
Exponent = Annotated[
    float,
    Field(ge=0, le=1, allow_inf_nan=False, description="0 ranks by probability, 1 favours rare labels."),
]
Limit = Annotated[int, Field(ge=0, le=MOST_RESULTS, description="Most results to return."), _WHOLE]
Exclude = Annotated[list[str], Field(max_length=1_000, description="URIs or ids of labels never to suggest.")]


class Strict(BaseModel):
    """Base of JSON bodies: no value is converted; unknown keys are ignored, as Annif does."""

    model_config = ConfigDict(strict=True)


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


class ApiInfo(BaseModel):
    """What answers at this address."""

    title: str
    version: str


class Backend(BaseModel):
    """The kind of model behind a project."""

    backend_id: str


class Vocab(BaseModel):
    """A vocabulary: the labels of a model."""

    vocab_id: str
    languages: list[str]
    size: int | None
    loaded: bool


class Vocabs(BaseModel):
    """A list of vocabularies."""

    vocabs: list[Vocab]


class Project(BaseModel):
    """A project of Annif: a model."""

    project_id: str
    name: str
    language: str
    backend: Backend
    vocab: Vocab | None
    vocab_language: str | None
    is_trained: bool | None
    modification_time: datetime | None


class Projects(BaseModel):
    """A list of projects."""

    projects: list[Project]


class Result(BaseModel):
    """A suggested label."""

    uri: str
    label: str
    notation: str | None
    score: float


class Results(BaseModel):
    """Suggested labels of a text."""

    results: list[Result]


class BatchResults(Results):
    """Suggested labels of one text of several."""

    document_id: str | None


class SuggestForm(BaseModel):
    """Fields of /suggest; others are ignored."""

    text: Text
    limit: Limit = 10
    threshold: Threshold = 0.0
    language: Annotated[str | None, Field(description="Language of labels; empty: the project's.")] = None
    exponent: Exponent | None = None
    exclude: Exclude = []


class Document(Strict):
    """A text of several."""

    text: Text
    document_id: str | None = None
    metadata: dict[str, str] | None = None


class Documents(Strict):
    """Several texts."""

    documents: list[Document] = Field(max_length=MOST_DOCUMENTS)
    exponent: Exponent | None = None
    exclude: Exclude = []


class BatchQuery(BaseModel):
    """What the query of /suggest-batch may say."""

    limit: Limit = 10
    threshold: Threshold = 0.0
    language: str | None = None


class Subject(Strict):
    """A label of a text."""

    uri: str
    label: str | None = None


class IndexedDocument(Strict):
    """A text and its labels."""

    text: Text | None = None
    metadata: dict[str, str] | None = None
    subjects: list[Subject] | None = None


# Checked up to the first mistake: describing half a million of them would keep everybody waiting.
IndexedDocuments = Annotated[list[IndexedDocument], Field(max_length=MOST_LEARNED), FailFast()]


class Candidates(Strict):
    """A text, and the languages that it may be in."""

    text: Text
    languages: list[Annotated[str, Field(json_schema_extra={"enum": list(LANGUAGES)})]] = Field(
        min_length=1, max_length=5
    )


class Language(BaseModel):
    """A language with its probability; null stands for all others."""

    language: str | None
    score: float


class Languages(BaseModel):
    """Languages of a text, the most probable first."""

    results: list[Language]


class Parent(BaseModel):
    """A broader label; `known` says whether the model can suggest it."""

    uri: str
    label: str
    known: bool


class Label(BaseModel):
    """A label, its training points, its band (head, torso, tail; unseen without points) and propensity."""

    uri: str
    label: str
    notation: str | None
    count: int
    band: str
    propensity: float
    parents: list[Parent]


class RankedLabel(Label):
    """A suggested label with what it is ranked by, and its probability."""

    score: float
    probability: float


class Ranked(BaseModel):
    """Suggested labels of each text, in order."""

    results: list[list[RankedLabel]]


class SuggestBody(Strict):
    """Texts, and what to return for them."""

    texts: list[Text] = Field(max_length=MOST_DOCUMENTS)
    limit: Limit = 10
    threshold: Threshold = 0.0
    language: str | None = None
    exponent: Exponent | None = None
    exclude: Exclude = []


class Point(Strict):
    """Features of one point: numbers from 0, and their values."""

    indices: list[Annotated[int, Field(ge=0), _WHOLE]]
    values: list[Annotated[float, Field(allow_inf_nan=False, ge=-1e9, le=1e9)]]


class PredictBody(Strict):
    """Points, and what to return for them."""

    points: list[Point] = Field(max_length=MOST_DOCUMENTS)
    limit: Limit = 10
    threshold: Threshold = 0.0
    language: str | None = None
    exponent: Exponent | None = None
    exclude: Exclude = []


class ExplainBody(Strict):
    """A text and one label."""

    text: Text
    label: Annotated[str, Field(description="URI or id of the label.")]


class Token(BaseModel):
    """A word, text[start:end], and its share in the score; absolute shares sum to 1, negative ones are against it."""

    token: str
    start: int
    end: int
    weight: float


class Explained(BaseModel):
    """What each word contributed to the score of a label."""

    uri: str
    label: str
    score: float
    tokens: list[Token]


class LabelList(BaseModel):
    """Labels that match a search: their number, and some of them."""

    total: int
    labels: list[Label]


class Band(BaseModel):
    """A band: its labels, and the share of all label occurrences that they have."""

    labels: int
    share: float


class Evaluation(BaseModel):
    """Metrics of a model on some data, in percent; the frontier has metrics per exponent from head to tail."""

    data: str
    date: str | None
    points: int | None
    metrics: dict[str, float]
    frontier: list[dict[str, float]]


class Model(BaseModel):
    """A model: what it is, what it was trained on, how good it is."""

    id: str
    name: str
    model: str
    reads: str
    language: str
    languages: list[str]
    points: int
    labels: int
    bands: dict[str, Band]
    propensities: dict[str, float]
    probabilities: str
    exponent: float
    explains: bool
    feedback: bool
    modified: datetime
    parameters: dict[str, Any]
    evaluations: list[Evaluation]
    limits: dict[str, int]


class ModelList(BaseModel):
    """All models."""

    models: list[Model]


class FeedbackBody(Strict):
    """What a person said about the suggestions for a text."""

    text: Text
    accepted: list[str] = Field([], max_length=1_000, description="URIs or ids of suggested labels that are right.")
    rejected: list[str] = Field([], max_length=1_000, description="Suggested labels that are wrong.")
    added: list[str] = Field([], max_length=1_000, description="Right labels that were not suggested.")
    document_id: str | None = None


class Stored(BaseModel):
    """How many texts with feedback were stored."""

    stored: int
