"""One sentence about everything: is it healthy, and if not, what is wrong first and where to look.

Pure: takes facts, returns the sentence and the list of problems, worst first. Invariant: the level is that of the worst
problem; without facts it says so instead of "healthy".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

BEHIND_MS_MAX = 10_000
"""A monitor that follows merges within a second or two: what is known ends sooner than this before now, or the monitor is behind."""
SILENT_MS_MAX = 6_000
"""A monitor that follows the log gives a sign every second, and asks Kafka as often."""
FRESH_MS_MAX = 3_000
"""Older observations do not count as current."""
UNSEEN_MS_MAX = 5_000
"""Commits that the service counts are merged within a second or two."""
OPEN_TRANSACTION_MS_MAX = 60_000
HAND_OVER_MS_MAX = 3_600_000


class Urgency(IntEnum):
    """What comes first among problems of one level: what hurts users before what hurts whoever watches."""

    LOST_DATA = 0
    KAFKA = 1
    LEADER = 2
    NODE = 3
    STORE = 4
    OTHER = 5
    MONITOR = 6


class Level(IntEnum):
    """How bad it is."""

    GOOD = 0
    UNKNOWN = 1
    WARNING = 2
    BAD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PageProblem:
    """Something to look at. `panel` is the part of the page that shows it, `urgency` its place among those of its level.
    `look` is the page of what it is about, or `finding/NUMBER`; empty where the panel is all there is.

    `is_found`: the audit found something wrong in log, service or object store; otherwise something is not as it should be now.
    """

    level: Level
    text: str
    panel: str
    is_found: bool = False
    urgency: Urgency = Urgency.OTHER
    look: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """Whether the log is observed. `ended_ms` of a job that ended, with `failure` when by an error; `kafka_ms`: Kafka's last answer.

    `is_following` is False while the job still starts.
    """

    started_ms: int
    alive_ms: int
    is_following: bool = True
    is_once: bool = False
    ended_ms: int | None = None
    failure: str = ""
    kafka_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the job read once what there was, as it was asked to."""
        return self.is_once and self.ended_ms is not None and not self.failure

    @property
    def seen_ms(self) -> int:
        """When the monitor and Kafka were both known to be there."""
        return self.alive_ms if self.kafka_ms is None else min(self.alive_ms, self.kafka_ms)

    def unobserved_ms(self, now_ms: int) -> int | None:
        """Return for how long the log has not been observed; None while it is."""
        if self.ended_ms is None and self.is_following and now_ms - self.seen_ms <= SILENT_MS_MAX:
            return None
        return max(0, now_ms - self.seen_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWrong:
    """A finding: where it is in the log, and the partition it is about, `NAME-NUMBER`; empty when it is about none. Is it the newest?"""

    id: int
    coordinator: int
    offset: int
    rule: str
    topic: str
    is_newest: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts from the store and the monitor's signs of life; times are milliseconds since the epoch.

    `findings` are those that are not acknowledged, `named_finding` is that of them that says most. `claims` has the node
    and the time of the newest claim of each coordinator.
    """

    entries: int
    commits_per_s: float
    last_commit_ms: int | None
    heads: int
    unclaimed: Sequence[int]
    behind_entries: int
    behind_ms: int
    freshness_ms: int
    claims: Mapping[int, tuple[int, int]]
    findings: int
    named_finding: FoundWrong | None
    quarantined: int
    watch: Watching
    trigger_ms: int
    disagreeing: Sequence[int] | None
    missing_files: int
    oldest_transaction_ms: int | None
    oldest_hand_over_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageVerdict:
    """The sentence of the page's head."""

    level: Level
    sentence: str
    problems: Sequence[PageProblem]


def judge(facts: Facts, more: Sequence[PageProblem], now_ms: int, service_commits_per_s: float | None = None) -> PageVerdict:
    """Judge the facts of the store together with problems that others found.

    `service_commits_per_s` is what the service itself counts, None when it is not known: what the monitor does not see of it
    is told.
    """
    problems = worst_first([*_problems(facts, now_ms, service_commits_per_s or 0.0), *more])
    if not problems:
        return PageVerdict(level=Level.GOOD, sentence=_healthy(facts, now_ms), problems=())
    worst = problems[0]
    rest = len(problems) - 1
    sentence = worst.text + (f", and {rest} more to look at" if rest else "")
    return PageVerdict(level=worst.level, sentence=sentence, problems=problems)


def worst_first(problems: Iterable[PageProblem]) -> list[PageProblem]:
    """Order problems by level, then by urgency."""
    return sorted(problems, key=lambda problem: (-problem.level, problem.urgency))


def watch_problem(watch: Watching, now_ms: int, service_commits_per_s: float = 0.0) -> PageProblem | None:
    """Why the log is not observed now; None while it is."""
    unobserved_ms = watch.unobserved_ms(now_ms)
    if unobserved_ms is None:
        return None
    level, urgency = Level.BAD, Urgency.MONITOR
    meanwhile = f", and the nodes decide {rate_text(service_commits_per_s)} requests/s" if service_commits_per_s else ""
    silent_ms = now_ms - watch.alive_ms
    if watch.ended_ms is not None:
        ago = f"{duration(now_ms - watch.ended_ms)} ago"
        if watch.failure:
            text = f"The monitor ended with an error {ago}: {watch.failure}{meanwhile}"
            return PageProblem(level=level, text=text, panel="monitor", urgency=urgency)
        level = Level.WARNING
        what = f"The monitor read the log once and ended {ago}" if watch.is_once else f"The monitor was stopped {ago}"
    elif silent_ms > SILENT_MS_MAX:
        what = f"No sign of the monitor for {duration(silent_ms)}"
    elif not watch.is_following:
        text = f"The monitor is starting: the log is not watched yet{meanwhile}"
        return PageProblem(level=Level.UNKNOWN, text=text, panel="monitor", urgency=urgency)
    else:
        what = f"Kafka has not answered the monitor for {duration(unobserved_ms)}"
        urgency = urgency if service_commits_per_s else Urgency.KAFKA
    return PageProblem(level=level, text=f"{what}: what follows is not watched{meanwhile}", panel="monitor", urgency=urgency)


def _problems(facts: Facts, now_ms: int, service_commits_per_s: float) -> list[PageProblem]:
    found: list[PageProblem] = []
    if facts.findings:
        look = "" if facts.named_finding is None else f"finding/{facts.named_finding.id}"
        found.append(PageProblem(level=Level.BAD, text=_findings_text(facts), panel="findings", is_found=True, look=look))
    if facts.disagreeing is not None:
        named = ", ".join(map(str, facts.disagreeing)) or "unknown"
        found.append(PageProblem(level=Level.BAD, text=f"Log and service disagree (coordinator {named})", panel="agreement", is_found=True))
    if facts.missing_files:
        is_are = "is" if facts.missing_files == 1 else "are"
        text = f"{counted(facts.missing_files, 'file', 'files')} with live batches {is_are} not in the object store: data is lost"
        found.append(PageProblem(level=Level.BAD, text=text, panel="objects", is_found=True, urgency=Urgency.LOST_DATA))
    unwatched = watch_problem(facts.watch, now_ms, service_commits_per_s)
    unseen_ms = now_ms - (facts.last_commit_ms or facts.watch.started_ms)
    if unwatched is not None:
        found.append(unwatched)
    elif not facts.heads:
        text = "Waiting for the monitor: it has merged nothing of the log yet"
        found.append(PageProblem(level=Level.UNKNOWN, text=text, panel="monitor", urgency=Urgency.MONITOR))
    elif facts.behind_ms > BEHIND_MS_MAX:
        text = f"The monitor is {duration(facts.behind_ms)} behind ({counted(facts.behind_entries, 'entry', 'entries')})"
        found.append(PageProblem(level=Level.WARNING, text=text, panel="monitor", urgency=Urgency.MONITOR))
    elif service_commits_per_s and unseen_ms > UNSEEN_MS_MAX + 2 * facts.trigger_ms:
        text = f"The nodes decide {rate_text(service_commits_per_s)} requests/s, and the monitor has seen no file for {duration(unseen_ms)}"
        found.append(PageProblem(level=Level.WARNING, text=text, panel="monitor", urgency=Urgency.MONITOR))
    if facts.quarantined:
        text = f"{counted(facts.quarantined, 'entry', 'entries')} could not be read: a newer coordinator, or damage"
        found.append(PageProblem(level=Level.WARNING, text=text, panel="quarantine", is_found=True))
    if facts.unclaimed and facts.entries:
        text = f"No leader known for {counted(len(facts.unclaimed), 'coordinator', 'coordinators')} (first: {facts.unclaimed[0]})"
        found.append(PageProblem(level=Level.BAD, text=text, panel="leadership", urgency=Urgency.LEADER))
    for age_ms, most_ms, what, panel in (
        (facts.oldest_transaction_ms, OPEN_TRANSACTION_MS_MAX, "A transaction has been open", "snapshots"),
        (facts.oldest_hand_over_ms, HAND_OVER_MS_MAX, "A file has waited for its next owner", "files"),
    ):
        if age_ms is not None and age_ms > most_ms:
            found.append(PageProblem(level=Level.WARNING, text=f"{what} for {duration(age_ms)}", panel=panel, is_found=True))
    return found


def _findings_text(facts: Facts) -> str:
    text = counted(facts.findings, "finding", "findings")
    if facts.named_finding is None:
        return text
    named = facts.named_finding
    where = f" in {named.topic}" if named.topic else ""
    place = f"(coordinator {named.coordinator}, offset {grouped(named.offset)})"
    return f"{text}, {'the newest' if named.is_newest else 'above all'}: {named.rule.replace('-', ' ')}{where} {place}"


def _healthy(facts: Facts, now_ms: int) -> str:
    seen_ms = now_ms - facts.watch.seen_ms
    if seen_ms > FRESH_MS_MAX:
        return f"Healthy when last looked at, {duration(seen_ms)} ago: audit clean until then, {counted(facts.entries, 'entry', 'entries')}"
    if not facts.entries:
        return "Healthy: the log has no entries yet"
    clean = f"audit clean over {counted(facts.entries, 'entry', 'entries')}"
    if facts.commits_per_s:
        return f"Healthy: {rate_text(facts.commits_per_s)} files/s, {clean}, {facts.freshness_ms / 1000:.1f} s behind"
    if facts.behind_entries:
        return f"Healthy: {clean}, {counted(facts.behind_entries, 'entry', 'entries')} to read"
    quiet = "no file yet" if facts.last_commit_ms is None else f"last file {duration(now_ms - facts.last_commit_ms)} ago"
    return f"Healthy and quiet: {quiet}, {clean}"


def rate_text(rate: float) -> str:
    """A number per second, with a decimal only while it is small."""
    return grouped(round(rate)) if rate >= 10 else f"{rate:.1f}"


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
