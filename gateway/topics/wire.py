"""What the takers of this room share: passing a request on, what clients are told of failures, and the taker itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Final

from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.client.errors import ServiceError
from coordinator.kafka.errors import ErrorCode
from gateway.answering import answer_later
from gateway.kafka_apis import KafkaApi
from gateway.ports import Catalogue, Session

LOG = logging.getLogger(__name__)

NOW: Final = timedelta(0)
"""No throttling."""
TOPIC: Final = 2
"""Kafka's number of the type of resource that is a topic."""


async def relayed(session: Session, request: IncomingRequest, api: KafkaApi) -> bytes:
    """Pass a request on unread; return the body of the answer. Raises `BrokerLost`."""
    return api.answer_body(request.api_version, await session.upstream.forward(request.data))


async def shown(catalogue: Catalogue, change: str) -> bool:
    """Have the catalogue show a change before clients ask for it; if it cannot be shown yet (False), it follows later."""
    try:
        await catalogue.refreshed()
    except ServiceError as error:
        LOG.info("topics not listed after a change change=%s error=%r", change, str(error))
        return False
    return True


def kafka_code(error: ServiceError) -> int:
    """Return what a client of Kafka is told of a failure of the coordinators.

    Codes of unavailable coordinators would mean the coordinator of a group to it.
    """
    waits = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    return int(ErrorCode.REQUEST_TIMED_OUT if error.code in waits else error.code)


class TopicTaker:
    """Answers the requests of an API by a coroutine. Implements `gateway.ports.Taker`."""

    def __init__(self, api: KafkaApi, work: Callable[[Session, IncomingRequest], Coroutine[Any, Any, bytes]]) -> None:
        self.api = api
        self._work = work

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """See `gateway.ports.Taker`."""
        answer_later(self._work(session, request), session, respond, self.api.text)
