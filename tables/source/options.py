"""The options of the data source as values: names and rules of Spark's Kafka source, and those of this source's own.

    options = parse_batch_options({"subscribe": "orders", "diskless.bootstrap.servers": "node-1:9192", ...})

Names have no case. An option that is not known is refused: one that is misspelt would read other records than were asked for. Invariant: no
secret is an option, since Spark keeps options in the plan and hands them to executors; files and the environment hold them.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from tables.reading.span import COLUMNS, HEADERS, Damage
from tables.source.offsets import EARLIEST, LATEST, Positions, TopicPlace, parse_places, parse_positions

LOG = logging.getLogger("diskless.source")
T = TypeVar("T")
E = TypeVar("E", bound=Enum)

BOOTSTRAP: Final = "diskless.bootstrap.servers"
STORE_URL: Final = "diskless.object.store.url"
STORE_OPTION: Final = "diskless.object.store.option."
CONFIG: Final = "diskless.config"
TIMEOUT: Final = "diskless.timeout"
KAFKA: Final = "diskless.kafka.bootstrap.servers"
_SECURITY: Final = ("diskless.security.", "diskless.ssl.", "diskless.sasl.", "diskless.enable.ssl.")
_CHOICES: Final = ("assign", "subscribe", "subscribePattern")
_STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "groupId")
_BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
KNOWN: Final = (
    *_CHOICES, "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", *_BATCH_ONLY,
    *_STREAM_ONLY, "minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "includeHeaders", "columns", "splitBy", "fetchBytes",
    "pushdown", "onDamage", BOOTSTRAP, STORE_URL, CONFIG, TIMEOUT, KAFKA,
)  # fmt: skip
"""Every option that has one name; besides there are `diskless.object.store.option.*` and the properties of `_SECURITY`."""

_INSTEAD: Final = {
    "kafka.bootstrap.servers": f"use {BOOTSTRAP} with the addresses of nodes of the coordinator service",
    "kafka.group.id": "use groupId, by which offsets are committed for lag tools; it does not choose what is read",
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.isolation.level": "leave it out: diskless topics have no transactions",
    "kafka.client.rack": "leave it out: records come from the object store",
    "kafka.max.partition.fetch.bytes": "use fetchBytes",
    "kafka.fetch.max.bytes": "use fetchBytes",
    "kafka.max.poll.records": "leave it out: executors read batches of 8192 records",
    "kafka.request.timeout.ms": f"use {TIMEOUT}",
    "groupidprefix": "use groupId",
    "kafkaconsumer.polltimeoutms": f"use {TIMEOUT}",
    "fetchoffset.numretries": f"use {TIMEOUT}",
    "fetchoffset.retryintervalms": f"use {TIMEOUT}",
    "topic": "use subscribe; the source reads and does not write",
    "path": "use subscribe: load() takes no path",
}
_UNITS_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNITS_BYTES: Final = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_TIMEOUT_MS: Final = 60_000
_TRIGGER_DELAY_MS: Final = 15 * 60_000
_FETCH_BYTES: Final = 32 << 20
_FETCH_BYTES_MIN, _FETCH_BYTES_MAX = 1 << 20, 1 << 30


class SourceOptionError(ValueError):
    """An option is missing, wrong or unknown; the text names it, what is wanted and what to do, and no value that may be a secret."""


class SplitBy(Enum):
    """What one task reads: a range of one partition, a stretch of time of all partitions of a topic, or what suits the files."""

    PARTITION = "partition"
    OBJECTS = "objects"
    AUTO = "auto"


class NoMatch(Enum):
    """What a start by timestamp does in a partition without such a record."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChoice:
    """The topics and partitions that are read: by names, by a pattern of names, or partition by partition. One of the three is set."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    places: tuple[TopicPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class AtOffset:
    """The same place in every partition: `EARLIEST` or `LATEST`."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition, `EARLIEST` and `LATEST` among them."""

    positions: Positions


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record that is not older."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """A time for each partition."""

    times_ms: Mapping[TopicPlace, int]


Bound = AtOffset | AtOffsets | AtTime | AtTimes
"""Where reading begins or ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccess:
    """How driver and executors reach nodes and store; `security` and `store_options` hold no secrets."""

    servers: str
    store_url: str
    store_options: Mapping[str, str]
    security: Mapping[str, str]
    config_file: str
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """All options of a query."""

    choice: TopicChoice
    starting: Bound
    ending: Bound
    no_match: NoMatch
    max_per_trigger: int | None
    min_per_trigger: int | None
    trigger_delay_ms: int
    min_splits: int | None
    records_per_split_max: int | None
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    split: SplitBy
    fetch_bytes: int
    pushes_filters: bool
    on_damage: Damage
    group_id: str
    kafka_servers: str
    access: ServiceAccess


