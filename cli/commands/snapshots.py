"""`diskless snapshots`: take them, see which there are, prove and fetch them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from cli.objects import NamedStore, named_store
from cli.options import INDEX, OFFSET, SERVER_VARIABLE, RegularFile, optional_server_option, output_option, service_options, timeout_option
from cli.output import print_fields, print_rows, say

if TYPE_CHECKING:
    from cli.looks.snapshot_file import ProvenSnapshot
    from cli.looks.snapshots import SnapshotFacts, SnapshotView
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.client.calls.snapshots import TakenSnapshot
    from coordinator.object_store import ObjectStore

TAKE_COLUMNS = ("coordinator", "end_offset", "size", "error", "message")
LIST_COLUMNS = ("coordinator", "end_offset", "epoch", "size", "verified_by", "local_on", "location")
DESCRIBE_COLUMNS = (
    "coordinator",
    "node",
    "leads",
    "log_start",
    "applied_offset",
    "newest_end",
    "log_bytes_since",
    "age_s",
    "step",
    "prune_to",
    "prune_reason",
    "error",
)

coordinators_option = click.option(
    "--coordinator", "coordinator_ids", type=INDEX, multiple=True, metavar="ID", help="Only this coordinator. Repeatable."
)


@click.group()
def snapshots() -> None:
    """Take snapshots of coordinators; list, prove and fetch them."""


@snapshots.command()
@coordinators_option
@service_options
@output_option
def take(coordinator_ids: Sequence[int], service: ServicePlace, output: str) -> None:
    """Have the leaders take a snapshot of each coordinator now; done when all are committed.

    Leaders take snapshots by themselves (`metadata.log.max.record.bytes.between.snapshots` and so on); this is for the moment
    before an upgrade or an experiment.

    Examples: `diskless snapshots take --bootstrap-server localhost:9192`,
    `diskless snapshots take --coordinator 3 --timeout 120 --bootstrap-server localhost:9192 -o json`
    """
    from cli.service import fail_for, run

    taken = run(_take(coordinator_ids, service))
    print_rows([_taken_row(one) for one in taken], output, TAKE_COLUMNS)
    fail_for("not every snapshot was taken", [one.refusal for one in taken])


async def _take(coordinator_ids: Sequence[int], service: ServicePlace) -> list[TakenSnapshot]:
    from cli.looks.service import check_coordinators
    from cli.service import open_client

    async with open_client(service) as client:
        await check_coordinators(client, coordinator_ids, service.timeout_s)
        return await client.admin.take_snapshots(coordinator_ids)


def _taken_row(one: TakenSnapshot) -> Row:
    from coordinator.kafka.errors import ErrorCode

    is_taken = one.error is ErrorCode.NONE
    return {
        "coordinator": one.coordinator_id,
        "end_offset": one.end_offset if is_taken else None,
        "size": one.size_bytes if is_taken else None,
        "error": None if is_taken else one.error.name,
        "message": one.message or None,
    }


@snapshots.command("list")
@coordinators_option
@service_options
@output_option
def list_(coordinator_ids: Sequence[int], service: ServicePlace, output: str) -> None:
    """List the committed snapshots, the newest first, and the nodes that have proven each or keep a copy.

    A snapshot has the state of the log before its end offset. `verified_by` are nodes whose process has loaded it.

    Example: `diskless snapshots list --coordinator 3 --bootstrap-server localhost:9192`
    """
    from cli.looks.snapshots import known_snapshots, snapshot_rows
    from cli.service import run

    views = run(look(service, coordinator_ids))
    print_rows(snapshot_rows(known_snapshots(views, coordinator_ids)), output, LIST_COLUMNS, empty="no snapshot is committed yet")
    say_absent(views)


@snapshots.command()
@click.argument("coordinator_ids", metavar="[COORDINATOR]...", type=INDEX, nargs=-1)
@service_options
@output_option
def describe(coordinator_ids: Sequence[int], service: ServicePlace, output: str) -> None:
    """Show for every node how far the snapshots of a coordinator are, and what keeps its log from being pruned.

    COORDINATOR is the number of a metadata partition; none means all. The leader's word counts for pruning.

    Example: `diskless snapshots describe 0 1 --bootstrap-server localhost:9192 -o json`
    """
    from cli.looks.snapshots import standing_rows
    from cli.outcome import Exit, Failed
    from cli.service import run

    views = run(look(service))
    rows = standing_rows(views, coordinator_ids)
    print_rows(rows, output, DESCRIBE_COLUMNS)
    say_absent(views)
    unknown = sorted(set(coordinator_ids) - {row["coordinator"] for row in rows if isinstance(row["coordinator"], int)})
    if unknown:
        raise Failed(f"no node knows coordinator {', '.join(map(str, unknown))}", Exit.NOT_FOUND)


@snapshots.command()
@click.argument("file", type=RegularFile(), required=False)
@click.option("--coordinator", "coordinator_id", type=INDEX, help="Prove the newest committed snapshot of this coordinator.")
@optional_server_option("Addresses of coordinator nodes, for --coordinator.")
@named_store
@timeout_option
@output_option
def verify(file: Path | None, coordinator_id: int | None, service: ServicePlace | None, store: NamedStore, output: str) -> None:
    """Prove a snapshot: a FILE, or the newest committed one of a coordinator, fetched from the object store.

    Reads every checksum and the footer, and builds a state database of the rows in a temporary folder, which proves each row and
    the digest. One that was fetched must also be what the log says of it. Status 1, with the reason, when it is not good.

    Examples: `diskless snapshots verify 00000000000000001042-0000000003.checkpoint`,
    `diskless snapshots verify --coordinator 0 --config coordinator.properties --bootstrap-server localhost:9192`
    """
    from cli.looks.snapshot_file import prove_file
    from cli.outcome import Exit, Failed
    from cli.service import run

    if (file is None) == (coordinator_id is None):
        raise Failed("name a FILE, or a coordinator with --coordinator", Exit.USAGE)
    if file is not None:
        print_fields(_proven_fields(str(file), prove_file(file, None)), output)
        return
    assert coordinator_id is not None
    if service is None:
        raise Failed(f"--coordinator needs a node to ask: pass --bootstrap-server, or set {SERVER_VARIABLE}", Exit.USAGE)
    opened = store.open()
    one = _choose(run(look(service, [coordinator_id])), coordinator_id, None)
    with TemporaryDirectory(prefix="diskless-snapshot-") as folder:
        fetched = Path(folder) / "fetched.checkpoint"
        run(fetch_copy(opened, one, fetched), f"fetching {one.snapshot.size_bytes:,} bytes")
        print_fields(_proven_fields(one.snapshot.location, prove_file(fetched, one)), output)


@snapshots.command()
@click.option("--coordinator", "coordinator_id", type=INDEX, required=True, help="The coordinator whose snapshot is fetched.")
@click.option("--end-offset", type=OFFSET, help="The snapshot that ends here. [default: the newest committed one]")
@click.option("--to", "target", type=RegularFile(), required=True, help="The file to write; it must not exist.")
@named_store
@service_options
def download(coordinator_id: int, end_offset: int | None, target: Path, store: NamedStore, service: ServicePlace) -> None:
    """Fetch a committed snapshot from the object store into a file; its size and SHA-256 are those in the log.

    Kafka's own tool reads it as well: `kafka-dump-log.sh --files FILE`, once it is named as in the object store.

    Example: `diskless snapshots download --coordinator 0 --to copy.checkpoint --config coordinator.properties
    --bootstrap-server localhost:9192`
    """
    from cli.outcome import Exit, Failed
    from cli.service import run

    if target.exists():
        raise Failed(f"{target} exists; choose another name", Exit.USAGE)
    opened = store.open()
    one = _choose(run(look(service, [coordinator_id])), coordinator_id, end_offset)
    run(fetch_copy(opened, one, target), f"fetching {one.snapshot.size_bytes:,} bytes")
    say(f"{target}: coordinator {coordinator_id} up to offset {one.snapshot.end_offset}, {one.snapshot.size_bytes} bytes")


async def look(service: ServicePlace, coordinator_ids: Sequence[int] = ()) -> list[SnapshotView]:
    """Ask every node of its snapshots. Raises `Failed`, also when one of these coordinators does not exist, and `Unavailable`."""
    from cli.looks.service import check_coordinators
    from cli.looks.snapshots import look_at_snapshots
    from cli.service import open_client

    async with open_client(service) as client:
        await check_coordinators(client, coordinator_ids, service.timeout_s)
        return await look_at_snapshots(client, service.timeout_s)


def say_absent(views: Sequence[SnapshotView]) -> None:
    """Name the nodes that did not answer."""
    for view in views:
        if view.error:
            say(f"node {view.node.node_id} does not answer: {view.error}")


def _choose(views: Sequence[SnapshotView], coordinator_id: int, end_offset: int | None) -> SnapshotFacts:
    """The committed snapshot that ends at an offset, or the newest one. Raises `Failed`."""
    from cli.looks.snapshots import known_snapshots
    from cli.outcome import Exit, Failed

    found = known_snapshots(views, [coordinator_id])
    for one in found:
        if end_offset in (None, one.snapshot.end_offset):
            return one
    ends = ", ".join(str(one.snapshot.end_offset) for one in found)
    what = f"ends at offset {end_offset}; there are those that end at {ends}" if ends else "is committed yet; `diskless snapshots take`"
    raise Failed(f"no snapshot of coordinator {coordinator_id} {what}", Exit.NOT_FOUND)


async def fetch_copy(store: ObjectStore, one: SnapshotFacts, target: Path) -> None:
    """Fetch a committed snapshot into a file that must not exist; it is there whole, or not at all. Raises `Failed`."""
    from cli.outcome import Exit, Failed
    from coordinator.adapters.objectstore.snapshots import ObjectStoreSnapshots
    from coordinator.runtime.ports import SnapshotStoreFailed
    from records.durable import part_file, publish_new

    try:
        with part_file(target) as part:
            file = await ObjectStoreSnapshots(store, prefix="").download(one.snapshot.location, part)
            if (file.size_bytes, file.sha256) != (one.snapshot.size_bytes, one.snapshot.sha256):
                raise Failed(
                    f"{store.location}: {one.snapshot.location} has {file.size_bytes} bytes with SHA-256 {file.sha256.hex()}; the log says"
                    f" {one.snapshot.size_bytes} and {one.snapshot.sha256.hex()}: the object was changed or damaged, use an older one"
                )
            publish_new(part, target)  # not a rename, which would replace what another process has fetched meanwhile
    except SnapshotStoreFailed as error:
        raise Failed(f"{error}; is it the object store of the nodes?") from error
    except FileExistsError as error:
        raise Failed(f"{target} exists; choose another name", Exit.USAGE) from error
    except OSError as error:
        raise Failed(f"cannot write {target}: {error}") from error


def _proven_fields(name: str, proven: ProvenSnapshot) -> dict[str, object]:
    from coordinator.kafka.names import topic_id_text

    head = proven.head
    return {
        "snapshot": name,
        "good": True,
        "cluster_id": head.cluster_id,
        "topic_id": topic_id_text(head.topic_id),
        "coordinator": head.metadata_partition,
        "end_offset": head.end_offset,
        "epoch": head.epoch,
        "size": proven.size_bytes,
        "sha256": proven.sha256.hex(),
        "digest": head.digest.hex(),
        "live_batches": proven.live_batches,
        "files": proven.files,
    }
