"""`diskless log`: the metadata topic as it is in Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from typing import TYPE_CHECKING, NamedTuple

import click

from cli.options import (
    INDEX,
    LIMIT,
    OFFSET,
    dry_run_option,
    kafka_place,
    output_option,
    service_options,
    timeout_option,
)
from cli.output import RowStream, print_rows, time_text
from cli.progress import doing
from cli.times import TIME_FORMS, Time

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.log.entries import EntryJudge, JudgedEntry
    from cli.log.kafka import LogConsumer
    from cli.service import ServicePlace

COLUMNS = (("part", 4), ("offset", 8), ("time", 24), ("epoch", 5), ("term", 16), ("seq", 8), ("verdict", 7), ("records", 0))

PRUNE_COLUMNS = ("coordinator", "leader", "log_start", "prune_to", "entries", "reason")


@click.group()
def log() -> None:
    """Look into the metadata topic itself."""


@log.command()
@kafka_place("--bootstrap-server", "--kafka-bootstrap-server")
@click.option("--partition", "partitions", type=INDEX, multiple=True, help="Only this metadata partition. Repeatable.")
@click.option("--from", "from_offset", type=OFFSET, default=0, show_default=True, help="First offset to print.")
@click.option("--since", "since_ms", type=Time(), metavar="TIME", help=f"First time to print: {TIME_FORMS}.")
@click.option("--until", "until_ms", type=Time(), metavar="TIME", help="Print entries before this time.")
@click.option("--max", "max_entries", type=LIMIT, help="Print at most this many entries.")
@click.option("--follow", "-f", is_flag=True, help="Go on with new entries until Ctrl-C.")
@click.option("--no-verdict", is_flag=True, help="Do not read the log before --from, which the verdicts need.")
@timeout_option
@output_option
def dump(
    kafka: KafkaPlace,
    partitions: Sequence[int],
    from_offset: int,
    since_ms: int | None,
    until_ms: int | None,
    max_entries: int | None,
    follow: bool,
    no_verdict: bool,
    timeout_s: float,
    output: str,
) -> None:
    """Print entries with their key, their verdict and their records.

    The verdict is that of every replica: `apply` counts, `claim` starts a term, `void` never counts (the reason is
    printed), `chunk` belongs to a transaction; it counts if the transaction ends, as its last entry says;
    `unknown` is shown before the first claim of a log whose beginning was pruned. With --output other than table every field
    of every record is printed.

    Examples: `diskless log dump --bootstrap-server kafka:9092 --partition 0`,
    `diskless log dump --bootstrap-server kafka:9092 --since 2026-11-28T02:00 --until 2026-11-28T03:00`,
    `diskless log dump --config coordinator.properties --follow -o jsonl`
    """
    from cli.log.kafka import LogConsumer
    from cli.outcome import Exit, Failed

    if follow and until_ms is not None:
        raise Failed("--follow goes on for ever and --until does not; choose one", Exit.USAGE)
    ends_quietly = suppress(KeyboardInterrupt) if follow else nullcontext()
    with ends_quietly, LogConsumer(kafka, timeout_s) as consumer, RowStream(output, COLUMNS) as stream:
        existing = consumer.partitions()
        unknown = sorted(set(partitions) - set(existing))
        if unknown:
            raise Failed(f"topic {kafka.topic} has no partition {unknown[0]}; it has 0 to {existing[-1]}", Exit.NOT_FOUND)
        wanted = sorted(set(partitions)) or existing
        places = {one: _range(consumer, one, from_offset, since_ms, until_ms) for one in wanted}
        for count, entry in enumerate(_entries(consumer, places, follow=follow, no_verdict=no_verdict), 1):
            _print(stream, entry)
            if count == max_entries:
                break


class _Range(NamedTuple):
    """What is printed of a partition: offsets from `first` on; `low` and `end` are the bounds of what is read."""

    low: int
    first: int
    end: int


def _range(consumer: LogConsumer, partition: int, from_offset: int, since_ms: int | None, until_ms: int | None) -> _Range:
    low, end = consumer.log_range(partition)
    first = max(from_offset, consumer.offset_at(partition, since_ms, end)) if since_ms is not None else from_offset
    return _Range(low, first, end if until_ms is None else consumer.offset_at(partition, until_ms, end))


def _entries(consumer: LogConsumer, places: Mapping[int, _Range], *, follow: bool, no_verdict: bool) -> Iterator[JudgedEntry]:
    """Judge every entry from the start of the log, yield those that are wanted: partition by partition, then new ones."""
    from cli.log.entries import EntryJudge
    from cli.log.fold import FoldedReplica

    judges: dict[int, EntryJudge] = {}
    with ExitStack() as folds:
        for partition, (low, wanted, end) in places.items():
            first = max(low, min(wanted, end)) if no_verdict else low
            fold = folds.enter_context(FoldedReplica(partition)) if first == 0 else None
            judges[partition] = EntryJudge(from_start=first == 0, fold=fold)
            if wanted < end or follow:
                with doing(f"reading {consumer.topic}-{partition}", end - first) as work:
                    yield from _judged(consumer, {partition: first}, {partition: end}, judges, {partition: wanted}, work.step)
        if follow:
            ends = {one: place.end for one, place in places.items()}
            firsts = {one: place.first for one, place in places.items()}
            yield from _judged(consumer, ends, None, judges, firsts, lambda: None)


def _judged(
    consumer: LogConsumer,
    starts: Mapping[int, int],
    ends: Mapping[int, int] | None,
    judges: dict[int, EntryJudge],
    firsts: Mapping[int, int],
    step: Callable[[], None],
) -> Iterator[JudgedEntry]:
    for message in consumer.read(starts, ends):
        entry = judges[message.partition].judge(message)
        step()
        if message.offset >= firsts[message.partition]:
            yield entry


@log.command()
@click.argument("place", metavar="PARTITION@OFFSET")
@kafka_place("--bootstrap-server", "--kafka-bootstrap-server")
@timeout_option
@output_option
def explain(
    place: str,
    kafka: KafkaPlace,
    timeout_s: float,
    output: str,
) -> None:
    """Tell what one entry of the metadata topic did, and why.

    Reads the log of the metadata partition from its beginning, as a replica does, up to the entry (up to the end of its transaction,
    when it is part of one), and prints the entry, its verdict with the reason, and the bounds of the user partitions that it
    concerns, before and after.

    Example: `diskless log explain 3@1042 --bootstrap-server kafka:9092`
    """
    from cli.log.explain import explain_entry, parse_place, print_explanation
    from cli.log.kafka import LogConsumer

    partition, offset = parse_place(place)
    with LogConsumer(kafka, timeout_s) as consumer:
        print_explanation(explain_entry(consumer, partition, offset), output)


@log.command()
@click.option("--partition", "partitions", type=INDEX, multiple=True, help="Only this metadata partition. Repeatable.")
@dry_run_option
@service_options
@output_option
def prune(partitions: Sequence[int], dry_run: bool, service: ServicePlace, output: str) -> None:
    """Show how far the leaders would prune the log of each metadata partition now, and why not further.

    Leaders prune by themselves, within seconds, as soon as a proven snapshot and every replica that lives are past the entries: this
    command only tells (--dry-run), and there is nothing to force. `reason` says what is waited for. Status 4 when a coordinator has no
    leader that answers; the others are shown nevertheless.

    Example: `diskless log prune --dry-run --bootstrap-server localhost:9192`
    """
    from cli.commands.snapshots import look, say_absent
    from cli.looks.snapshots import leaderless, prune_rows
    from cli.outcome import Exit, Failed
    from cli.service import run

    if not dry_run:
        raise Failed(
            "leaders prune by themselves as soon as it is safe, and it cannot be forced: pass --dry-run to see what is waited for;"
            " `diskless snapshots take` brings the next snapshot forward",
            Exit.USAGE,
        )
    views = run(look(service, partitions))
    rows = prune_rows(views, partitions)
    # Only a leader can say it, and there is one again soon: no row is not the answer that nothing is waited for, nor is an empty table.
    if rows:
        print_rows(rows, output, PRUNE_COLUMNS)
    say_absent(views)
    silent = leaderless(views, partitions)
    if silent or not rows:
        whose = f" for coordinator {', '.join(map(str, silent))}" if silent else ""
        raise Failed(f"no leader answers{whose}; `diskless coordinator status` says more, then run the command again", Exit.UNAVAILABLE)


def _print(stream: RowStream, entry: JudgedEntry) -> None:
    from cli.log.entries import entry_row, entry_summary

    row = entry_row(entry, time_text(entry.message.timestamp_ms))
    if stream.is_table:
        row |= {"part": row["partition"], "records": entry_summary(entry)}
    stream.write(row)
