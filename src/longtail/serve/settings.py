"""Settings of the service: from the command line, else the environment, else a TOML file, else defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from longtail.errors import ParameterError, first_line
from longtail.serve.schemas import MOST_DOCUMENTS

_ID = re.compile(r"[A-Za-z0-9_-]+")  # as Annif's project ids


class ModelSettings(BaseModel):
    """What is said about one model, under [models.ID] in the file.

    Parameters
    ----------
    path : path
        Directory of the model.
    name : str, default ""
        Name for people; "" shows the id.
    language : str, default ""
        Language of the texts, and of the label names where a request names none; "" means that of the vocabulary.
    vocabulary : path or None, default None
        Names of labels (CSV, JSON, SKOS), instead of those that the model has.
    uri_prefix : str, default ""
        Put before the id of a label to make its URI.
    calibration : path or None, default None
        Labelled texts that the model has not seen: scores become probabilities by them.
    metrics : path or None, default None
        What `longtail evaluate --json` printed, or the report.json of `longtail report`, to be shown with the model;
        what `longtail evaluate --keep` kept beside the model is shown in any case.
    """

    model_config = ConfigDict(extra="forbid")

    path: Path
    name: str = ""
    language: str = ""
    vocabulary: Path | None = None
    uri_prefix: str = ""
    calibration: Path | None = None
    metrics: Path | None = None


class Settings(BaseSettings):
    """Settings of the service; environment variables are called LONGTAIL_SERVE_HOST and so on.

    Parameters
    ----------
    models : dict of str to ModelSettings
        Models by id.
    host : str, default "127.0.0.1"
        Address to listen on; "0.0.0.0" for all.
    port : int, default 8000
        Port; 0 takes a free one.
    workers : int, default 1
        Worker processes; they share the mapped arrays of the models.
    feedback : path or None, default None
        Folder for feedback, one file per model; None turns feedback off.
    token : str or None, default None
        Bearer token that requests must carry.
    token_file : path or None, default None
        File with the token.
    cors_origins : list of str, default []
        Origins of other sites whose scripts may call the service.
    watch : float, default 0
        Seconds between looks at the model directories, which are loaded again when they change; 0 never looks.
    max_body : int, default 8,388,608
        Bytes of a request.
    max_text : int, default 1,000,000
        Characters of a text.
    queue : int, default 512
        Texts that may wait in one worker.
    queue_seconds : float, default 0.03
        A request is refused where those before it are expected to take longer, and are at least `batch` requests; or
        where the event loop is later than that, and at least half as many wait.
    batch : int, default 32
        Texts that are predicted together.
    time_limit : float, default 30
        Seconds for a request.
    idle_limit : float, default 10
        Seconds that a connection may wait for a request and its headers; the body has `time_limit`.
    max_connections : int, default 1,000
        Open connections per worker.
    drain : float, default 1
        Seconds after SIGTERM in which new requests are still answered, while /health/ready says 503.
    access_log : bool, default True
        Write one JSON line per request to stderr.
    """

    model_config = SettingsConfigDict(env_prefix="LONGTAIL_SERVE_", extra="forbid")

    models: dict[str, ModelSettings] = Field(min_length=1)
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    workers: int = Field(1, ge=1, le=256)
    feedback: Path | None = None
    token: SecretStr | None = None
    token_file: Path | None = None
    cors_origins: list[str] = []
    watch: float = Field(0, ge=0)
    max_body: int = Field(8 * 2**20, ge=1)
    max_text: int = Field(1_000_000, ge=1)
    queue: int = Field(512, ge=MOST_DOCUMENTS)
    queue_seconds: float = Field(0.03, gt=0)
    batch: int = Field(32, ge=1)
    time_limit: float = Field(30, gt=0)
    idle_limit: float = Field(10, gt=0)
    max_connections: int = Field(1_000, ge=1)
    drain: float = Field(1, ge=0)
    access_log: bool = True

    @model_validator(mode="after")
    def _check(self) -> Settings:
        for name in self.models:
            if not _ID.fullmatch(name):
                raise ValueError(f"the id {name!r} of a model may have letters, digits, _ and - only (use NAME=MODEL)")
        for settings in (self, *self.models.values()):
            for name, value in settings:
                if isinstance(value, Path) and "\0" in str(value):
                    raise ValueError(f"{name} is {str(value)!r}, but a path cannot contain NUL")
        return self

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource, dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:  # fmt: skip
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def read_settings(file: Path | None = None, **given: Any) -> Settings:
    """Return the settings of a file, with those of the environment and the given ones in their place.

    Parameters
    ----------
    file : path or None, default None
        TOML file; paths in it start at its folder.
    **given
        Settings from the command line; None leaves one as it is.

    Returns
    -------
    Settings

    Raises
    ------
    ParameterError
        If a setting is missing, unknown or out of range.
    """
    if file is not None and not file.is_file():
        raise ParameterError(f"{file}: no such file; --config takes a TOML file with the settings of the service")

    class FromFile(Settings):
        model_config = SettingsConfigDict(toml_file=file)

    try:
        settings = FromFile(**{key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        raise ParameterError(f"{file or 'settings'}: {_first_mistake(error)}") from error
    except (ValueError, RecursionError) as error:  # TOML that cannot be read
        raise ParameterError(f"{file or 'settings'}: {first_line(error)}") from error
    if file is not None:
        _start_paths_at(file.parent, settings, given)
    if settings.token_file is not None:
        try:
            settings.token = SecretStr(settings.token_file.read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(f"{settings.token_file}: the token cannot be read ({error})") from error
    if settings.token is not None and not settings.token.get_secret_value():
        raise ParameterError("the token is empty; give a token of at least one character, or none")
    return Settings.model_construct(**{name: getattr(settings, name) for name in Settings.model_fields})


def _start_paths_at(folder: Path, settings: Settings, given: dict[str, Any]) -> None:
    for name in ("feedback", "token_file"):
        if given.get(name) is None and getattr(settings, name) is not None:
            setattr(settings, name, folder / getattr(settings, name))
    if given.get("models") is None:
        for model in settings.models.values():
            for name in ("path", "vocabulary", "calibration", "metrics"):
                if getattr(model, name) is not None:
                    setattr(model, name, folder / getattr(model, name))


def _first_mistake(error: ValidationError) -> str:
    mistake = error.errors(include_url=False)[0]
    place = ".".join(map(str, mistake["loc"]))
    if place == "models" and mistake["type"] in ("missing", "too_short"):
        return "no model to serve; give MODEL, NAME=MODEL or --config FILE with a table [models.NAME]"
    if mistake["type"] == "extra_forbidden":
        return f"unknown setting {place}; settings are {', '.join(Settings.model_fields)}"
    return f"{place}: {mistake['msg']}" if place else mistake["msg"].removeprefix("Value error, ")


def to_json(settings: Settings) -> str:
    """Return the settings, the token included, as a worker reads them from its standard input."""
    plain = settings.model_copy(update={"token": None}).model_dump(mode="json")
    plain["token"] = settings.token.get_secret_value() if settings.token else None
    import json

    return json.dumps(plain)


def from_json(text: str) -> Settings:
    """Return the settings that `to_json` wrote; the environment has no say."""
    import json

    values = json.loads(text)
    values["models"] = {name: ModelSettings(**value) for name, value in values["models"].items()}
    for name in ("feedback", "token_file"):
        values[name] = values[name] and Path(values[name])
    values["token"] = values["token"] and SecretStr(values["token"])
    return Settings.model_construct(**values)
