"""`diskless simulate`: whole clusters on virtual time with faults from a seed; failing seeds are reported, made small and kept."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cli.dev.die_with_parent import end_with_parent
from cli.ending import held_signals
from cli.options import FiniteRange, RegularFile
from cli.outcome import Exit, Failed
from cli.output import say

if TYPE_CHECKING:
    from simulation.run import RunOutcome
    from simulation.scenario import Scenario

# The simulator is in no wheel: it is beside this package in the sources.
sys.path.append(str(Path(__file__).parents[2]))

PROGRESS_S = 5.0
SCENARIO_BYTES_MAX = 16 * 1024 * 1024


class Seeds(click.ParamType[range]):
    """`A..B`, both included."""

    name = "A..B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """Parse the text."""
        first, dots, last = str(value).partition("..")
        if not (dots and first.isdigit() and last.isdigit() and int(first) <= int(last)):
            self.fail(f"{value!r} is not a range of seeds such as 0..99", param, ctx)
        return range(int(first), int(last) + 1)


class Lived(NamedTuple):
    """The result of one seed, as a worker process reports it."""

    seed: int
    violation: str | None
    answers: int
    virtual_s: float


@click.command()
@click.option("--seed", type=click.IntRange(0), help="Live one seed, and tell its story when a rule is broken.")
@click.option("--seeds", type=Seeds(), help="Live a range of seeds.")
@click.option("--scenario", "path", type=RegularFile(), help="Live the scenario of a file.")
@click.option("--minutes", type=FiniteRange(0, min_open=True), help="With --seeds: begin no further seed after this time.", metavar="N")
@click.option("--jobs", type=click.IntRange(1, 1024), default=1, show_default=True, help="Processes to live the seeds in.")
@click.option("--virtual-seconds", "duration_s", type=FiniteRange(2.0), default=20.0, show_default=True, help="How long faults happen.")
@click.option(
    "--without",
    "weakened",
    multiple=True,
    metavar="PROTECTION",
    help="Leave a protection of the design out. 'help' lists them. Repeatable.",
)
@click.option("--trace", is_flag=True, help="Tell the story also of a run in which nothing is broken.")
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Make a failing scenario small.")
@click.option(
    "--write-to",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default=True,
    help="Where to write failing scenarios.",
)
def simulate(
    seed: int | None,
    seeds: range | None,
    path: Path | None,
    minutes: float | None,
    jobs: int,
    duration_s: float,
    weakened: tuple[str, ...],
    trace: bool,
    shrink: bool,
    write_to: Path,
) -> None:
    """Live whole clusters on virtual time, with faults from a seed.

    Nodes run the real core and runtime over an in-memory Kafka that loses, doubles and delays; clients commit, read, create and
    delete all the while, in some lives by gateways too, and every promise made to them is judged. The same seed repeats exactly. A
    seed that breaks a rule ends with status 5: its story is printed, the scenario is made small and written to a file that --scenario
    lives again. The simulator is part of the sources, and of no wheel or image.

    Examples: `diskless simulate --seeds 0..199 --jobs 2`, `diskless simulate --seed 7 --trace`,
    `diskless simulate --seed 3 --without ack-offset`, `diskless simulate --scenario simulation-3.json`
    """
    try:
        from simulation.protections.weakened import PROTECTIONS
    except ModuleNotFoundError as error:
        if error.name != "simulation":
            raise
        raise Failed(
            "the simulator is part of the sources alone: run a checkout of them, installed by `pip install -e .`", Exit.USAGE
        ) from error

    if "help" in weakened:
        for name, protection in PROTECTIONS.items():
            click.echo(f"{name:22}{protection.rule}")
        return
    unknown = sorted(set(weakened) - PROTECTIONS.keys())
    if unknown:
        raise Failed(f"no protection is called {', '.join(unknown)}; there are {', '.join(PROTECTIONS)}", Exit.USAGE)
    if [seed, seeds, path].count(None) != 2:
        raise Failed("give one of --seed, --seeds and --scenario", Exit.USAGE)
    if seeds is not None:
        ends_s = math.inf if minutes is None else time.time() + 60 * minutes
        _live_many(seeds, ends_s, jobs, duration_s, weakened, shrink, write_to)
    else:
        _live_one(_read(path) if path is not None else _draw(seed or 0, duration_s, weakened), trace, shrink, write_to)


def _draw(seed: int, duration_s: float, weakened: tuple[str, ...]) -> Scenario:
    """The scenario of a seed; without a protection, of the kind of faults that show why it is there."""
    from simulation.protections.weakened import PROTECTIONS
    from simulation.scenario import Scenario

    if len(weakened) == 1:
        return PROTECTIONS[weakened[0]].scenario(seed, duration_s, weakened)
    return Scenario.random(seed, duration_s, weakened=weakened)


def _read(path: Path) -> Scenario:
    from coordinator.config.sources import read_bounded
    from simulation.scenario import Scenario

    try:
        return Scenario.from_json(read_bounded(path, SCENARIO_BYTES_MAX))
    except OSError as error:
        raise Failed(f"cannot read {path}: {error.strerror}", Exit.NOT_FOUND) from error
    except ValueError as error:
        raise Failed(f"{path}: {error}", Exit.USAGE) from error


def _live_one(scenario: Scenario, trace: bool, shrink: bool, write_to: Path) -> None:
    from simulation.run import simulate as live

    outcome = live(scenario, is_detailed=trace)
    if outcome.violation is not None:
        _tell(outcome, shrink, write_to)
    if trace:
        click.echo(outcome.story)
    click.echo(f"seed {scenario.seed}: no rule was broken; {outcome.answers} answers judged in {outcome.virtual_s:.1f} virtual seconds")
    say(f"trace hash {outcome.trace_hash}")


def _live_many(seeds: range, ends_s: float, jobs: int, duration_s: float, weakened: tuple[str, ...], shrink: bool, write_to: Path) -> None:
    from simulation.run import simulate as live

    started = told = time.monotonic()
    done, answers, virtual_s, failed = 0, 0, 0.0, list[Lived]()
    with closing(_lives(seeds, ends_s, jobs, duration_s, weakened)) as lives:
        for lived in lives:
            if lived is None:
                continue
            done += 1
            answers += lived.answers
            virtual_s += lived.virtual_s
            if lived.violation is not None:
                failed.append(lived)
                click.echo(f"seed {lived.seed}: {lived.violation}")
            if time.monotonic() - told > PROGRESS_S:
                told = time.monotonic()
                say(f"{done} of {len(seeds)} seeds, {done * 60 / (told - started):.0f} a minute, {len(failed)} broke a rule")
    per_minute = done * 60 / max(0.001, time.monotonic() - started)
    click.echo(f"{done} seeds, {len(failed)} broke a rule; {answers} answers judged in {virtual_s:.0f} virtual seconds")
    say(f"{per_minute:.0f} seeds a minute" + (f"; {len(seeds) - done} were left when the time was up" if done < len(seeds) else ""))
    if failed:
        _tell(live(_draw(min(failed).seed, duration_s, weakened)), shrink, write_to)


def _lives(seeds: range, ends_s: float, jobs: int, duration_s: float, weakened: tuple[str, ...]) -> Generator[Lived | None]:
    """Live every seed, in this process or in several; in order. None for one whose turn came after `ends_s`, of the wall clock."""
    if jobs == 1:
        for seed in seeds:
            yield _live(seed, ends_s, duration_s, weakened)
        return
    from concurrent.futures import ProcessPoolExecutor
    from itertools import repeat

    pool = ProcessPoolExecutor(jobs, initializer=end_with_parent, initargs=(os.getpid(),))
    with held_signals():  # all processes are made here, and what interrupts a fork is printed and forgotten
        lives = pool.map(_live, seeds, repeat(ends_s), repeat(duration_s), repeat(weakened))
    try:
        yield from lives
    finally:
        # An early end does not wait for the seeds under way: their processes end with this one.
        pool.shutdown(wait=False, cancel_futures=True)


def _live(seed: int, ends_s: float, duration_s: float, weakened: tuple[str, ...]) -> Lived | None:
    if time.time() > ends_s:
        return None
    from simulation.run import simulate as live

    outcome = live(_draw(seed, duration_s, weakened))
    violation = None if outcome.violation is None else str(outcome.violation)
    return Lived(seed, violation, outcome.answers, outcome.virtual_s)


def _tell(outcome: RunOutcome, shrink: bool, write_to: Path) -> None:
    """Make a failing run small, write it to a file, and tell its story. Raises `Failed`."""
    from dataclasses import replace

    from simulation.run import simulate as live
    from simulation.shrink import shrink as smaller

    if shrink:
        outcome = smaller(outcome, tell=say)
    if outcome.violation is None:
        raise AssertionError("a run that broke no rule has nothing to tell")
    scenario = replace(outcome.scenario, violates=outcome.violation.rule)
    file = write_to / f"simulation-{scenario.seed}.json"
    try:
        write_to.mkdir(parents=True, exist_ok=True)
        file.write_text(scenario.to_json())
    except OSError as error:
        raise Failed(f"cannot write {file}: {error.strerror}") from error
    click.echo(live(scenario, is_detailed=True).story)
    raise Failed(f"seed {scenario.seed} broke a rule: {outcome.violation}. Live it again with --scenario {file}", Exit.AUDIT)
