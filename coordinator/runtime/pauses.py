"""How long a node waits before it looks again, tries again or gives up: constants, since no operator has a reason to change them.

Seconds. A pair is a least and a greatest: of a random wait, or of waits that grow.
"""

from __future__ import annotations

from dataclasses import dataclass

TICK_S = 0.1
"""The resolution of deadlines. Waking an idle process takes 0.15 ms of a processor, ten times what a tick of an idle replica takes."""

DOUBLINGS_MAX = 30
"""No wait doubles more often: 2.0 ** 1024 is beyond what a float holds, and a disk may be full for so many attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """See the module's text; one value for all parts of a node."""

    kafka_retry_s: tuple[float, float] = (0.3, 1.0)
    """Between attempts to describe the topic at the start, and to load a replica while Kafka does not answer."""

    snapshot_retry_s: float = 15.0
    """Between attempts to load a replica whose snapshot cannot be had yet, at most: each may fetch some, and refuse them."""

    revive_s: tuple[float, float] = (2.0, 300.0)
    """Before a failed replica is built anew; doubles with each failure."""

    are_ticks_aligned: bool = False
    """Ticks that are not urgent come at multiples of `TICK_S` on the event loop's clock: where its long timers come due."""

    directory_probe_s: float = 1.0
    """Between two probes of a data directory."""

    directory_patience_s: float = 10.0
    """A data directory whose probe takes longer is slow; a replica that had trouble there is made anew in it."""

    clock_return_s: tuple[float, float] = (0.5, 30.0)
    """How long the clock of a node that refuses for it must have been right before the node leads again; doubles each time."""

    refused_s: tuple[float, float] = (5.0, 300.0)
    """Before a node tries again to lead a partition to which Kafka refused its entries; doubles with each refusal."""

    accusation_retry_s: float = 0.7
    """Between attempts to tell a leader of its contradiction."""

    clocks_ask_s: float = 1.0
    """Between two turns of questions for the clocks of other nodes, at most."""

    clock_look_s: float = 0.25
    """Between two checks whether the own clock is wrong, at least."""

    clocks_forgotten_s: float = 5.0
    """A node that has not answered for so long, times the turns in which all are asked, has no vote on clocks."""

    level_check_s: float = 1.0
    """Between two looks whether the schema level can be raised, at most."""

    claims_s: float = 10.0
    """The placing of a new topic waits at most so long for coordinators that were never claimed."""

    registration_check_s: float = 1.0
    """Between two looks whether this node is registered, at most."""

    assignment_check_s: float = 1.0
    """Between two looks whether partition 0 knows in which data directories the replicas are, unless something has changed."""

    assignment_retry_s: tuple[float, float] = (0.5, 10.0)
    """Before directories that partition 0 did not record are reported again; doubles with each failure."""

    registration_group_s: float = 0.5
    """Between two looks whether the group has forgotten the process that is to be replaced."""

    session_margin_s: float = 4.0
    """A process that has ended may stay a member for so long after its session timeout."""

    backlog_s: float = 0.2
    """Requests wait at most so long for a state database that is far behind: its disk may hang."""

    few_spacing_s: float = 0.001
    """Between two groups while less than `grouping.GROUP_BYTES_MIN` is in flight: no core is busy then."""

    group_spacing_s: float = 0.005
    """Between two groups while more is in flight.

    A group costs as much as forty small files add to it, and librdkafka sends the next one of more than four entries only when the one
    before it was acknowledged. The value is longer than a round trip in one data centre: where that takes longer, groups overlap under
    load too.
    """


def doubled(first: float, failures: int, longest: float) -> float:
    """Return the next wait after so many earlier failures: it doubles with each, up to the longest, in the unit of both."""
    return min(first * 2.0 ** min(failures, DOUBLINGS_MAX), longest)
