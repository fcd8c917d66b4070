"""Scenarios of leadership as text: what happens to replicas, and below it what they do about it.

A file begins with comments that say what it shows. Then come blocks, separated by empty lines: steps, a line `----`, and what the steps
led to. A step is `NAME VERB [WORDS]`, where a name stands for a replica (`STEPS`), for the `log` (`LOG_STEPS`), for `all` replicas, to
which everything under way arrives, or for the `orphans`: entries of producers whose terms are over, which land late. The first block names
the replicas; their node ids count from 0. `python -m tests.core.scenario_text --rewrite` writes anew what the steps lead to: `git diff`
then shows what changed.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import assert_never

from coordinator.core.commands import (
    Answer,
    Barrier,
    Command,
    CommitFile,
    CommitResult,
    DeleteRecords,
    FoundOffset,
    Outcome,
    PlacePartitions,
)
from coordinator.core.events import (
    Accused,
    Append,
    Assigned,
    Closing,
    Contradicted,
    Delivered,
    Delivery,
    DirectoryChanged,
    Effect,
    EndTerm,
    Event,
    Follow,
    Invalidated,
    OpenTerm,
    ProduceFailed,
    Recover,
    SchemaLevel,
    StateChanged,
    Stopping,
    Unassigned,
)
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ContradictoryEntry
from coordinator.core.request import Reply
from coordinator.kafka.errors import ErrorCode
from records.codec import decode_entry, encode_entry
from records.committed_files.codec import FileCommitted
from records.entry_key import EntryKey, decode_key, encode_key
from records.model import LeadershipClaimed, Record, RecordsDeleted, TransactionBegan
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import TOPIC, batch, commit, delete_records, list_offsets, place

FOLDER = Path(__file__).with_name("leadership_scenarios")
RULE = "----"


class BadScenario(Exception):
    """A file is no scenario; the text says where and why."""


class Play:
    """A world with named replicas; `run` performs one step and tells what it led to."""

    def __init__(self) -> None:
        self.world = World()
        self.moves: set[tuple[State, State]] = set()
        """The changes of state that took place."""
        self._replicas: dict[str, HarnessReplica] = {}
        self._told: dict[str, int] = {}
        self._log_told = 0
        self._lines: list[str] = []

    def run(self, step: str) -> list[str]:
        """Perform a step and describe what it led to, in order. Raises `BadScenario`."""
        name, *words = shlex.split(step)
        try:
            self._perform(name, words)
        except (IndexError, KeyError, TypeError, ValueError) as fault:
            raise BadScenario(f"step {step!r}: {fault!r}") from fault
        self._tell()
        lines, self._lines = self._lines, []
        return lines

    def _perform(self, name: str, words: Sequence[str]) -> None:
        match name:
            case "replicas":
                for one in words:
                    self._add(one, self.world.add_replica(limits=Limits(entry_bytes_max=160)))
            case "log":
                LOG_STEPS[words[0]](self.world, *words[1:])
                self._log_told = min(self._log_told, len(self.world.log))
            case "orphans":
                self._land_orphans()
            case "all":
                self._settle()
            case _:
                replica = self._replicas[name]
                if words[0] in ("reload", "rebuild"):
                    self._replace(name, replica, is_kept=words[0] == "reload")
                elif words[0] == "leads":
                    self._lead(replica, *map(int, words[1:]))
                elif words[0] != "state":
                    STEPS[words[0]](replica, *words[1:])
                if words[0] in ("leads", "state"):
                    self._lines.append(f"{name}: {_state_text(replica)}")

    def _settle(self) -> None:
        """Let everything under way arrive, replica by replica."""
        is_done = False
        while not is_done:
            is_done = True
            for replica in self._replicas.values():
                for is_due, step in (
                    (bool(replica.outbox), replica.land),
                    (bool(replica.outbox or replica.reports), replica.report),
                    (replica.cursor < len(self.world.log), replica.read),
                    (replica.recover is not None, replica.may_claim),
                ):
                    if is_due and replica.view.phase is not State.FAILED:
                        is_done = False
                        step()
                        self._tell()

    def _add(self, name: str, replica: HarnessReplica) -> None:
        self._replicas[name], self._told[name] = replica, 0

    def _replace(self, name: str, old: HarnessReplica, *, is_kept: bool) -> None:
        """A new replica with the old one's state database, or with none."""
        new = HarnessReplica(self.world, old.node_id, old.limits, 0, 4, loaded_from=old.view if is_kept else None)
        self.world.replicas[self.world.replicas.index(old)] = new
        self._add(name, new)

    def _lead(self, replica: HarnessReplica, partitions: int = 2, records: int = 0) -> None:
        """Make a replica the leader of a topic whose partitions have so many records, without telling how."""
        replica.lead()
        replica.ask(place(count=partitions))
        if records:
            replica.ask(*(commit(f"first-{partition}", [batch(partition, records)]) for partition in range(partitions)))
        self._tell()
        self._lines.clear()

    def _land_orphans(self) -> None:
        for entries in self.world.orphans:
            while entries:
                entry = entries.popleft()
                self.world.append(entry.key, entry.value)

    def _tell(self) -> None:
        """Describe what is new: messages in the log, then effects."""
        log = self.world.log
        self._lines += [f"log {offset}: {_entry_text(*log[offset])}" for offset in range(self._log_told, len(log))]
        self._log_told = len(log)
        for name, replica in self._replicas.items():
            new = replica.effects[self._told[name] :]
            self._told[name] = len(replica.effects)
            self.moves.update((effect.before, effect.after) for effect in new if isinstance(effect, StateChanged))
            self._lines += [f"{name}: {line}" for effect in new for line in _effect_lines(replica, effect)]


