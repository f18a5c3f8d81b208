"""Every error that longtail raises on purpose, as one tree.

A message says what is wrong, where, and what to do. The command line prints it and exits with code 2; anything that is
not a `LongtailError` is a bug in longtail: one line and exit code 1; `longtail --debug` shows the traceback.
"""

from __future__ import annotations

from os import PathLike

_LONGEST = 1500  # characters of a message: a value that it quotes may come from a file, and be of any length


class LongtailError(Exception):
    """Base of all errors raised on purpose; a very long message loses its middle."""

    def __str__(self) -> str:
        message = super().__str__()
        return message if len(message) <= _LONGEST else f"{message[: _LONGEST - 400]} ... {message[-300:]}"


class ParameterError(LongtailError, ValueError):
    """An argument, option or name cannot be used."""


class DataError(LongtailError, ValueError):
    """Data cannot be read, or does not fit together.

    Parameters
    ----------
    message : str
        What is wrong.
    path : str or path-like, optional
        File that it is about; file, line and field come first in the message.
    line : int, optional
        Line of the file, from 1.
    field : str, optional
        Field or column.
    missing : bool, default False
        Whether a field or column that was asked for is not there.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | PathLike[str] | None = None,
        line: int | None = None,
        field: str | None = None,
        missing: bool = False,
    ) -> None:
        self.message, self.path, self.line, self.field, self.missing = message, path, line, field, missing
        place = "" if path is None else str(path)
        if line is not None:
            place += f":{line}" if place else f"line {line}"
        if field is not None:
            place += f", field {field!r}" if place else f"field {field!r}"
        super().__init__(f"{place}: {message}" if place else message)


class ModelError(LongtailError):
    """A saved model or converted dataset is missing, incomplete, altered or of another format."""


class OutputError(LongtailError, OSError):
    """Output cannot be written, e.g. because the folder is not empty."""


# Same bases as scikit-learn's NotFittedError, so code that catches these keeps working.
class NotFittedError(LongtailError, ValueError, AttributeError):
    """`predict` or `save` was called before `fit`."""


class TrainingError(LongtailError, ArithmeticError):
    """Training cannot continue (values are not finite, too little memory); says where, and what to change."""


class EngineError(TrainingError):
    """Other machines cannot compute parts, whatever the data and the parameters; names the node and the remedy."""


class MissingExtraError(LongtailError, ImportError):
    """An optional package is not installed.

    Parameters
    ----------
    package : str
        The package.
    extra : str
        The extra of longtail that installs it, e.g. "deep".
    purpose : str
        What needs it, e.g. "a text model".
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'longtail[{extra}]'")


def first_line(error: BaseException) -> str:
    """Return the first line of an error of another library, at most 300 characters, or its class if it has none."""
    line = str(error).strip().partition("\n")[0] or type(error).__name__
    return line if len(line) <= 300 else f"{line[:297]}..."
