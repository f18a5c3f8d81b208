"""Names and texts of others steer no terminal and forge no line of a log."""

from __future__ import annotations

import json
import logging
import sys

import numpy as np
import pytest

import longtail
from longtail.app import console
from longtail.app.cli import main
from longtail.core.plain import plain, plain_json

EVIL = "\x1b[31m\x1b]0;title\x07\r\n\u202ecba\u2066\x9b2J :smile: [bold]"
SHOWN = r"\x1b[31m\x1b]0;title\x07\r\n\u202ecba\u2066\x9b2J :smile: [bold]"


def test_controls_are_escaped_and_the_rest_stays():
    assert plain(EVIL) == SHOWN
    assert plain("Größe 数 😀 e\u0301") == "Größe 数 😀 e\u0301"
    assert plain("a" * 5000) == "a" * 1000 + " ... " + "a" * 1000
    value = {EVIL: [EVIL, 1]}
    text = plain_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(text) == value
    assert not set(text) & set(EVIL) - set(SHOWN) - {"\n"}


def test_messages_tables_and_bars(capsys):
    console.show_warnings()  # whatever a command before has set
    console.say(EVIL)
    console.fail(EVIL)
    shown = capsys.readouterr().err
    assert shown == f"{SHOWN}\nerror: {SHOWN}\n"
    console.print_table(EVIL, ["label", "score"], [[EVIL, "1"]])
    console.print_fields(EVIL, {EVIL: EVIL})
    console.print_json({EVIL: EVIL})
    shown = capsys.readouterr().out
    assert shown.count(SHOWN) >= 5
    assert not set("\x1b\x07\r\u202e\u2066\x9b") & set(shown)


@pytest.mark.parametrize("arguments", [[f"--{EVIL}"], ["info", EVIL], ["train", "a", "-m", EVIL, "-o", "b"], [EVIL]])
def test_the_command_line(arguments, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["longtail", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    shown = "".join(capsys.readouterr())
    assert not set("\x1b\x07\r\u202e\u2066\x9b") & set(shown)


def test_warnings_of_other_libraries(monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    console.show_warnings()
    logging.getLogger("another.library").warning("about %s", EVIL)
    logging.getLogger("longtail.data").warning("of our own")
    logging.getLogger("rdflib.term").warning("%s does not look like a valid URI", EVIL)
    assert capsys.readouterr().err == f"warning: about {SHOWN}\nwarning: of our own\n"


def test_label_names(monkeypatch, capsys, tmp_path):
    texts = longtail.TextPipeline(model=longtail.Popularity(), features=longtail.TextFeatures(min_df=1, max_df=1.0))
    texts.fit(["one two", "two three"], np.eye(2), label_names=[EVIL, "b"])
    texts.save(tmp_path / "m")
    for option, name in (([], SHOWN), (["--json"], ":smile: [bold]")):
        monkeypatch.setattr(
            sys, "argv", ["longtail", "predict", str(tmp_path / "m"), "--text", "one", "-k", "2", *option]
        )
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0
        shown = capsys.readouterr().out
        assert name in shown
        assert not set("\x1b\x07\r\u202e\u2066\x9b") & set(shown)