# ---- steps


def _events(event: Callable[..., Event]) -> Callable[..., None]:
    return lambda replica, *words: replica.feed(event(*words)) and None


def _submit(replica: HarnessReplica, command: Command, *timeout_ms: str) -> None:
    replica.submit(command, timeout_ms=int(timeout_ms[0]) if timeout_ms else 10_000)


def _report(replica: HarnessReplica, *words: str) -> None:
    """Hand over the reports that are due; with words, one that says this instead: `seq=2 offset=5` or `seq=2 error=...`."""
    if not words:
        replica.report()
        return
    says = dict(word.split("=", 1) for word in words)
    offset = int(says["offset"]) if "offset" in says else None
    replica.feed(Delivered(_term_of(replica), [Delivery(int(says["seq"]), offset, says.get("error"))]))


def _term_of(replica: HarnessReplica) -> int:
    if replica.term_id is None:
        raise ValueError("no term is open")
    return replica.term_id


def _accuse(replica: HarnessReplica, offset: str, reason: str) -> None:
    fence = replica.view.fence
    replica.feed(Accused(contradiction=ContradictoryEntry(int(offset), fence.epoch, fence.term, reason), accuser_id=1))


def _delete_all(replica: HarnessReplica, partitions: str, offset: str) -> None:
    _submit(replica, delete_records(*((partition, int(offset)) for partition in range(int(partitions)))))


STEPS: Mapping[str, Callable[..., None]] = {
    "assigned": _events(Assigned),
    "unassigned": _events(Unassigned),
    "stopping": _events(Stopping),
    "closing": _events(Closing),
    "invalidated": _events(Invalidated),
    "level": _events(lambda level: SchemaLevel(int(level))),
    "may-claim": lambda replica: replica.may_claim(),
    "produce-failed": lambda replica, reason: replica.feed(ProduceFailed(_term_of(replica), reason)) and None,
    "accused": _accuse,
    "lands": lambda replica, *count: replica.land(*map(int, count)),
    "report": _report,
    "reads": lambda replica, *count: replica.read(*map(int, count)),
    "tick": lambda replica, passed_ms: replica.tick(int(passed_ms)),
    "commit": lambda replica, key, count, *timeout: _submit(replica, commit(key, [batch(0, int(count))]), *timeout),
    "create": lambda replica, partitions: _submit(replica, place(count=int(partitions))),
    "barrier": lambda replica: _submit(replica, Barrier()),
    "ask-end": lambda replica: _submit(replica, list_offsets((0, -1))),
    "delete": _delete_all,
}


def _claim(world: World, epoch: str, term: str, node: str) -> None:
    record = LeadershipClaimed(epoch=int(epoch), term=int(term), node_id=int(node), rack="", endpoints=[])
    world.append(encode_key(EntryKey(int(epoch), int(term), 0)), encode_entry([record]))


def _write_deletion(world: World, epoch: str, term: str, seq: str, offset: str) -> None:
    record = RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=int(offset))
    world.append(encode_key(EntryKey(int(epoch), int(term), int(seq))), encode_entry([record]))


LOG_STEPS: Mapping[str, Callable[..., None]] = {
    "claim": _claim,
    "deletion": _write_deletion,
    "stranger": lambda world: world.append(None, b"?") and None,
    "loses": lambda world: world.log.pop() and None,
}


# ---- texts


