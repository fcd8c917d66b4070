"""Questions to brokers with the gateway's own login, over one connection that is opened anew when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from coordinator.adapters.kafka.link import Answer, BrokerLink, BrokerLost, FindPlace
from coordinator.protocol.codec import Message

ANSWER_TIMEOUT_S: Final = 10.0


class OwnConnection:
    """See the module. Used on one event loop."""

    def __init__(self, connect: Callable[[FindPlace], BrokerLink], any_place: FindPlace) -> None:
        self._connect = connect
        self._any_place = any_place
        self._connection: BrokerLink | None = None

    async def ask(self, request: Message, answer_type: type[Answer]) -> Answer:
        """Ask any broker; a second one if the connection was lost. Raises `BrokerLost`."""
        for _ in range(2):
            try:
                return await self._ask(request, answer_type)
            except BrokerLost as error:
                lost = error
        raise lost

    async def _ask(self, request: Message, answer_type: type[Answer]) -> Answer:
        connection = self._connection
        if connection is None or connection.is_lost:
            connection = self._connection = self._connect(self._any_place)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await connection.ask(request, answer_type)
        except TimeoutError as error:
            connection.close("no answer in time")
            raise BrokerLost(f"no broker answered in {ANSWER_TIMEOUT_S:g} s") from error

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
