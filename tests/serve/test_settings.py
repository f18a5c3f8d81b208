"""Settings: where they come from, what is wrong with them, and that the guide names them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from longtail.errors import ParameterError
from longtail.serve.settings import Settings, from_json, read_settings, to_json

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "service.toml"
    file.write_text('port = 7000\nhost = "10.0.0.1"\nworkers = 3\nfeedback = "fb"\n[models.a]\npath = "m"\n')
    return file


def test_command_line_before_environment_before_file(file, monkeypatch):
    monkeypatch.setenv("LONGTAIL_SERVE_PORT", "7001")
    monkeypatch.setenv("LONGTAIL_SERVE_HOST", "10.0.0.2")
    found = read_settings(file, port=7002, host=None)
    assert (found.port, found.host, found.workers, found.queue) == (7002, "10.0.0.2", 3, 512)
    assert found.models["a"].path == file.parent / "m"
    assert found.feedback == file.parent / "fb"
    assert read_settings(file, feedback=Path("x"), models={"b": {"path": "y"}}).models["b"].path == Path("y")


def test_workers_get_the_same_settings(file, tmp_path, monkeypatch):
    (tmp_path / "token").write_text("secret\n")
    found = read_settings(file, token_file=tmp_path / "token")
    monkeypatch.setenv("LONGTAIL_SERVE_PORT", "7001")
    assert from_json(to_json(found)) == found
    assert found.token is not None
    assert found.token.get_secret_value() == "secret"
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("port = 7000", "no model to serve"),
        ("prot = 7000\n[models.a]\npath = 'm'", "unknown setting prot"),
        ("port = 70000\n[models.a]\npath = 'm'", "port: "),
        ("[models.'a b']\npath = 'm'", "'a b'"),
        ("[models.a]\npaht = 'm'", "models.a"),
        ("port = ", "service.toml"),
        (f"port = {'[' * 100_000}", "service.toml"),
        ('[models.a]\npath = "m\\u0000"', "a path cannot contain NUL"),
    ],
)
def test_mistakes_are_one_line(content, said, tmp_path):
    (tmp_path / "service.toml").write_text(content)
    with pytest.raises(ParameterError, match=re.escape(said)) as caught:
        read_settings(tmp_path / "service.toml")
    assert "\n" not in str(caught.value)


def test_the_guide_names_every_setting_with_its_default():
    guide = (ROOT / "docs" / "serve.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", guide, re.MULTILINE))
    assert set(rows) == set(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        if not field.is_required() and isinstance(field.default, (int, float)) and not isinstance(field.default, bool):
            assert float(rows[name].replace(",", "")) == field.default, name


def test_the_example_of_settings_is_the_one_in_the_guide():
    example = ROOT / "deploy" / "service.toml"
    assert read_settings(example).models["example"].name == "Example subjects"
    assert example.read_text() in (ROOT / "docs" / "serve.md").read_text()


def test_a_model_that_is_not_there_is_one_line(cli, tmp_path):
    code, _, err = cli("serve", tmp_path / "nowhere")
    assert code == 2
    assert "nowhere" in err
    assert len(err.strip().splitlines()) == 1
