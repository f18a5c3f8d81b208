"""longtail tune: search for good parameters on held-out points."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from longtail.app import options
from longtail.app.fitting import Place, Ray, fit_and_save
from longtail.app.reading import data_name, kept, read, reads_data

_MOST_ROWS = 12  # of the front, in the table that is printed

Models = Annotated[
    str,
    typer.Option("--model", "-m", metavar="NAME,...", help="Models to search, e.g. dismec,bonsai or ranknet/bonsai."),
]
Study = Annotated[Path, typer.Option("--study", metavar="FILE", help="Journal of the search; processes may share it.")]
Objectives = Annotated[
    str, typer.Option(metavar="METRIC,...", help="What to raise, the first before the others; micro-F1 is of sets.")
]
Price = Annotated[
    float | None, typer.Option(metavar="P", help="Points of the first objective that the others may cost; default: 1.")
]
Trials = Annotated[int | None, typer.Option(metavar="N", help="Number of trials in the study.")]
Minutes = Annotated[float | None, typer.Option(metavar="M", help="Time for this run, instead of --trials.")]
Fix = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Do not search this parameter, e.g. C=1 or features.min_df=2; repeatable."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the study, or join a running one.")]
Dev = Annotated[float | None, typer.Option(metavar="SHARE", help="Share of the points held out; default: 0.2.")]
Folds = Annotated[int | None, typer.Option(metavar="N", help="Cross-validation with N folds, instead of --dev.")]
Screen = Annotated[
    float, typer.Option(metavar="SHARE", help="Share of the points that a trial is tried on first; 0 for none.")
]
MaxSeconds = Annotated[float | None, typer.Option(metavar="S", help="Longest training of one fit.")]
MaxMemory = Annotated[float | None, typer.Option(metavar="MB", help="Largest peak memory of the process.")]
MaxSize = Annotated[float | None, typer.Option(metavar="MB", help="Largest model on disk.")]
Pick = Annotated[
    str | None, typer.Option(metavar="RULE", help="Write the recipe of one point: knee, price, or a metric.")
]
RecipeFile = Annotated[
    Path | None, typer.Option("--recipe", metavar="FILE", help="Where --pick writes it; default: STUDY with .toml.")
]
Trained = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="MODEL", help="Train the pick on all of DATA, and write it here.")
]
AllRecipes = Annotated[
    Path | None, typer.Option("--recipes", metavar="FILE", help="Write all trials as a study for longtail bench.")
]
Picture = Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the front (extra report).")]


@reads_data
def tune(
    data: options.Data,
    model: Models,
    study: Study,
    objectives: Objectives = "P@1,PSP@1",
    price: Price = None,
    trials: Trials = None,
    minutes: Minutes = None,
    fix: Fix = None,
    resume: Resume = False,
    dev: Dev = None,
    folds: Folds = None,
    screen: Screen = 0.125,
    max_seconds: MaxSeconds = None,
    max_memory: MaxMemory = None,
    max_size: MaxSize = None,
    propensity: options.Propensity = "default",
    pick: Pick = None,
    recipe: RecipeFile = None,
    out: Trained = None,
    recipes: AllRecipes = None,
    picture: Picture = None,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Seed of the split, the search and the models.")] = 0,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Number of threads; default: all cores.")] = None,
    ray: Ray = None,
    overwrite: options.Overwrite = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Search for good parameters of models on points held out of DATA.

    The defaults of every model are tried first. Each fit yields a curve: beams, exponents and, for metrics of label
    sets such as micro-F1, thresholds are swept without a new training. A killed search goes on by --resume, and ends
    with the trials that it would have had.
    """
    from longtail.app.console import say
    from longtail.tune.plan import Options, identity_of, parts_of, plan_of
    from longtail.workflow.build import parse_propensity, parse_settings

    options.check_threads(threads)
    asked = Options(
        _names(model), _names(objectives), price, trials, minutes, parse_settings(fix or [], option="--fix"), dev,
        folds, seed, threads, screen, {"seconds": max_seconds, "memory_mb": max_memory, "model_mb": max_size},
        parse_propensity(propensity),
    ).checked()  # fmt: skip
    place = Place(ray=ray)
    outputs = _Outputs(study, pick, recipe, out, recipes, picture, overwrite)
    outputs.check(asked, resume=resume, data=data)
    place.check(study)
    if resume and not study.exists():
        say(f"nothing to resume in {study}; starting from the beginning")
    dataset = read(data, reading)
    plan = plan_of(asked, text=dataset.X is None)
    _check_models(plan, dataset, data, place)
    parts = parts_of(dataset, asked, plan, data)
    with place.engine() as engine:
        found = _search(study, plan, parts, identity_of(dataset, asked, plan), asked, engine)
    chosen = outputs.write(found, plan, asked, dataset, data, reading)
    _print_front(found, plan, chosen)
    outputs.train(chosen, plan, dataset, reading, data_name(data), place)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _check_models(plan: Any, dataset: Any, data: Path, place: Place) -> None:
    """Raise an error if a model cannot use this dataset, or cannot train where it is to train."""
    from longtail.app.train import check_points

    for name in plan.spaces:
        estimator = plan.candidate(name, {}).estimator(text=dataset.X is None)
        place.check_model(estimator)
        check_points(estimator, dataset, data, name, separate=False)


