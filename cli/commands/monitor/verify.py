"""`diskless monitor verify`: do the log and the service agree? Rebuilds the state from the log and compares it with replicas."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.objects import NamedStore, named_store_with_snapshots
from cli.options import kafka_place, optional_server_option, output_option, timeout_option
from cli.outcome import Exit, Failed
from cli.output import say
from cli.spark.session import outcome_folder_option, spark_options, store_place
from cli.spark.verify_outcome import end, outcome_of, show

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.log.replica_state import DatabaseReplica, ToldReplica
    from cli.service import ServicePlace
    from spark_jobs.store.engine import StorePlace
    from spark_jobs.verify.compare import ComparedReplica, ReplicaComparison
    from spark_jobs.verify.job import Rebuilder

ROUNDS_MAX = 3
NODE = "node "
DATABASES = "partition-*.db"


@click.command()
@optional_server_option("Coordinator nodes; the digest that each of them tells of each replica is compared.")
@click.option(
    "--state",
    "state_paths",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    help="State database of a replica (partition-<n>.db), also of a running node or a copy, or a data directory. Repeatable.",
)
@kafka_place("--kafka-bootstrap-server")
@named_store_with_snapshots
@store_place(outcome_folder_option("the outcome"), is_needed=False)
@spark_options
@timeout_option
@output_option
def verify(
    service: ServicePlace | None,
    state_paths: Sequence[Path],
    kafka: KafkaPlace,
    store: NamedStore,
    place: StorePlace | None,
    master: str | None,
    spark_properties: tuple[str, ...],
    output: str,
) -> None:
    """Rebuild the service's state from the log alone, and compare it with live replicas.

    Nodes (--bootstrap-server) tell the digest of what each of their replicas has written and at which offset; the log is read up
    to there. State databases (--state) are compared row by row, so that a difference is named: also what the digest leaves out
    (largest timestamps; of files counters, proofs and kept answers). With --dir what was found of nodes is kept for the page, never
    of state databases, which may be copies. Entries that contradict the log, which are void for every replica, are listed; they are
    no disagreement (the monitor has a finding for each). Where coordinators have deleted the log's beginning, the oldest good snapshot
    of the object store replaces it, and is compared unchecked. Status 5 when something differs, 1 when something could
    not be found out.

    Examples: `diskless monitor verify --bootstrap-server localhost:9192 --kafka-bootstrap-server localhost:9092 --dir ./monitor`,
    `diskless monitor verify --config coordinator.properties --state /var/lib/diskless -o json`
    """
    from cli.spark.batch import batch_session, log_place, note_result, topic_watch, while_pruned
    from cli.spark.snapshots import starts_in

    if service is None and not state_paths:
        raise Failed("nothing to compare the log with: pass --bootstrap-server (nodes) or --state (state databases)", Exit.USAGE)
    with ExitStack() as stack:
        watch = stack.enter_context(topic_watch(kafka))
        facts = watch.facts()
        stored = _open_databases(stack, state_paths, facts.topic_id)
        folder_of_snapshots = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="diskless-snapshots-")))
        session = stack.enter_context(batch_session("diskless-verify", master, spark_properties))

        from spark_jobs.verify.compare import compare
        from spark_jobs.verify.job import Rebuilder

        def work(log_starts: Mapping[int, int], is_again: bool) -> list[ReplicaComparison]:
            # The oldest snapshot leaves out least of the log; the log's beginning that it needs is the next to be deleted.
            starts = starts_in(store, watch, facts, log_starts, folder_of_snapshots, newest_first=is_again)
            rebuilder = Rebuilder(session, log_place(kafka), starts)
            told = _ask_nodes(service) if service is not None else []
            found = compare(rebuilder, [*stored, *told], log_starts)
            return found if service is None else _ask_again(rebuilder, found, log_starts, service)

        results = while_pruned(watch, facts.partitions, work)
    if place is not None:
        # The page speaks of the service: a state database may be a copy of long ago.
        of_nodes = outcome_of([one for one in results if one.replica.startswith(NODE)])
        if of_nodes["partitions"]:
            note_result(place, "last_verify", json.dumps(of_nodes))
        else:
            say("nothing is kept for the page, which shows replicas of nodes (--bootstrap-server) only")
    show(results, output)
    end(results)


def _open_databases(stack: ExitStack, paths: Sequence[Path], topic_id: str) -> list[DatabaseReplica]:
    """Open state databases for as long as the comparison lasts."""
    from cli.log.replica_state import database_replica, open_state
    from coordinator.kafka.names import topic_id_text

    files = [file for path in paths for file in (sorted(path.glob(f"**/{DATABASES}")) if path.is_dir() else [path])]
    if paths and not files:
        raise Failed(f"no {DATABASES} in {', '.join(map(str, paths))}", Exit.NOT_FOUND)
    replicas = []
    for file in files:
        replica = database_replica(str(file), stack.enter_context(open_state(file)))
        own = topic_id_text(replica.state.header.topic_id)
        if own != topic_id:
            raise Failed(
                f"{file} is of topic id {own}, but the topic in Kafka has id {topic_id}; was it recreated? Name it with --metadata-topic"
            )
        replicas.append(replica)
    return replicas


def _ask_nodes(service: ServicePlace) -> list[ToldReplica]:
    """Ask every node for its replicas' digests."""
    from cli.log.replica_state import ToldReplica
    from cli.looks.service import NodeView, look, replicas
    from cli.service import open_client, run
    from records.state_digest import Digest

    async def ask() -> Sequence[NodeView]:
        async with open_client(service) as client:
            return await look(client, service.timeout_s)

    views = run(ask())
    for view in views:
        if view.error:
            say(f"node {view.node.node_id} does not answer: {view.error}")
    return [
        ToldReplica(
            name=f"{NODE}{one.node.node_id}", kpart=one.coordinator_id, offset=one.written_offset, digest=Digest.from_bytes(one.digest)
        )
        for one in replicas(views)
        if one.digest
    ]


def _ask_again(
    rebuilder: Rebuilder, results: list[ReplicaComparison], log_starts: Mapping[int, int], service: ServicePlace
) -> list[ReplicaComparison]:
    """A node's digest includes deleted batches until they are trimmed, moments later: compare the digest of then."""
    from spark_jobs.verify.compare import compare

    for _ in range(ROUNDS_MAX - 1):
        suspects = {(one.replica, one.kpart): one for one in results if one.agree is False and one.replica.startswith(NODE)}
        if not suspects:
            break
        time.sleep(1)
        told: list[ComparedReplica] = [
            one for one in _ask_nodes(service) if (known := suspects.get((one.name, one.kpart))) is not None and one.offset >= known.offset
        ]
        again = {(one.replica, one.kpart): one for one in compare(rebuilder, told, log_starts)}
        results = [again.get((one.replica, one.kpart), one) for one in results]
    return results
