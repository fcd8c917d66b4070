"""Work of a request on a task of its own, for takers that need more than one step.

A request whose broker was lost ends its connection: the client comes again, to a broker that lives. Any other exception is a fault of ours:
it is logged, and ends the connection too, since no answer would be right.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from coordinator.adapters.kafka.link import BrokerLost
from coordinator.adapters.server.contract import Respond
from coordinator.errors import DisklessError
from coordinator.protocol.framing_loops import Body
from gateway.ports import Session

LOG = logging.getLogger(__name__)

_RUNNING: set[asyncio.Task[None]] = set()


def answer_later(work: Coroutine[Any, Any, Body | None], session: Session, respond: Respond, what: str) -> None:
    """Answer a request with what `work` returns; `what` names the request in the log."""
    task = asyncio.get_running_loop().create_task(_answer(work, session.address, respond, what), name=f"answer-{what}")
    _RUNNING.add(task)
    task.add_done_callback(_RUNNING.discard)


async def _answer(work: Coroutine[Any, Any, Body | None], address: str, respond: Respond, what: str) -> None:
    body = None
    try:
        body = await work
    except BrokerLost as error:
        LOG.debug("not answered request=%s reason=%r", what, str(error))
    except DisklessError as error:
        LOG.warning("not answered request=%s address=%s reason=%r", what, address, str(error))
    except Exception:
        LOG.exception("request failed request=%s", what)
    respond(body)
