"""Fields of forms: long texts in other scripts are decoded beside the event loop."""

from __future__ import annotations

import asyncio
import threading
import urllib.parse

import pytest

from longtail.serve import forms
from longtail.serve.problems import Problem


@pytest.mark.parametrize(("letters", "in_loop"), [(300, True), (1_200, False)])
def test_many_escapes_are_decoded_in_a_thread(letters, in_loop, monkeypatch):
    threads = []

    def watched(body):
        threads.append(threading.current_thread())
        return pairs(body)

    pairs = forms._pairs
    monkeypatch.setattr(forms, "_pairs", watched)
    text = "треска" * (letters // 6) + " and cod"
    body = urllib.parse.urlencode({"text": text, "limit": 3, "exclude": ["a", ""]}, doseq=True).encode()
    found = asyncio.run(forms.fields_in(body))
    assert found == {"text": [text], "limit": ["3"], "exclude": ["a", ""]}
    assert (threads == [threading.main_thread()]) is in_loop


def test_escapes_that_are_not_utf8_are_a_problem_in_a_thread_too():
    for number in (1, 5_000):
        with pytest.raises(Problem, match="not URL-encoded UTF-8"):
            asyncio.run(forms.fields_in(b"text=" + b"%FF" * number))
