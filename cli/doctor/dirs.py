"""The conclusions of `diskless doctor` about the data directories of nodes, as each node tells and as coordinator 0 has recorded them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from cli.doctor.diagnosis import FREE_BYTES_MIN, FREE_SHARE_MIN, Diagnosis, Health
from cli.looks.service import NodeView

CHECK = "data dirs"
WAIT_MAX_MS = 30_000
"""An assignment is recorded within a second where partition 0 has a leader that answers."""


def diagnose_dirs(views: Sequence[NodeView]) -> list[Diagnosis]:
    """Directories that are offline or nearly full, databases that are locked, replicas without a home, assignments that wait."""
    found = []
    for view in views:
        name = f"node {view.node.node_id}"
        for one in view.directories:
            if one.offline_reason is not None:
                remedy = "its replicas live in the other directories; repair it (its content is a cache), and start the node again"
                finding = f"{name}: data directory {one.path} is offline: {one.offline_reason}"
                found.append(Diagnosis(health=Health.ERROR, check=CHECK, finding=finding, remedy=remedy))
            elif 0 <= one.free_bytes < min(max(FREE_BYTES_MIN, FREE_SHARE_MIN * one.total_bytes), one.total_bytes):
                left = f"{one.free_bytes / 1024**3:.1f} of {one.total_bytes / 1024**3:.1f} GiB left"
                found.append(_warning(f"{name}: {one.path} has {left}", "make room: a full data directory goes offline with its replicas"))
        offline = sorted(each for one in view.node.directories if not one.is_online for each in one.coordinator_ids)
        if offline:
            remedy = "start the node: they are built anew in another one" if view.error else "they are built anew in another one"
            finding = f"{name}: coordinator {', '.join(map(str, offline))} has its replica in a data directory that is offline"
            found.append(_warning(finding, f"{remedy}; see the log of the node if that does not pass (diskless dirs list --replicas)"))
        paths = {one.directory_id: one.path for one in view.directories}
        for replica in view.coordinators:
            if replica.state_locked_since_ms >= 0:
                database = f"{paths.get(replica.directory_id, 'DATA_DIR')}/partition-{replica.coordinator_id}.db"
                since = datetime.fromtimestamp(replica.state_locked_since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
                found.append(
                    _warning(
                        f"{name}: another connection has locked {database} since {since}; changes are kept in memory",
                        f"end what holds the lock: `fuser {database}` names its process. Commits wait once memory has as many changes as"
                        " state.flush.backlog.max.batches allows",
                    )
                )
        homeless = [str(one.coordinator_id) for one in view.coordinators if not any(one.directory_id)]
        if homeless and view.directories:
            remedy = "it gets one when it is made: see the log of the node if that does not pass"
            found.append(_warning(f"{name}: no data directory holds a replica of coordinator {', '.join(homeless)}", remedy))
        if view.queued_assignments and view.assignment_wait_ms > WAIT_MAX_MS:
            waiting = f"{view.queued_assignments} replicas, for {view.assignment_wait_ms // 1000} s"
            found.append(
                _warning(
                    f"{name}: coordinator 0 has not recorded the data directories of {waiting}",
                    "replicas that move wait for it: does coordinator 0 have a leader that this node reaches? See the log of the node",
                )
            )
    told = [view for view in views if view.directories]
    count = sum(len(view.directories) for view in told)
    return found or [Diagnosis(health=Health.OK, check=CHECK, finding=f"{count} data directories of {len(told)} nodes are online")]


def _warning(finding: str, remedy: str) -> Diagnosis:
    return Diagnosis(health=Health.WARNING, check=CHECK, finding=finding, remedy=remedy)
