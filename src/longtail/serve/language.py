"""The language of a text, by py3langid."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from longtail.errors import MissingExtraError
from longtail.serve.problems import Problem

_MOST = 10_000  # characters that are looked at


def detect(text: str, candidates: list[str]) -> list[dict[str, Any]]:
    """Return candidate languages with their probabilities, best first, and null for all other languages.

    Parameters
    ----------
    text : str
        Text.
    candidates : list of str
        Language codes.

    Returns
    -------
    list of dict
    """
    identifier = _identifier()
    known = set(identifier.labels)
    unknown = [code for code in candidates if code not in known]
    if unknown:
        raise Problem(400, f"Unsupported language: {unknown[0]!r}; languages are {', '.join(sorted(known))}")
    ranked = {code: float(p) for code, p in identifier.rank(text[:_MOST])} if text.strip() else {}
    found: list[dict[str, Any]] = [
        {"language": code, "score": ranked.get(code, 0.0)} for code in dict.fromkeys(candidates)
    ]
    found.append({"language": None, "score": max(0.0, 1 - sum(one["score"] for one in found))})
    return sorted(found, key=lambda one: -float(one["score"]))


@lru_cache(maxsize=1)
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise MissingExtraError("py3langid", "serve", "language detection") from error
    return LanguageIdentifier.from_model_file(MODEL_DIR / MODEL_FILE, norm_probs=True)
