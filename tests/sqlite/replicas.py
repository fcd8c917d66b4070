"""A replica over a state store, as the runtime drives it, and everything it answers, for comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from coordinator.core.commands import FetchPoint, OffsetQuery
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.reads.queries import FetchBudget, describe_file, find_batches, list_offset
from coordinator.core.state.packing import Flush, Packer
from coordinator.core.state.replica_state import ShardState, Stored
from coordinator.core.tables.stored_rows import ColdStore, Header, Tombstone
from coordinator.core.yielding import Rest, no_rest
from coordinator.kafka.batches import partition_key
from records.codec import encode_entry
from records.committed_files.codec import FileCommitted, table_of
from records.model import Endpoint, NodeRegistered, Record
from tests.sqlite.random_log import START_MS, LogModel

CLUSTER_ID = "cluster"
TOPIC_ID = b"m" * 16
PARTITION = 3
NODE = NodeRegistered(
    node_id=1,
    rack="",
    endpoints=[Endpoint(listener="PLAINTEXT", host="host-1", port=9)],
    schema_level_max=2,
    incarnation_id=b"i" * 16,
    log_dirs=[b"d" * 16],
    is_any_dir_offline=False,
)


class Store(Protocol):
    """What the runtime asks of a state store."""

    def load(self) -> Stored | None: ...

    def write(self, flush: Flush, rest: Rest = no_rest) -> None: ...

    def reader(self) -> ColdStore: ...

    def close(self, *, clean: bool) -> None: ...


def header(state: ShardState) -> Header:
    """A header such as the runtime writes."""
    return Header(
        cluster_id=CLUSTER_ID,
        topic_id=TOPIC_ID,
        metadata_partition=PARTITION,
        applied_offset=state.applied_offset,
        epoch=4,
        term=-(1 << 62),
        seq=state.applied_offset + 1,
        leader_node_id=2,
        leader_endpoints="PLAIN://host:9",
        log_time_ms=state.hot.log_time_ms,
        last_entry_hash=b"h" * 16,
        digest=b"",
    )


@dataclass(slots=True)
class Replica:
    """One replica; `open_store` opens what an earlier life of it left."""

    open_store: Callable[[], Store]
    store: Store = field(init=False)
    state: ShardState = field(init=False)
    packer: Packer = field(init=False)
    position: tuple[int, int, int] | None = None
    """Epoch, term and seq of the header, where they matter."""

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.store = self.open_store()
        self.packer = Packer()
        stored = self.store.load()
        if stored is None:
            self.state = ShardState(cold=self.store.reader())
        else:
            self.state = ShardState.restore(stored, self.store.reader())
            self.packer = stored.packer

    def restart(self, *, clean: bool = True) -> None:
        """Come back with what was written; the rest is lost."""
        self.store.close(clean=clean)
        self.start()

    def apply(self, records: list[Record], offset: int, encoded: bytes | None = None) -> None:
        match records:
            case [FileCommitted() as file]:
                files = LoggedFiles(table_of([file]), [encode_entry(records) if encoded is None else encoded])
                files.offsets[0] = offset
                applied = self.state.apply_files(files, 0, 1)
                assert applied.contradiction is None, applied.contradiction
            case _:
                self.state.apply_entry(records, offset)

    def flush(self, *, results_before_ms: int = 0) -> Flush:
        flush = self.freeze_and_write(results_before_ms=results_before_ms)
        self.state.written()
        return flush

    def freeze_and_write(self, *, results_before_ms: int = 0) -> Flush:
        """Leave the state as it is while the loop does not know yet that the flush was committed."""
        flush = self.packer.pack(self.state.freeze(self.header(), results_before_ms=results_before_ms))
        self.store.write(flush)
        return flush

    def header(self) -> Header:
        made = header(self.state)
        if self.position is None:
            return made
        epoch, term, seq = self.position
        return replace(made, epoch=epoch, term=term, seq=seq)

    def trim(self) -> None:
        while self.state.trim_step():
            pass

    def digest(self) -> bytes:
        """The digest of everything applied; trims and flushes first."""
        self.trim()
        return self.flush().header.digest


def answers(state: ShardState, model: LogModel) -> dict[str, object]:
    """What a state says about everything that ever was."""
    said: dict[str, object] = {}
    for topic_id, partition in model.all_places:
        for time in (-1, -2, -3, -4, START_MS - 3_000_000_000, START_MS, (START_MS + model.now_ms) // 2, model.now_ms, model.now_ms + 100):
            query = OffsetQuery(topic_id=topic_id, partition=partition, timestamp=time)
            said[f"offset {topic_id.hex()} {partition} {time}"] = list_offset(state, query)
        for at in (0, model.log_start.get((topic_id, partition), 0), model.high_watermark.get((topic_id, partition), 0) // 2):
            point = FetchPoint(topic_id=topic_id, partition=partition, offset=at, max_bytes=1 << 30)
            said[f"find {topic_id.hex()} {partition} {at}"] = find_batches(state, point, FetchBudget(1 << 40, 0), PARTITION)
        said[f"producers {topic_id.hex()} {partition}"] = _producers(state, partition_key(topic_id, partition))
    for key in model.all_keys:
        file = state.find_file(key)
        # Since when a file is empty is told by each replica's own writes.
        alike = None if file is None else file._replace(emptied_ms=-1)
        said[f"file {key}"] = (alike, describe_file(state, key), state.find_tombstone(key))
        if file is not None:
            assert state.file_name(file.file_id) == (key, file.append_time_ms)
    stones = tombstone_pages(state, 3)
    assert stones == [stone for key in sorted(model.all_keys) if (stone := state.find_tombstone(key)) is not None]
    said["topics"] = {i: (t.name, t.order_offset, sorted(t.partitions)) for i, t in state.hot.topics.items()}
    said["deleted"] = {i: (t.order_offset, t.time_ms) for i, t in state.hot.deleted_topics.items()}
    said["time"] = state.hot.log_time_ms
    return said


def tombstone_pages(state: ShardState, size: int) -> list[Tombstone]:
    """All tombstones, read in pages."""
    stones: list[Tombstone] = []
    while page := state.tombstones_after(stones[-1].object_key if stones else "", size):
        assert len(page) <= size
        stones += page
    return stones


def _producers(state: ShardState, key: bytes) -> dict[int, object]:
    row = state.hot.partitions.find(key[:16], int.from_bytes(key[16:]))
    if row is None:
        return {}
    table = state.hot.producers
    return {
        table.producer.cells[at]: (table.epoch.cells[at], table.last_append.cells[at], list(table.remembered(at)))
        for at in table.of_partitions([row]).tolist()
    }
