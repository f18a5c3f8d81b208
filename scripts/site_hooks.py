"""Pages of the site that are made from the sources, so that they cannot be stale (MkDocs calls the functions `on_...`).

- One page per room of the Python API, from the public names; mkdocstrings fills them with the docstrings.
- The options of every command, where docs/command-line.md says `<!-- options: COMMAND -->`.
- The changelog, and the list of the pages below docs/lab.

Pages are also read on a code forge, where a list may follow a paragraph without an empty line; MkDocs wants one.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "longtail"

# Room, title, and names beyond the public ones that a reader of this page looks for.
ROOMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "core": ("Core: estimators, predictions, saving", ("Run", "Checkpoint", "register_estimator", "register_part")),
    "data": ("Data", ()),
    "features": ("Features", ()),
    "objectives": ("Objectives: propensities, weightings, losses", ()),
    "metrics": ("Metrics", ()),
    "linear": ("Linear models", ()),
    "trees": ("Trees", ()),
    "neural": ("Neural models", ("TrainingPlan", "train")),
    "compose": ("Wrappers", ()),
    "workflow": ("Workflow", ("build_estimator", "predict_in_chunks", "score_predictions")),
    "engine": ("Engines", ("RayEngine", "Shards")),
    "errors": ("Errors", ()),
}


def on_config(config: MkDocsConfig) -> None:
    """Fill the two parts of the navigation that list what there is."""
    for part in config.nav or ():
        if "Reference" in part:
            api = next(entry for entry in part["Reference"] if "Python API" in entry)
            api["Python API"] = [{title: f"reference/{room}.md"} for room, (title, _) in ROOMS.items()]
        elif "Lab" in part:
            lab = sorted(
                path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir, "lab").glob("*.md")
            )
            results = ["results.md"] if Path(config.docs_dir, "results.md").is_file() else []
            part["Lab"] = [*results, *lab]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file holds."""
    for room in ROOMS:
        files.append(File.generated(config, f"reference/{room}.md", content=_room_page(room)))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=changelog))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the options of the commands in their places, and separate lists from the paragraphs before them."""
    markdown = _separate_lists(markdown)
    if page.file.src_uri != "command-line.md":
        return markdown
    commands = _commands()
    places = re.findall(r"<!-- options: ([\w-]+) -->", markdown)
    if sorted(places) != sorted(commands):
        raise PluginError(f"docs/command-line.md shows the options of {sorted(places)}, commands: {sorted(commands)}")
    return re.sub(r"<!-- options: ([\w-]+) -->", lambda place: _options_table(commands[place[1]]), markdown)


def _separate_lists(markdown: str) -> str:
    lines: list[str] = []
    fenced = False
    for line in markdown.splitlines():
        fenced ^= line.lstrip().startswith("```")
        # Indented lines, and items, belong to the list that is there already.
        in_list = not lines or not lines[-1].strip() or re.match(r" |- |\d+\. ", lines[-1])
        if line.startswith(("- ", "1. ")) and not fenced and not in_list:
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


# The Python API


def _room_page(room: str) -> str:
    title, more = ROOMS[room]
    targets = [f"longtail.{room}"] if room == "errors" else [*_public(room), *(_found(room, name) for name in more)]
    shown = list(dict.fromkeys(targets))
    about = _about(room)
    if room == "errors":
        return f"# {title}\n\n{about}\n\n::: longtail.errors\n    options:\n      show_root_heading: false\n"
    return "\n\n".join([f"# {title}", about, *(f"::: {target}" for target in shown)]) + "\n"


def _about(room: str) -> str:
    """Return the first paragraph of the room's own docstring."""
    file = SOURCE / f"{room}.py" if room == "errors" else SOURCE / room / "__init__.py"
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return said.split("\n\n")[0]


def _public(room: str) -> list[str]:
    """Return where the public names of a room are defined: those of `longtail`, and those of the room's `__all__`."""
    names = _literal(SOURCE / "__init__.py", "_HOME")
    homes = [name for name, module in names.items() if module.split(".")[1] == room and name != room]
    own = _literal(SOURCE / room / "__init__.py", "__all__") or sorted(
        _literal(SOURCE / room / "__init__.py", "_HOME") or ()
    )
    return [_found(room, name) for name in dict.fromkeys([*homes, *own]) if not name.isupper() or len(name) < 3]


def _literal(file: Path, name: str) -> Any:
    """Return the value of a constant of a module without importing it; None where it is no plain value."""
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in statement.targets
        ):
            try:
                return ast.literal_eval(statement.value)
            except ValueError:
                return None
    return None


def _found(room: str, name: str) -> str:
    """Return the full path of a class, a function or a type of a room, wherever in the room it is defined."""
    for file in sorted((SOURCE / room).rglob("*.py")):
        for statement in ast.parse(file.read_text(encoding="utf-8")).body:
            defined = getattr(statement, "name", None)
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                defined = next((t.id for t in targets if isinstance(t, ast.Name) and t.id == name), None)
            if defined == name:
                module = file.relative_to(SOURCE.parent).with_suffix("").as_posix().replace("/", ".")
                return f"{module.removesuffix('.__init__')}.{name}"
    raise PluginError(f"src/longtail/{room} defines no {name}; correct ROOMS in scripts/site_hooks.py")


# The command line


def _commands() -> dict[str, Any]:
    if str(SOURCE.parent) not in sys.path:
        sys.path.insert(0, str(SOURCE.parent))
    from typer.main import get_command

    from longtail.app.cli import app

    group: Any = get_command(app)
    return {"longtail": group, **group.commands}


def _options_table(command: Any) -> str:
    rows = ["| option | default | |", "| --- | --- | --- |"]
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        rows.append(f"| {_spelling(parameter)} | {_default(parameter)} | {_help(parameter)} |")
    return "\n".join(rows) + "\n"


def _spelling(parameter: Any) -> str:
    if not any(name.startswith("-") for name in parameter.opts):
        return f"`{parameter.metavar or parameter.name.upper()}`"
    flags = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.is_flag:
        return flags
    return f"{flags} `{parameter.metavar or parameter.name.upper()}`"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is None or default is False or default == () or callable(default):
        return ""
    return f"`{default}`"


def _help(parameter: Any) -> str:
    said = getattr(parameter, "help", None) or ""
    return " ".join(said.split()).replace("|", "\\|").replace("[", "\\[")