def parse_batch_options(given: Mapping[str, str]) -> SourceOptions:
    """Read the options of a batch query. Raises `SourceOptionError`."""
    options = parse_options(given, starts_at=EARLIEST)
    for name in _STREAM_ONLY:
        if name.lower() in {key.lower() for key in given}:
            LOG.warning("option %s ignored in batch queries", name)
    for name, bound, refused in (("startingOffsets", options.starting, LATEST), ("endingOffsets", options.ending, EARLIEST)):
        word = "latest" if refused == LATEST else "earliest"
        if bound == AtOffset(refused):
            raise SourceOptionError(f"{name} can't be {word} for batch queries; name offsets or times, or leave it out")
        if isinstance(bound, AtOffsets):
            for place, offset in bound.positions.offsets.items():
                if offset == refused:
                    raise SourceOptionError(f"{name} for {place} can't be {word} ({refused}) for batch queries; name an offset")
    _check_order(options.starting, options.ending)
    return options


def parse_stream_options(given: Mapping[str, str]) -> SourceOptions:
    """Read the options of a stream. Raises `SourceOptionError`."""
    names = {key.lower() for key in given}
    for name in _BATCH_ONLY:
        if name.lower() in names:
            raise SourceOptionError(f"{name} is not valid in streaming queries, which have no end; leave it out")
    return parse_options(given, starts_at=LATEST)


def parse_options(given: Mapping[str, str], *, starts_at: int = EARLIEST) -> SourceOptions:
    """Read options; without others reading begins at `starts_at`. Raises `SourceOptionError`."""
    options = _Options(given)
    options.refuse_unknown()
    min_per_trigger, max_per_trigger = options.positive("minOffsetsPerTrigger"), options.positive("maxOffsetsPerTrigger")
    if min_per_trigger and max_per_trigger and min_per_trigger > max_per_trigger:
        raise SourceOptionError(f"minOffsetsPerTrigger ({min_per_trigger}) is higher than maxOffsetsPerTrigger ({max_per_trigger})")
    group_id, kafka_servers = options.text("groupId"), options.text(KAFKA)
    if group_id and not kafka_servers:
        raise SourceOptionError(f"groupId needs {KAFKA}: a broker or a gateway, where offsets are committed")
    return SourceOptions(
        choice=_choice(options),
        starting=options.bound("starting", starts_at),
        ending=options.bound("ending", LATEST),
        no_match=options.one_of("startingOffsetsByTimestampStrategy", NoMatch, NoMatch.ERROR),
        max_per_trigger=max_per_trigger,
        min_per_trigger=min_per_trigger,
        trigger_delay_ms=options.measure("maxTriggerDelay", _UNITS_MS, _TRIGGER_DELAY_MS, "a time such as 30s, 15m or 1h"),
        min_splits=options.positive("minPartitions"),
        records_per_split_max=options.positive("maxRecordsPerPartition"),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        columns=_columns(options),
        split=options.one_of("splitBy", SplitBy, SplitBy.AUTO),
        fetch_bytes=_fetch_bytes(options),
        pushes_filters=options.flag("pushdown", False),
        on_damage=options.one_of("onDamage", Damage, Damage.FAIL),
        group_id=group_id,
        kafka_servers=kafka_servers,
        access=_access(options),
    )


