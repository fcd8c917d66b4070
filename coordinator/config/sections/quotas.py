"""Settings of what one principal may use of a node."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.keys import INT64_MAX, integer


@dataclass(frozen=True, kw_only=True)
class QuotaSettings:
    """Quotas count for each principal on each node; nodes of the service have none. All who do not log in are one, User:ANONYMOUS."""

    quota_bytes_per_second: int = integer(
        "quota.bytes.per.second",
        0,
        low=0,
        high=INT64_MAX,
        why="""Bytes of requests and answers that one principal may use of this node per second; 0 is without end. Ten seconds' worth may
        come at once. Beyond them answers tell how long the client is throttled (ThrottleTimeMs), and for so long no further request of
        that principal is begun. A request that waits for 30 s is answered REQUEST_TIMED_OUT and not executed.""",
    )
    quota_requests_per_second: int = integer(
        "quota.requests.per.second",
        0,
        low=0,
        high=INT64_MAX,
        why="""Requests that one principal may send to this node per second, counted like quota.bytes.per.second; 0 is without end.""",
    )