def _state_text(replica: HarnessReplica) -> str:
    view = replica.view
    fence = view.fence
    text = f"{view.phase.value}, epoch {fence.epoch} term {fence.term} seq {fence.seq}, applied up to {view.applied_offset}"
    if view.void_entries:
        text += f", void: {', '.join(f'{count} {why}' for why, count in sorted(view.void_entries.items()))}"
    return text


def _entry_text(key: bytes | None, value: bytes | None) -> str:
    if (read := decode_key(key)) is None:
        return "a message that is no entry"
    records = ", ".join(map(_record_text, decode_entry(value or b"")))
    return f"epoch {read.epoch} term {read.term} seq {read.seq}: {records}"


def _record_text(record: Record) -> str:
    match record:
        case LeadershipClaimed():
            return f"LeadershipClaimed by node {record.node_id}"
        case FileCommitted():
            return f"FileCommitted {record.object_key}"
        case RecordsDeleted():
            return f"RecordsDeleted {record.partition} to {record.new_log_start_offset}"
        case TransactionBegan():
            return f"TransactionBegan of {record.num_chunks}"
        case _:
            return type(record).__name__


def _effect_lines(replica: HarnessReplica, effect: Effect) -> list[str]:
    match effect:
        case Reply():
            command, answer = replica.requests[int(str(effect.token))], replica.answers[int(str(effect.token))]
            return [f"answers {_command_text(command)}: {_answer_text(answer)}"]
        case OpenTerm():
            return [f"opens term {effect.term_id}, produces {_entry_text(effect.claim.key, effect.claim.value)}"]
        case Append():
            return [f"produces {_entry_text(entry.key, entry.value)}" for entry in effect.entries]
        case EndTerm():
            return [f"ends term {effect.term_id}: {effect.reason}"]
        case Follow():
            return [f"reads again from {effect.next_offset}"]
        case Recover():
            return [f"asks where the log ends{' and for a new proof of membership' if effect.prove else ''}"]
        case StateChanged():
            return [f"{effect.before.value} -> {effect.after.value}: {effect.reason}"]
        case DirectoryChanged():
            return []
        case Contradicted():
            verdict = "void" if effect.is_certain else "void, or this state is wrong"
            return [f"entry {effect.entry.offset} is {verdict}: {effect.entry.reason}"]
        case _:
            assert_never(effect)


def _command_text(command: Command) -> str:
    match command:
        case CommitFile():
            return f"commit {command.object_key}"
        case Barrier():
            return "barrier"
        case DeleteRecords():
            return f"delete in {len(command.points)} partitions"
        case PlacePartitions():
            return "create"
        case _:
            return "ask-end"


def _answer_text(answer: Answer) -> str:
    match answer:
        case CommitResult():
            [error], [message], [offset] = answer.errors, answer.messages, answer.base_offsets
            return _outcome_text(Outcome(error=ErrorCode(error), message=message)) if error else f"base offset {offset}"
        case Outcome():
            return _outcome_text(answer)
        case [FoundOffset() as found]:
            return f"offset {found.offset}" if found.outcome.error == ErrorCode.NONE else _outcome_text(found.outcome)
        case [first, *_] if isinstance(outcome := getattr(first, "outcome", first), Outcome):
            return _outcome_text(outcome)
        case _:
            raise BadScenario(f"no text for the answer {answer}")


def _outcome_text(outcome: Outcome) -> str:
    return outcome.error.name + (f" ({outcome.message})" if outcome.message else "")


# ---- files


def play(text: str) -> tuple[str, Play]:
    """Run a scenario; returns its text with what the steps led to, and the world that is left. Raises `BadScenario`."""
    world = Play()
    blocks: list[str] = []
    for block in re.split(r"\n{2,}", text.strip()):
        steps = block.split(f"\n{RULE}")[0]
        if not steps.startswith("#"):
            led_to = [line for step in steps.splitlines() for line in world.run(step)]
            if not steps.startswith("replicas "):
                steps = "\n".join([steps, RULE, *(led_to or ["nothing happens"])])
        blocks.append(steps)
    return "\n\n".join(blocks) + "\n", world


def files() -> list[Path]:
    """The scenarios."""
    return sorted(FOLDER.glob("*.txt"))


def main() -> int:
    """Print the names of scenarios whose steps lead to something else than their files say; with `--rewrite` write them anew."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rewrite", action="store_true", help="write what the steps lead to")
    arguments = parser.parse_args()
    differ = 0
    for path in files():
        before = path.read_text()
        after, _ = play(before)
        if after != before:
            differ += 1
            print(path)
            if arguments.rewrite:
                path.write_text(after)
    return 0 if arguments.rewrite else min(differ, 1)


if __name__ == "__main__":
    sys.exit(main())
