"""The conclusions of `diskless doctor` about nodes: which stay out of leadership, whose clocks are off, which ids are doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cli.doctor.diagnosis import Diagnosis, Health
from cli.looks.service import NodeView
from coordinator.core.assignor.member import standbys_of
from coordinator.core.drains import drain_text
from coordinator.core.leadership.clock_votes import Comparison, judge, tell_distance

HERE = "this machine"


def diagnose_withheld(views: Sequence[NodeView]) -> list[Diagnosis]:
    """Nodes that stay out of leadership, with their reasons."""
    return [
        Diagnosis(
            health=Health.ERROR,
            check="nodes",
            finding=f"node {view.node.node_id} stays out of leadership: {view.withheld}",
            remedy="remove the cause; it comes back by itself, and until then there is one standby less",
        )
        for view in views
        if view.withheld
    ]


def diagnose_drains(views: Sequence[NodeView]) -> list[Diagnosis]:
    """Nodes that give up what they lead because an operator wants it."""
    return [
        Diagnosis(
            health=Health.WARNING,
            check="nodes",
            finding=f"node {view.node.node_id} drains {drain_text(view.node.drain)}: it gives up what it leads, and stands by only where"
            " other nodes are too few",
            remedy=f"`diskless coordinator undrain {view.node.node_id}` when its work is done",
        )
        for view in views
        if view.node.drain
    ]


def diagnose_placement(views: Sequence[NodeView], coordinators: int) -> list[Diagnosis]:
    """Nodes that place by different settings, more standbys than there are nodes, and reservations for coordinators that do not exist."""
    by_rules: dict[str, list[str]] = {}
    for view in views:
        if not view.error:
            by_rules.setdefault(view.placement_rules, []).append(str(view.node.node_id))
    found = []
    if len(by_rules) > 1:
        differing = "; ".join(f"{rules} at {', '.join(nodes)}" for rules, nodes in sorted(by_rules.items()))
        remedy = "give all nodes the same; until then the settings of the process that started last count for all"
        found.append(Diagnosis(health=Health.WARNING, check="placement", finding=f"nodes differ: {differing}", remedy=remedy))
    wanted = max((standbys_of(rules) or 0 for rules in by_rules), default=0)
    if wanted > max(1, len(views) - 1):
        finding = f"standby.replicas is {wanted}, and with {len(views)} nodes a coordinator has {len(views) - 1} standbys at most"
        remedy = "start more nodes, or lower standby.replicas; until then every node follows every coordinator"
        found.append(Diagnosis(health=Health.WARNING, check="placement", finding=finding, remedy=remedy))
    for view in views:
        if missing := [str(one) for one in view.reserved_ids if one >= coordinators > 0]:
            finding = f"node {view.node.node_id} is reserved for coordinator {', '.join(missing)}; there are {coordinators}, from 0 on"
            remedy = "correct node.coordinators there, or add coordinators (`diskless coordinator grow`)"
            found.append(Diagnosis(health=Health.WARNING, check="placement", finding=finding, remedy=remedy))
    return found or [Diagnosis(health=Health.OK, check="placement", finding="all nodes place leaders and standbys by the same settings")]


def diagnose_stores(views: Sequence[NodeView]) -> list[Diagnosis]:
    """Nodes whose object store cannot be taken for that of the service."""
    remedy = "without the store of the service it deletes no objects, and its snapshots are read by no other node"
    return [
        Diagnosis(health=Health.ERROR, check="object store", finding=f"node {view.node.node_id}: {view.store_problem}", remedy=remedy)
        for view in views
        if view.store_problem
    ]


def diagnose_doubled_ids(views: Sequence[NodeView], strangers: Sequence[tuple[str, int, bytes]]) -> list[Diagnosis]:
    """Two processes with one node id, and nodes whose process is not registered yet.

    `strangers`: address, node id and incarnation of processes that no registered address leads to.
    """
    known = {view.node.node_id: view for view in views if not view.error}
    replaced = [_replaced(view) for view in known.values() if view.registered_id not in (b"", view.incarnation_id)]
    return replaced + [
        _doubled(node_id, address, f"that at {known[node_id].node.host}:{known[node_id].node.port}")
        for address, node_id, incarnation_id in strangers
        if node_id in known and known[node_id].incarnation_id != incarnation_id
    ]


def _replaced(view: NodeView) -> Diagnosis:
    """The finding for a node whose process is not the one that is registered."""
    node_id, address = view.node.node_id, f"{view.node.host}:{view.node.port}"
    if view.registered_address != address:
        return _doubled(node_id, address, "a process elsewhere, which is registered,")
    # Two processes cannot both listen there: the one that is registered was this one's predecessor, and has ended.
    return Diagnosis(
        health=Health.WARNING,
        check="nodes",
        finding=f"node {node_id} has not registered since it started (partition 0 has no leader, or {node_id} cannot reach it)",
        remedy="see what is said of coordinator 0, and the node's log; it registers by itself once the leader answers it",
    )


def _doubled(node_id: int, address: str, other: str) -> Diagnosis:
    return Diagnosis(
        health=Health.ERROR,
        check="nodes",
        finding=f"two processes have node.id {node_id}: the one at {address} and {other}",
        remedy="give one of them another node.id and data.dirs of its own, and start it again",
    )


def diagnose_node_clocks(views: Sequence[NodeView], skew_max_ms: int) -> list[Diagnosis]:
    """Nodes whose clocks differ from those of the others and of this machine."""
    answered = [view for view in views if not view.error]
    # How far each clock is ahead of this machine's: between the two numbers, for an answer takes its time.
    ahead = {f"node {view.node.node_id}": view.ahead_ms for view in answered} | {HERE: (0.0, 0.0)}
    found, are_far = [], False
    for name, (low_ms, high_ms) in ahead.items():
        others = [Comparison(other, low_ms - top, high_ms - bottom) for other, (bottom, top) in ahead.items() if other != name]
        verdict = judge(others, skew_max_ms)
        are_far = are_far or bool(verdict.far)
        if verdict.reason is not None:
            finding = f"the clock of {name} is {tell_distance(verdict.far)}"
            found.append(Diagnosis(health=Health.ERROR, check="clocks", finding=finding, remedy=f"synchronise {name} (chrony, ntpd)"))
    if are_far and not found:
        clocks = ", ".join(f"{name} {low_ms / 1000:+.1f} s" for name, (low_ms, _) in ahead.items())
        finding = f"clocks differ by more than {skew_max_ms} ms, and no two agree against another: {clocks}"
        found.append(Diagnosis(health=Health.ERROR, check="clocks", finding=finding, remedy="synchronise all machines (chrony, ntpd)"))
    return found or [Diagnosis(health=Health.OK, check="clocks", finding=f"{len(answered)} nodes and this machine show the same time")]


def diagnose_narrow_topics(topics: Mapping[str, Sequence[int]], coordinators: int) -> list[Diagnosis]:
    """Topics, each with the coordinators of its partitions, that live on fewer coordinators than they could, where a balance helps.

    It helps nothing once coordinators have equally many partitions: some topics may be on few of them then, and others on the rest.
    """
    held = Counter(dict.fromkeys(range(coordinators), 0))
    held.update(owner for owners in topics.values() for owner in owners)
    fewest = min(held.values(), default=0)
    full = {owner for owner, count in held.items() if count > fewest + 1}
    return [
        Diagnosis(
            health=Health.WARNING,
            check="topics",
            finding=f"topic {name} ({len(owners)} partitions) lives on {len(set(owners))} of {coordinators} coordinators",
            remedy="it is older than the others, or its partitions were moved together: `diskless partitions move --balance` spreads them",
        )
        for name, owners in topics.items()
        if len(set(owners)) < min(len(owners), coordinators) and not full.isdisjoint(owners)
    ] or [Diagnosis(health=Health.OK, check="topics", finding=f"{len(topics)} topics are spread as a balance would leave them")]
