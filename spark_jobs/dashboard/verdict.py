"""One sentence about everything: is it healthy, and if not, what is wrong first and where to look.

Pure: takes facts, returns the sentence and the list of problems, worst first. Invariant: the level is that of the worst
problem; without facts it says so instead of "healthy".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

BEHIND_MS_MAX = 10_000
SILENT_MS_MAX = 60_000
OPEN_TRANSACTION_MS_MAX = 60_000
HAND_OVER_MS_MAX = 3_600_000


class Level(IntEnum):
    """How bad it is."""

    GOOD = 0
    UNKNOWN = 1
    WARNING = 2
    BAD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something to look at. `panel` is the part of the page that shows it."""

    level: Level
    text: str
    panel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the store says. `alive_ms` is the last sign of life of the monitor; times are milliseconds since the epoch."""

    entries: int
    commits_per_s: float
    last_commit_ms: int | None
    heads: int
    unclaimed: Sequence[int]
    behind_entries: int
    behind_ms: int
    freshness_ms: int
    findings: int
    first_finding: tuple[int, int, str] | None
    quarantined: int
    alive_ms: int
    stopped_ms: int | None
    disagreeing: Sequence[int] | None
    missing_files: int
    oldest_transaction_ms: int | None
    oldest_hand_over_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The sentence of the page's head."""

    level: Level
    sentence: str
    problems: Sequence[Problem]


def judge(facts: Facts, more: Sequence[Problem], now_ms: int) -> Verdict:
    """Judge the facts of the store together with problems that others found."""
    problems = sorted([*_problems(facts, now_ms), *more], key=lambda problem: -problem.level)
    if not problems:
        return Verdict(level=Level.GOOD, sentence=_healthy(facts, now_ms), problems=())
    worst = problems[0]
    rest = len(problems) - 1
    sentence = worst.text + (f", and {rest} more to look at" if rest else "")
    return Verdict(level=worst.level, sentence=sentence, problems=problems)


def _problems(facts: Facts, now_ms: int) -> list[Problem]:
    found: list[Problem] = []
    if facts.findings:
        found.append(Problem(level=Level.BAD, text=_findings_text(facts), panel="findings"))
    if facts.disagreeing is not None:
        named = ", ".join(map(str, facts.disagreeing)) or "unknown"
        found.append(Problem(level=Level.BAD, text=f"Log and service disagree (coordinator {named})", panel="agreement"))
    if facts.missing_files:
        text = f"{counted(facts.missing_files, 'file', 'files')} with live batches not in the bucket: data is lost"
        found.append(Problem(level=Level.BAD, text=text, panel="orphans"))
    if facts.stopped_ms is not None:
        text = f"The monitor was stopped {duration(now_ms - facts.stopped_ms)} ago: what follows is not watched"
        found.append(Problem(level=Level.WARNING, text=text, panel="monitor"))
    elif now_ms - facts.alive_ms > SILENT_MS_MAX:
        text = f"No sign of the monitor for {duration(now_ms - facts.alive_ms)}: what follows is not watched"
        found.append(Problem(level=Level.BAD, text=text, panel="monitor"))
    elif facts.behind_entries and facts.behind_ms > BEHIND_MS_MAX:
        text = f"The monitor is {duration(facts.behind_ms)} behind ({grouped(facts.behind_entries)} entries)"
        found.append(Problem(level=Level.WARNING, text=text, panel="monitor"))
    if facts.quarantined:
        text = f"{counted(facts.quarantined, 'entry', 'entries')} could not be read: a newer coordinator, or damage"
        found.append(Problem(level=Level.WARNING, text=text, panel="quarantine"))
    if facts.unclaimed and facts.entries:
        text = f"No leader known for {counted(len(facts.unclaimed), 'coordinator', 'coordinators')} (first: {facts.unclaimed[0]})"
        found.append(Problem(level=Level.WARNING, text=text, panel="leadership"))
    for age_ms, most_ms, what, panel in (
        (facts.oldest_transaction_ms, OPEN_TRANSACTION_MS_MAX, "A transaction has been open", "snapshots"),
        (facts.oldest_hand_over_ms, HAND_OVER_MS_MAX, "A file has waited for its next owner", "files"),
    ):
        if age_ms is not None and age_ms > most_ms:
            found.append(Problem(level=Level.WARNING, text=f"{what} for {duration(age_ms)}", panel=panel))
    return found


def _findings_text(facts: Facts) -> str:
    text = counted(facts.findings, "finding", "findings")
    if facts.first_finding is None:
        return text
    kpart, offset, rule = facts.first_finding
    return f"{text}, the first at {kpart}@{offset} ({rule.replace('-', ' ')})"


def _healthy(facts: Facts, now_ms: int) -> str:
    if not facts.entries:
        return "Healthy: the log has no entries yet"
    clean = f"audit clean over {counted(facts.entries, 'entry', 'entries')}"
    if facts.commits_per_s:
        rate = grouped(round(facts.commits_per_s)) if facts.commits_per_s >= 10 else f"{facts.commits_per_s:.1f}"
        return f"Healthy: {rate} commits/s, {clean}, {facts.freshness_ms / 1000:.1f} s behind"
    quiet = "no commit yet" if facts.last_commit_ms is None else f"last commit {duration(now_ms - facts.last_commit_ms)} ago"
    return f"Healthy and quiet: {quiet}, {clean}"


def grouped(number: int) -> str:
    """Digits in groups of three, with narrow spaces that do not break."""
    return f"{number:,}".replace(",", "\u202f")


def counted(number: int, one: str, many: str) -> str:
    """`1 entry`, `2 entries`."""
    return f"{grouped(number)} {one if number == 1 else many}"


def duration(time_ms: int) -> str:
    """A duration with its largest unit or two."""
    seconds = max(0, time_ms) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"
