"""Every error that longtail raises on purpose, as one tree.

An error says what is wrong, where, and what would be right. The command line prints the message and exits with 2;
anything that is not a `LongtailError` is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

from os import PathLike


class LongtailError(Exception):
    """Base of all errors raised on purpose."""


class ParameterError(LongtailError, ValueError):
    """An argument, option or name that a caller passed cannot be used."""


class DataError(LongtailError, ValueError):
    """Data that cannot be read or do not fit together; names the file, the line and the field where they are known."""

    def __init__(
        self,
        message: str,
        *,
        path: str | PathLike[str] | None = None,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        self.message, self.path, self.line, self.field = message, path, line, field
        place = "" if path is None else str(path)
        if line is not None:
            place += f":{line}" if place else f"line {line}"
        if field is not None:
            place += f", field {field!r}" if place else f"field {field!r}"
        super().__init__(f"{place}: {message}" if place else message)


class ModelError(LongtailError):
    """A saved model (or converted dataset) that is missing, incomplete, altered or of another format."""


class OutputError(LongtailError, OSError):
    """A place that cannot be written to, e.g. a folder that is not empty."""


# Same bases as scikit-learn's NotFittedError, so that code which catches those two keeps working.
class NotFittedError(LongtailError, ValueError, AttributeError):
    """`predict` or `save` was called before `fit`."""


class TrainingError(LongtailError, ArithmeticError):
    """Training cannot go on (values that are not finite, too little memory); says where and what to change."""


class MissingExtraError(LongtailError, ImportError):
    """A part was asked for whose optional packages are not installed; names the extra to install."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'longtail[{extra}]'")


def first_line(error: BaseException) -> str:
    """What another library said, in one line: its name where it said nothing."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
