"""Writes a run down: `report.md` for people, `report.json` for programs. Says nothing that is not in the result."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, Final

from integration_tests.faults.actions import ACTIONS
from integration_tests.faults.client_history import ClientHistory, Consumed
from integration_tests.faults.figures import (
    LATE_S,
    Outage,
    Outages,
    Spread,
    answer_times,
    answers_by_code,
    client_times,
    file_times,
    is_hit,
    late_answers,
    spread,
)
from integration_tests.faults.nemesis import Done
from integration_tests.faults.run import Result
from integration_tests.metadata_log import read_log
from integration_tests.watched import COMMIT_TIMEOUT_S

SHOWN: Final = 50


def write_report(result: Result) -> None:
    """Write both files into the run's folder."""
    numbers = summary(result)
    (result.settings.folder / "report.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    (result.settings.folder / "report.md").write_text("\n".join(_lines(result, numbers)) + "\n", encoding="utf-8")


def summary(result: Result) -> dict[str, Any]:
    """Everything in numbers, ready for JSON; times in seconds since the start of the run."""
    outages = Outages(answer_times(result.history) if result.clients is None else client_times(result.clients))
    faults = [(fault, outages.within(fault.begun_s, fault.over_s or fault.flowing_s or fault.begun_s)) for fault in result.faults]
    return {
        "violations": result.violations,
        "broken_off": result.broken_off,
        "seed": result.settings.seed,
        "minutes": result.settings.minutes,
        "quick_brokers": result.settings.quick_brokers,
        "actions": list(result.settings.actions),
        "missing": list(result.machine.missing),
        "load_s": round(max(0.0, result.load_until_s - result.load_from_s), 1),
        **(_commit_figures(result) if result.clients is None else _client_figures(result.clients)),
        "faults": [_fault(result, fault, outage) for fault, outage in faults],
        "outages": {name: _outages(found) for name, found in outages.by_action(result.faults).items()},
        "unusual_log_lines": result.unusual_log_lines,
    }


def _commit_figures(result: Result) -> dict[str, Any]:
    history = result.history
    times = file_times(history)
    quiet = [took for sent_s, took in times if not any(one.begun_s - 1 < sent_s < (one.flowing_s or 1e18) for one in result.faults)]
    logs = {} if result.final is None else {c: read_log(log) for c, log in result.final.logs.items()}
    return {
        "files": len(history.files),
        "attempts": len(history.attempts),
        "acknowledged_batches": sum(1 for _ in history.acknowledgements()),
        "strict_reads": len(history.reads) + len(history.start_reads),
        "finds": len(history.finds),
        "deletions": len(history.deletions),
        "descriptions": len(history.descriptions),
        "answers": answers_by_code(history, 0, float("inf")),
        "late_answers": len(late := late_answers(history)),
        "late_answers_of_nodes_not_hit": [
            f"c{one.node_id} after {one.answered_s - one.invoked_s:.1f} s, asked at {one.invoked_s - result.start_s:.1f}"
            for one in late
            if not is_hit(one, result.faults)
        ],
        "file_s": _spread(spread(took for _, took in times)),
        "file_without_faults_s": _spread(spread(quiet)),
        "void_entries": {c: len(log.voids) for c, log in logs.items()},
        "contradictions": {c: len(log.contradictions) for c, log in logs.items()},
        "claims": {c: len(log.claims) for c, log in logs.items()},
    }


def _client_figures(history: ClientHistory) -> dict[str, Any]:
    return {
        "records_acknowledged": {one.name: len(one.acknowledged) for one in history.writers.values()},
        "records_given": {group: len(places) for group, places in history.given.items()},
        "records_given_again": {
            group: sum(isinstance(step, Consumed) for one in history.members.values() if one.group == group for step in one.steps)
            - len(places)
            for group, places in history.given.items()
        },
        "records_stored": len(history.stored),
        "members_not_committed": dict(Counter(text for one in history.members.values() for text in one.not_committed)),
    }


def _spread(found: Spread | None) -> dict[str, float] | None:
    return None if found is None else {key: round(value, 4) for key, value in asdict(found).items()}


def _fault(result: Result, fault: Done, outage: Outage) -> dict[str, Any]:
    def since(moment_s: float | None) -> float | None:
        return round(moment_s - result.start_s, 2) if moment_s else None

    return {
        "action": fault.action,
        "target": fault.target,
        "round": fault.round_number,
        "alone": fault.alone,
        "begun_s": since(fault.begun_s),
        "healed_s": since(fault.healed_s),
        "flowing_s": since(fault.flowing_s),
        "shared_s": since(fault.shared_s),
        "outage_most_s": round(outage.most_s, 2),
        "outage_median_s": round(outage.median_s, 2),
        "coordinators_hit": outage.coordinators_hit,
        "answers": answers_by_code(result.history, fault.begun_s, fault.over_s or float("inf")),
        "details": fault.details,
    }


def _outages(found: Sequence[tuple[Done, Outage]]) -> dict[str, Any]:
    alone = [(fault, outage) for fault, outage in found if fault.alone]
    used = alone or found
    return {
        "times": len(found),
        "alone": len(alone),
        "outage_p50_s": round(median(outage.most_s for _, outage in used), 2),
        "outage_most_s": round(max(outage.most_s for _, outage in used), 2),
        "after_healing_most_s": round(max(fault.flowing_s - fault.healed_s for fault, _ in used), 2),
        "coordinators_hit_most": max(outage.coordinators_hit for _, outage in used),
    }


def _lines(result: Result, numbers: Mapping[str, Any]) -> Iterator[str]:
    verdict = "no violation" if not result.violations else f"**{len(result.violations)} violations**"
    asked = "every action once" if numbers["minutes"] is None else f"{numbers['minutes']:g} minutes"
    yield f"# Run under faults: {verdict}"
    yield ""
    brokers = (
        "brokers that miss each other quickly (3 s, replicas 6 s)"
        if numbers["quick_brokers"]
        else "Kafka's own timeouts (9 s, replicas 30 s)"
    )
    yield f"Seed {numbers['seed']}, {asked}; {brokers}; a node's session is 6 s."
    also = "twelve user partitions" if result.clients is None else "three gateways in two zones, a topic of six partitions"
    yield f"Three brokers (replication factor 3, min.insync.replicas 2), three nodes, six coordinators, {also}."
    for text in numbers["missing"]:
        yield f"Not possible here: {text}."
    yield ""
    if result.broken_off is not None:
        yield f"**Broken off:** {result.broken_off}"
        yield ""
    if result.violations:
        yield "## Violations"
        yield ""
        for text in result.violations[:SHOWN]:
            yield f"- {text}"
        yield ""
    yield "## What the clients did and saw"
    yield ""
    yield from _commit_lines(numbers) if result.clients is None else _client_lines(numbers)
    yield ""
    yield from _outage_lines(numbers)
    yield from _time_line(numbers)
    if result.unusual_log_lines:
        yield "## Unusual lines in the nodes' logs"
        yield ""
        yield "```"
        yield from result.unusual_log_lines[:SHOWN]
        yield "```"


def _commit_lines(numbers: Mapping[str, Any]) -> Iterator[str]:
    done = f"{numbers['files']} files in {numbers['attempts']} attempts, {numbers['acknowledged_batches']} batches acknowledged"
    read = f"{numbers['strict_reads']} strict reads, {numbers['finds']} finds, {numbers['deletions']} deletions"
    read += f", {numbers['descriptions']} files described"
    yield f"In {numbers['load_s']} s of load: {done}; {read}."
    yield f"Answers to batches: {', '.join(f'{name} {count}' for name, count in numbers['answers'].items())}."
    without_cause = numbers["late_answers_of_nodes_not_hit"]
    late = f"Answers later than TimeoutMs ({COMMIT_TIMEOUT_S:g} s) and {LATE_S:g} s of grace: {numbers['late_answers']}"
    yield f"{late}, of nodes that no fault had hit: {'; '.join(without_cause[:SHOWN]) or 'none'}."
    voids = f"void entries: {numbers['void_entries']}, of them contradictions: {numbers['contradictions']}"
    yield f"Claims by coordinator: {numbers['claims']}; {voids}."
    yield ""
    yield "| from first sending to the last final answer of a file, s | count | p50 | p99 | most |"
    yield "|---|---|---|---|---|"
    for name, key in (("all", "file_s"), ("sent between rounds, when commits flowed again", "file_without_faults_s")):
        if numbers[key] is not None:
            found = numbers[key]
            yield f"| {name} | {found['count']} | {found['p50']:.3f} | {found['p99']:.3f} | {found['most']:.3f} |"


def _client_lines(numbers: Mapping[str, Any]) -> Iterator[str]:
    yield f"In {numbers['load_s']} s of load {numbers['records_stored']} records were stored."
    yield f"Acknowledged by writer: {numbers['records_acknowledged']}."
    yield f"Given to groups: {numbers['records_given']}, and once more after a rebalance: {numbers['records_given_again']}."
    yield f"Commits that members were refused: {numbers['members_not_committed'] or 'none'}."


def _outage_lines(numbers: Mapping[str, Any]) -> Iterator[str]:
    yield "## How long faults kept clients waiting"
    yield ""
    whom = "coordinator" if "files" in numbers else "writer, or without a record of the group,"
    yield f"The longest time without an acknowledgement of the {whom} hit worst, from the fault's beginning until its round was over."
    yield "Faults that were alone in their round count; where there were none, those in company."
    yield ""
    yield "| fault | what | times (alone) | p50 s | most s | after healing, most s | hit for 1 s |"
    yield "|---|---|---|---|---|---|---|"
    for name, found in numbers["outages"].items():
        times = f"{found['times']} ({found['alone']})"
        figures = f"{found['outage_p50_s']:.2f} | {found['outage_most_s']:.2f} | {found['after_healing_most_s']:.2f}"
        yield f"| {name} | {ACTIONS[name].text} | {times} | {figures} | {found['coordinators_hit_most']} |"
    yield ""


def _time_line(numbers: Mapping[str, Any]) -> Iterator[str]:
    yield "## Time line"
    yield ""
    yield "| round | fault | begun s | healed s | flowing s | all lead again s | outage s | details |"
    yield "|---|---|---|---|---|---|---|---|"
    for fault in numbers["faults"]:
        moments = " | ".join("-" if fault[key] is None else f"{fault[key]:.1f}" for key in ("begun_s", "healed_s", "flowing_s", "shared_s"))
        details = "; ".join(fault["details"])
        yield f"| {fault['round']} | {fault['action']} {fault['target']} | {moments} | {fault['outage_most_s']:.2f} | {details} |"
    yield ""
