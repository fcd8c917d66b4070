"""Random requests through a leading replica, compared with the oracle answer by answer, and in the end state by state."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.core.commands import Answer, Command, CommitResult, DeletedTo, FoundBatch, FoundOffset
from coordinator.core.files.answers import result_of as logged_result
from records.codec import decode_entry
from records.committed_files.codec import FileCommitted, table_of
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import (
    MASK,
    OTHER_TOPIC,
    TOPIC,
    UNKNOWN_TOPIC,
    batch,
    commit,
    delete_records,
    leading,
    list_offsets,
    place,
    state_of,
    view_of,
)
from tests.core.build import found as find
from tests.core.model import Model, ModelBatch, ModelRequest, Row

PLACES = [(TOPIC, 0), (TOPIC, 0), (TOPIC, 1), (OTHER_TOPIC, 0), (TOPIC, 0), (TOPIC, 1)]
ROW_FLAWS: list[object] = ["magic", "size", "overlap", "outside", "type", "timestamp", "span", "sequences", "missing", "base"]
OWNER_FLAWS: list[object] = [[], [1], [0, 0], [2, 0], [0, 4], list(range(65)), [-1, 0]]
FLAWS = [*ROW_FLAWS, *OWNER_FLAWS, "old"]
DELETE_TO = [-2, -1, 0, 1, 2, 3, 5, 8, 13, 99]
MISSING = [(TOPIC, 7), (UNKNOWN_TOPIC, 0)]

rows = st.fixed_dictionaries(
    {
        "place": st.sampled_from(PLACES),
        "count": st.integers(1, 3),
        "producer": st.sampled_from([None, 1, 1, 2]),
        "epoch": st.sampled_from([0, 0, 0, 1, 2]),
        "sequence": st.sampled_from(["next", "next", "next", "again", "older", "zero", "last", "gap"]),
        "gap": st.sampled_from([0, 0, 5]),
        "size": st.integers(1, 40),
        "max_timestamp": st.sampled_from([-1, 0, 500, 1000, 1500, 1_700_000_000_000]),
        "timestamp_type": st.sampled_from([0, 0, 1]),
        "flaw": st.sampled_from(
            [None] * 40 + ["magic", "size", "overlap", "outside", "type", "timestamp", "span", "sequences", "missing", "base"]
        ),
    }
)
commits = st.fixed_dictionaries(
    {
        "op": st.just("commit"),
        "rows": st.lists(rows, min_size=1, max_size=6),
        "key": st.sampled_from(["new"] * 6 + ["same", "other", "renumbered"]),
        "age": st.sampled_from([None, 0, 900_000, -5000]),
        # From the middle of a range, because Hypothesis likes the ends: most commits are in order.
        "flaw": st.integers(0, 250).map(lambda n: FLAWS[n - 100] if 0 <= n - 100 < len(FLAWS) else None),
        "which": st.integers(0, 50),
        "shuffle": st.booleans(),
    }
)
deletes = st.fixed_dictionaries(
    {
        "op": st.just("delete"),
        "points": st.lists(st.tuples(st.sampled_from([0, 1, 7]), st.sampled_from(DELETE_TO)), min_size=1, max_size=3),
    }
)
lists = st.fixed_dictionaries(
    {
        "op": st.just("list"),
        "queries": st.lists(
            st.tuples(st.sampled_from([0, 1, 7]), st.sampled_from([-6, -5, -4, -3, -3, -2, -1, 0, 500, 501, 1000, 1_700_000_000_000])),
            min_size=1,
            max_size=3,
        ),
    }
)
finds = st.fixed_dictionaries(
    {
        "op": st.just("find"),
        "points": st.lists(
            st.tuples(st.sampled_from([0, 1, 7]), st.sampled_from([-1, 0, 1, 2, 4, 7, 11, 30]), st.sampled_from([0, 1, 20, 60, 1000])),
            min_size=1,
            max_size=3,
        ),
        "max_bytes": st.sampled_from([0, 30, 100, 1000]),
        "max_batches": st.sampled_from([0, 0, 1, 2]),
    }
)
waits = st.fixed_dictionaries({"op": st.just("wait"), "ms": st.sampled_from([1, 700, -50, 1_000_000, 1_800_001])})
partly = st.fixed_dictionaries({"op": st.just("arrive"), "land": st.integers(0, 2), "report": st.integers(0, 2), "read": st.integers(0, 3)})
steps = st.lists(st.one_of(commits, commits, commits, deletes, lists, finds, waits, partly), min_size=8, max_size=40)


class Run:
    """One random run: every request goes to the replica and to the model, answers are compared when they come."""

    def __init__(self) -> None:
        self.world, self.replica = leading()
        self.replica.ask(place(OTHER_TOPIC, 1, name="payments"))
        self.model = Model()
        self.model.create(TOPIC, 2)
        self.model.create(OTHER_TOPIC, 1)
        self.sent: list[ModelRequest] = []
        self.planned: dict[object, int] = {}
        """Last sequence of a (topic, partition, producer) in the file that is being made."""
        self.expected: dict[int, tuple[Callable[[Answer], object], object]] = {}

    def send(self, command: Command, read: Callable[[Answer], object], expected: object) -> None:
        [token] = self.replica.submit(command)
        self.expected[token] = (read, expected)

    def settle(self) -> None:
        self.world.settle()
        for token, (read, expected) in self.expected.items():
            answer = read(self.replica.answers[token])
            assert answer == expected, (self.replica.requests[token], answer, expected)
        self.expected.clear()

    def step(self, step: dict[str, object]) -> None:
        match step["op"]:
            case "commit":
                self.commit(step)
            case "delete":
                points: list[tuple[int, int]] = step["points"]  # type: ignore[assignment]
                self.send(delete_records(*points), _deleted, [self.model.delete_records((TOPIC, p), o) for p, o in points])
            case "list":
                queries: list[tuple[int, int]] = step["queries"]  # type: ignore[assignment]
                self.send(list_offsets(*queries), _offsets, [self.model.list_offset((TOPIC, p), t) for p, t in queries])
            case "find":
                self.settle()
                self.find(step)
            case "wait":
                self.settle()
                self.world.now_ms += step["ms"]  # type: ignore[operator]
            case "arrive":
                land, report, read = (int(str(step[name])) for name in ("land", "report", "read"))
                self.replica.land(min(land, len(self.replica.outbox)))
                self.replica.report(min(report, len(self.replica.reports)))
                self.replica.read(read)

    def commit(self, step: dict[str, object]) -> None:
        request = self.request(step)
        self.sent.append(request)
        wire = [{name: value for name, value in row.items() if name not in ("topic", "partition")} for row in request.rows]
        command = commit(request.key, wire, owner_ids=request.owners, file_size=request.file_size, created_ms=request.created_ms)
        self.send(command, _elements, self.model.commit(request, self.world.now_ms))

    def request(self, step: dict[str, object]) -> ModelRequest:
        kind = step["key"]
        if kind != "new" and self.sent:
            old = self.sent[int(str(step["which"])) % len(self.sent)]
            changed: list[Row] = [dict(row) for row in old.rows]
            if kind == "renumbered":
                changed = [{**row, "request_id": 77} for row in changed]
            if kind == "other" and changed:
                changed[-1]["max_timestamp"] = 123456
            return ModelRequest(old.key, changed, old.owners, old.object_format, old.file_size, old.created_ms)
        drawn: list[dict[str, object]] = step["rows"]  # type: ignore[assignment]
        made: list[Row] = []
        self.planned = {}
        end = 0
        for row in drawn:
            made.append(self.row(row, end, step["flaw"] if row is drawn[-1] else None))
            end = int(str(made[-1]["byte_offset"])) + int(str(made[-1]["size"]))
        if step["shuffle"]:
            made.reverse()
        flaw = step["flaw"]
        age = 900_001 if flaw == "old" else step["age"]
        created_ms = -1 if age is None else self.world.now_ms - int(str(age))
        owners = flaw if isinstance(flaw, list) else [0]
        return ModelRequest(f"file-{len(self.sent)}", made, owners, 1, 1000, created_ms)

    def row(self, drawn: dict[str, object], end: int, flaw: object) -> Row:
        count = int(str(drawn["count"]))
        place: tuple[bytes, int] = drawn["place"]  # type: ignore[assignment]
        topic, partition = MISSING[count % 2] if flaw == "missing" else place
        row = batch(partition, count, topic_id=topic, byte_offset=end + int(str(drawn["gap"])))
        row |= {name: drawn[name] for name in ("size", "max_timestamp", "timestamp_type")}
        if drawn["producer"] is not None:
            first = self.sequence(topic, partition, drawn)
            row |= {"producer_id": drawn["producer"], "producer_epoch": drawn["epoch"], "base_sequence": first}
            row["last_sequence"] = (first + count - 1 + (flaw == "sequences")) & MASK
            self.planned[topic, partition, drawn["producer"]] = (first + count - 1) & MASK
        flaws: dict[object, Row] = {
            "magic": {"magic": 1},
            "size": {"size": 0},
            "overlap": {"byte_offset": max(end - 1, 0)},
            "outside": {"byte_offset": 995, "size": 10},
            "type": {"timestamp_type": 2},
            "timestamp": {"max_timestamp": -2},
            "span": {"last_offset": -1},
            "base": {"base_offset": -4, "last_offset": -3},
        }
        return {**row, **flaws.get(flaw if isinstance(flaw, str) else "", {}), "topic": topic, "partition": partition}

    def sequence(self, topic: bytes, partition: int, drawn: dict[str, object]) -> int:
        """A sequence that means something to what the producer wrote so far; a new one starts just before the wrap, as it may mostly."""
        producer = self.model.partitions.get((topic, partition), self.model.partitions[TOPIC, 0]).producers.get(int(str(drawn["producer"])))
        if drawn["sequence"] == "zero":
            return 0
        planned = self.planned.get((topic, partition, drawn["producer"]))
        if planned is not None and drawn["sequence"] == "next":
            return (planned + 1) & MASK
        if producer is None:
            return MASK - 2
        written = producer.batches
        by_kind = {
            "next": (written[-1][1] + 1) & MASK,
            "again": written[-1][0],
            "older": written[0][0],
            "last": written[-1][1],
            "gap": (written[-1][1] + 3) & MASK,
        }
        return by_kind[str(drawn["sequence"])]

    def find(self, step: dict[str, object]) -> None:
        points: list[tuple[int, int, int]] = step["points"]  # type: ignore[assignment]
        max_bytes, max_batches = int(str(step["max_bytes"])), int(str(step["max_batches"]))
        answers = find(self.replica.view.state, points, max_bytes=max_bytes, max_batches=max_batches)
        expected = self.model.find([((TOPIC, p), o, b) for p, o, b in points], max_bytes, max_batches)
        got = [None if a is None else (int(a.outcome.error), a.log_start, a.high_watermark, list(map(_found, a.batches))) for a in answers]
        wanted = [None if e is None else (*e[:3], list(map(_modelled, e[3]))) for e in expected]
        assert got == wanted

    def check_end(self) -> None:
        self.settle()
        shard = self.replica.view
        assert shard.overlay is not None
        assert view_of(shard.overlay) == view_of(shard.state.hot)
        self.check_state()
        self.check_log()
        assert state_of(straight_replay(self.world).view.state) == state_of(shard.state)

    def check_state(self) -> None:
        view = state_of(self.replica.view.state)
        partitions, producers, batches = view["partitions"], view["producers"], view["batches"]
        assert isinstance(partitions, dict)
        assert isinstance(producers, dict)
        assert isinstance(batches, dict)
        for (topic, partition), expected in self.model.partitions.items():
            key = topic + partition.to_bytes(4, "big")
            assert partitions[key] == (expected.high_watermark, expected.log_start)
            live = [row for row in batches[key] if row[0] + row[1] > expected.log_start]
            assert [(row[0], row[0] + row[1] - 1) for row in live] == [(b.base, b.last) for b in expected.batches]
            known = {pid: (of[0], of[2][::-1]) for (where, pid), of in producers.items() if where == key}
            assert known == {pid: (p.epoch, p.batches) for pid, p in expected.producers.items()}

    def check_log(self) -> None:
        """What the log says of each file is exactly what its first commit was answered."""
        for _, value in self.world.log:
            for record in decode_entry(value or b""):
                if isinstance(record, FileCommitted):
                    assert (
                        _elements(logged_result(table_of([record]), 0, self.replica.view.state.hot))
                        == self.model.files[record.object_key].answer
                    )


def straight_replay(world: World) -> HarnessReplica:
    """A new replica that has read the whole log in one go."""
    replica = HarnessReplica(World(log=world.log), 99, world.replicas[0].limits, 0, 4)
    replica.read()
    return replica


def _found(b: FoundBatch) -> tuple[object, ...]:
    return (b.object_key, b.byte_offset, b.byte_size, b.base_offset, b.last_offset, b.append_time_ms, b.max_timestamp_ms, b.timestamp_type)


def _modelled(b: ModelBatch) -> tuple[object, ...]:
    return (b.key, b.byte_offset, b.size, b.base, b.last, b.append_ms, b.max_timestamp, int(b.is_append_time))


def _elements(answer: Answer) -> object:
    assert isinstance(answer, CommitResult)
    columns = (answer.errors, answer.base_offsets, answer.append_times, answer.log_starts, answer.duplicates)
    assert [bool(error) for error in answer.errors] == [message is not None for message in answer.messages]
    return list(zip(*columns, strict=True))


def _deleted(answer: Answer) -> object:
    assert isinstance(answer, list)
    return [(int(e.outcome.error), e.low_watermark) for e in answer if isinstance(e, DeletedTo)]


def _offsets(answer: Answer) -> object:
    assert isinstance(answer, list)
    return [(int(e.outcome.error), e.timestamp, e.offset) for e in answer if isinstance(e, FoundOffset)]


SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def check_run(taken: list[dict[str, object]]) -> None:
    run = Run()
    for step in taken:
        run.step(step)
    run.check_end()


@SETTINGS
@given(steps)
def test_a_leader_answers_and_ends_up_as_the_oracle_does(taken: list[dict[str, object]]) -> None:
    check_run(taken)