def _search(study: Path, plan: Any, parts: Any, identity: dict[str, Any], asked: Any, engine: Any) -> list[Any]:
    from longtail.app.console import compiling_announced, progress, say
    from longtail.tune.front import found_in
    from longtail.tune.report import Progress, no_result, said_of_split
    from longtail.tune.search import Search, open_search

    say(said_of_split(parts, asked))
    with open_search(study, plan, parts, identity) as journal, compiling_announced():
        shown = Progress(plan, asked, progress(), say)
        with shown.running(journal.study.get_trials(deepcopy=False)):
            try:
                Search(plan, parts, journal, engine).run(trials=asked.trials, minutes=asked.minutes, after=shown.after)
            except KeyboardInterrupt:
                say(f"interrupted; finished trials are in {study}: the same command with --resume continues")
                raise
        trials = journal.study.get_trials(deepcopy=False)
    found = found_in(trials, len(plan.spaces), plan.limits)
    if not found:
        raise no_result(trials, plan, study)
    return found


def _print_front(found: list[Any], plan: Any, chosen: Any) -> None:
    from longtail.app.console import print_table
    from longtail.tune.front import front
    from longtail.tune.report import COLUMNS, table_rows

    best = front(found, plan.objectives)
    front_size = "1 point" if len(best) == 1 else f"{len(best)} points"
    title = f"{front_size} that no other beats, of {len({f.trial for f in found})} trials; % on held-out points"
    print_table(title, [*COLUMNS, *plan.objectives, "train s", "model MB"], table_rows(found, plan, chosen, _MOST_ROWS))


class _Outputs:
    """What a search writes besides its study."""

    def __init__(self, study: Path, pick: str | None, recipe: Path | None, out: Path | None, recipes: Path | None,
                 picture: Path | None, overwrite: bool) -> None:  # fmt: skip
        self.study, self.pick, self.out, self.recipes, self.picture = study, pick, out, recipes, picture
        self.recipe = (recipe or study.with_suffix(".toml")) if pick or recipe else None
        self.overwrite = overwrite

    def check(self, asked: Any, *, resume: bool, data: Path) -> None:
        """Raise an error for an output that cannot be written, before the data is read."""
        from longtail.core.model import KIND
        from longtail.core.store import check_free
        from longtail.core.unfinished import check_place
        from longtail.errors import OutputError, ParameterError
        from longtail.tune.front import check_rule
        from longtail.tune.picture import check_picture
        from longtail.tune.study import check_file

        if self.pick is None and (self.out or self.recipe):
            raise ParameterError(f"--{'out' if self.out else 'recipe'} needs --pick: knee, price, or a metric")
        if self.pick is not None:
            self.pick = check_rule(self.pick, asked.objectives)
        if self.out is not None:
            check_free(self.out, kind=KIND, overwrite=self.overwrite)
        if self.picture is not None:
            check_picture(self.picture, asked.objectives)
        check_file(self.study, resume=resume)
        options.check_apart(self.study, data)
        for file in (self.recipe, self.recipes, self.picture):
            if file is not None:
                check_place(file)
                options.check_apart(file, data)
                if file.resolve() == self.study.resolve():
                    raise OutputError(f"{file} is the study; choose another output path")
                if file.exists() and not self.overwrite:
                    raise OutputError(f"{file} exists; use --overwrite, or choose another output path")

    def write(self, found: Any, plan: Any, asked: Any, dataset: Any, data: Path, reading: dict[str, Any]) -> Any:
        """Write what was asked for and return the pick, or None."""
        from longtail.app.console import say
        from longtail.data import files
        from longtail.tune import picture
        from longtail.tune.front import pick
        from longtail.tune.report import bench_study, recipe_text

        chosen = None if self.pick is None else pick(found, plan.objectives, self.pick, plan.price)
        texts = {}
        if chosen is not None and self.recipe is not None:
            section = _data_section(data, self.recipe, asked, reading)
            texts[self.recipe] = recipe_text(chosen, plan, asked, section, self.study.name)
        if self.recipes is not None:
            texts[self.recipes] = bench_study(found, plan, asked, _data_section(data, self.recipes, asked, reading))
        for file, text in texts.items():
            with files.writing(file, overwrite=self.overwrite) as stream:
                stream.write(text.encode())
            say(f"wrote {file}")
        if self.picture is not None:
            with files.writing(self.picture, overwrite=self.overwrite) as stream:
                picture.draw(stream, found, plan.objectives, chosen)
            say(f"wrote {self.picture}")
        return chosen

    def train(self, chosen: Any, plan: Any, dataset: Any, reading: dict[str, Any], name: str, place: Place) -> None:
        """Train the pick on all points, if a model was asked for."""
        if self.out is None:
            return
        from longtail.app.console import say

        candidate = plan.candidate(chosen.model, chosen.values)
        estimator = candidate.estimator(text=dataset.X is None, point=chosen.point)
        estimator.reading_ = kept(reading)
        threshold = chosen.point.get("threshold")
        calibrate = "no" if threshold is None else "yes"
        where: dict[str, Any] = {"overwrite": self.overwrite, "place": place}
        fit_and_save(estimator, dataset, self.out, calibrate, name=name, resume=False, **where)
        if threshold is not None:
            say(f"label sets: longtail predict {self.out} DATA --probabilities --threshold {threshold:g} --out FILE")


def _data_section(data: Path, file: Path, asked: Any, reading: dict[str, Any]) -> dict[str, Any]:
    """Return the section `data` of a recipe: the same points held out, paths relative to the recipe's folder."""
    from longtail.tune.plan import DEV_SHARE

    train = os.path.relpath(data.resolve(), file.resolve().parent)
    share = 1 / asked.folds if asked.folds else asked.held_out or DEV_SHARE
    section: dict[str, Any] = {"train": train, "held_out": share, "split_seed": asked.seed}
    return section | ({"reading": reading} if reading else {})