class _Options:
    """The texts of options by their names in lower case."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = {name.lower(): value for name, value in given.items()}

    def refuse_unknown(self) -> None:
        """Raise `SourceOptionError` for the first option that is not known."""
        known = {name.lower(): name for name in KNOWN}
        for name in sorted(self.given):
            if name in known or name.startswith((STORE_OPTION, *_SECURITY)):
                continue
            if name in _INSTEAD:
                raise SourceOptionError(f"Option '{name}' is not supported by the diskless source; {_INSTEAD[name]}.")
            if name.startswith("kafka."):
                raise SourceOptionError(f"Option '{name}' is not supported by the diskless source; {_kafka_remedy(name)}.")
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
            remedy = f"did you mean '{known[close[0]]}'?" if close else f"the options are {', '.join(sorted(KNOWN))}."
            raise SourceOptionError(f"Unknown option '{name}' of the diskless source; {remedy}")

    def text(self, name: str) -> str:
        """Return the text of an option without spaces around it; empty if it was not given."""
        return self.given.get(name.lower(), "").strip()

    def needed(self, name: str, what: str) -> str:
        """Return the text of an option that must be there. Raises `SourceOptionError`."""
        text = self.text(name)
        if not text:
            raise SourceOptionError(f"Option '{name}' must be specified: {what}.")
        return text

    def read(self, name: str, parse: Callable[[str], T], wanted: str) -> T:
        """Read an option that was given. Raises `SourceOptionError`."""
        text = self.text(name)
        try:
            return parse(text)
        except ValueError as error:
            reason = f" ({error})" if str(error) else ""
            raise SourceOptionError(f"Option '{name}': expected {wanted}, got {_shown(text)}{reason}") from error

    def positive(self, name: str) -> int | None:
        """Read a number above 0; None if it was not given. Raises `SourceOptionError`."""
        return self.read(name, _positive, "a whole number that is positive") if self.text(name) else None

    def flag(self, name: str, default: bool) -> bool:
        """Read true or false. Raises `SourceOptionError`."""
        return self.read(name, _flag, "true or false") if self.text(name) else default

    def one_of(self, name: str, kind: type[E], default: E) -> E:
        """Read a value of an enum. Raises `SourceOptionError`."""
        if not self.text(name):
            return default
        words = {one.value: one for one in kind}
        text = self.text(name).lower()
        if text not in words:
            raise SourceOptionError(f"Option '{name}': expected {' or '.join(words)}, got {_shown(text)}")
        return words[text]

    def measure(self, name: str, units: Mapping[str, int], default: int, wanted: str) -> int:
        """Read a number with a unit. Raises `SourceOptionError`."""
        return self.read(name, lambda text: _measure(text, units), wanted) if self.text(name) else default

    def bound(self, side: str, default: int) -> Bound:
        """Read where reading begins or ends; a time for all wins over times, and those over offsets. Raises `SourceOptionError`."""
        name = f"{side}Timestamp"
        if self.text(name):
            return AtTime(self.read(name, _whole, "a time in milliseconds since 1970"))
        name = f"{side}OffsetsByTimestamp"
        if self.text(name):
            wanted = 'e.g. {"topicA": {"0": 1735689600000, "1": 1735689600000}}'
            return AtTimes(self.read(name, _times, wanted))
        name = f"{side}Offsets"
        words = {"earliest": EARLIEST, "latest": LATEST, "": default}
        text = self.text(name).lower()
        if text in words:
            return AtOffset(words[text])
        return AtOffsets(self.read(name, parse_positions, 'earliest, latest, or e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'))


def _kafka_remedy(name: str) -> str:
    own = "diskless." + name.removeprefix("kafka.")
    if not own.startswith(_SECURITY):
        return "leave it out: no Kafka client takes part"
    if _is_secret(own, ""):
        return f"name a properties file with it in {CONFIG}, which driver and executors can read"
    return f"use {own}, or name a properties file with it in {CONFIG}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else text[:200] + "...")


def _whole(text: str) -> int:
    if re.fullmatch("[0-9]{1,18}", text) is None:
        raise ValueError("")
    return int(text)


def _positive(text: str) -> int:
    if (number := _whole(text)) == 0:
        raise ValueError("")
    return number


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("")
    return text.lower() == "true"


def _measure(text: str, units: Mapping[str, int]) -> int:
    found = re.fullmatch(r"([0-9]{1,18})\s*([a-z]*)", text.lower())
    if found is None or found[2] not in units:
        raise ValueError(f"units are {', '.join(filter(None, units))}")
    return int(found[1]) * units[found[2]]


def _times(text: str) -> Mapping[TopicPlace, int]:
    times = parse_positions(text).offsets
    for place, time_ms in times.items():
        if time_ms < 0:
            raise ValueError(f"{place}: times begin at 0")
    return times


def _choice(options: _Options) -> TopicChoice:
    given = [name for name in _CHOICES if name.lower() in options.given]
    if len(given) != 1:
        which = "One of the following options must" if not given else "Only one of the following options can"
        raise SourceOptionError(f"{which} be specified for the diskless source: {', '.join(_CHOICES)}.")
    [name] = given
    if name == "assign":
        places = options.read(name, parse_places, 'e.g. {"topicA":[0,1],"topicB":[0,1]}')
        if not places:
            raise SourceOptionError("Option 'assign' names no partitions")
        return TopicChoice(places=places)
    if name == "subscribePattern":
        pattern = options.needed(name, "a regular expression that matches whole names of topics")
        try:
            re.compile(pattern)
        except re.error as error:
            raise SourceOptionError(f"Option 'subscribePattern': {_shown(pattern)} is no regular expression: {error}") from error
        return TopicChoice(pattern=pattern)
    names = tuple(dict.fromkeys(filter(None, (one.strip() for one in options.text(name).split(",")))))
    if not names:
        raise SourceOptionError("Option 'subscribe' names no topics")
    return TopicChoice(names=names)


def _columns(options: _Options) -> tuple[str, ...]:
    has_headers = options.flag("includeHeaders", False)
    every = (*COLUMNS, HEADERS) if has_headers else COLUMNS
    if not options.text("columns"):
        return every
    by_name = {name.lower(): name for name in every}
    chosen = list(dict.fromkeys(one.strip().lower() for one in options.text("columns").split(",") if one.strip()))
    for name in chosen:
        if name not in by_name:
            more = "; headers need includeHeaders=true" if name == HEADERS else ""
            raise SourceOptionError(f"Option 'columns': {name!r} is none of {', '.join(every)}{more}")
    if not chosen:
        raise SourceOptionError(f"Option 'columns' names no column; name some of {', '.join(every)}, or leave it out")
    return tuple(by_name[name] for name in chosen)


def _fetch_bytes(options: _Options) -> int:
    fetch_bytes = options.measure("fetchBytes", _UNITS_BYTES, _FETCH_BYTES, "a size such as 32m")
    if not _FETCH_BYTES_MIN <= fetch_bytes <= _FETCH_BYTES_MAX:
        raise SourceOptionError(f"Option 'fetchBytes' is {fetch_bytes} bytes; it must be 1m to 1g")
    return fetch_bytes


def _access(options: _Options) -> ServiceAccess:
    store_url = options.needed(STORE_URL, "the URL of the object store of the service, such as s3://bucket/prefix")
    timeout_ms = options.measure(TIMEOUT, _UNITS_MS, _TIMEOUT_MS, "a time such as 60s")
    if not timeout_ms:
        raise SourceOptionError(f"Option '{TIMEOUT}' must be more than 0")
    for name, value in options.given.items():
        if name.startswith("diskless.") and _is_secret(name, value):
            environment = "; credentials of the store also come from its usual environment variables" if "store" in name else ""
            raise SourceOptionError(
                f"Option '{name}' holds a secret, which Spark would keep in the plan. Put it into a properties file that driver and "
                f"executors can read, and name that file in {CONFIG}{environment}."
            )
    return ServiceAccess(
        servers=options.needed(BOOTSTRAP, "addresses of nodes of the coordinator service, host:port"),
        store_url=store_url,
        store_options={name.removeprefix(STORE_OPTION): value for name, value in options.given.items() if name.startswith(STORE_OPTION)},
        security={name.removeprefix("diskless."): value for name, value in options.given.items() if name.startswith(_SECURITY)},
        config_file=options.text(CONFIG),
        timeout_ms=timeout_ms,
    )


def _is_secret(name: str, value: str) -> bool:
    # Imported here: it takes a tenth of a second, and queries in plain text have no option that needs it.
    from coordinator.config.settings import NODE

    return bool(NODE.is_hidden(name.removeprefix("diskless."), value or "-"))


def _check_order(starting: Bound, ending: Bound) -> None:
    """Compare starts with ends that are both given by partition. Raises `SourceOptionError`."""
    match starting, ending:
        case AtOffsets(first), AtOffsets(last):
            starts, ends, what = first.offsets, last.offsets, "offset"
        case AtTimes(starts), AtTimes(ends):
            what = "time"
        case _:
            return
    if starts.keys() != ends.keys():
        raise SourceOptionError("The partitions of starting and ending options differ; name the same in both")
    for place, start in starts.items():
        if 0 <= ends[place] < start:
            raise SourceOptionError(f"The starting {what} {start} of {place} is greater than its ending {what} {ends[place]}")
