"""The language of a text, by py3langid."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from longtail.errors import MissingExtraError
from longtail.serve.problems import Problem

_MOST = 10_000  # characters that are looked at
# Languages that py3langid knows; here, so that the OpenAPI schema can name them without loading its model.
LANGUAGES = """
    ace af am an ar ary arz as az ba bcl be bg bn br bs ca crh cs cy da de dz el en eo es et eu ext fa fi fo fr
    fuv fy ga gcf gcr gd gl gom grc gu gug guw ha hbo he hi hr ht hu hy id ig is it ja jv ka kab kik kk km kn ko
    ku ky la lb lg lij ln lo lt ltg lv mg mk ml mn mr ms mt my ne nl nn no nso oc om or pa pcm pl ps pt qu ro ru
    rw sa sdh se si sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk ur uz uzs vec vi vo wa wuu xh yo yue
    zh zu zxx
""".split()  # noqa: SIM905 (150 codes, one per line, say nothing)


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
    unknown = [code for code in candidates if code not in LANGUAGES]
    if unknown:
        raise Problem(400, f"Unsupported language: {unknown[0]!r}; languages are {', '.join(LANGUAGES)}")
    ranked = {code: float(p) for code, p in _identifier().rank(text[:_MOST])} if text.strip() else {}
    found: list[dict[str, Any]] = [
        {"language": code, "score": ranked.get(code, 0.0)} for code in dict.fromkeys(candidates)
    ]
    found.append({"language": None, "score": max(0.0, 1 - sum(one["score"] for one in found))})
    return sorted(found, key=lambda one: -float(one["score"]))


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """Load the model once; it takes a moment."""
    try:
        from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise MissingExtraError("py3langid", "serve", "language detection") from error
    return LanguageIdentifier.from_model_file(MODEL_DIR / MODEL_FILE, norm_probs=True)
