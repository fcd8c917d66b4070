"""The coordinator service as commands reach it: a client, topics by name or id, and its errors as `Failed`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from cli.outcome import Exit, Failed
from cli.progress import doing

if TYPE_CHECKING:
    from coordinator.client.client import DisklessClient
    from coordinator.client.errors import Refusal, ServiceError
    from coordinator.client.model import PartitionDescription, PartitionId, TopicDescription
    from coordinator.object_store import ObjectStore

T = TypeVar("T")


class ServicePlace(NamedTuple):
    """Nodes of the service, as the text of --bootstrap-server, and how long a command waits for them."""

    servers: str
    timeout_s: float


def run(work: Coroutine[object, object, T], what: str = "asking the service") -> T:
    """Run a command's work, which is called `what` when it takes long. Raises `Failed` for refusals of the service."""
    import asyncio

    from coordinator.client.errors import ServiceError

    try:
        with doing(what):
            return asyncio.run(work)
    except ServiceError as error:
        raise Failed(str(error), status_of(error)) from error


@asynccontextmanager
async def open_client(service: ServicePlace, *, object_store: ObjectStore | None = None) -> AsyncIterator[DisklessClient]:
    """Open a client of the service, which reads records of the object store. Raises `Failed` within 3 s when no node can be there."""
    from cli.addresses import check_nodes
    from cli.node_security import node_security
    from coordinator.client.client import DisklessClient
    from coordinator.client.routing.addresses import parse_servers

    security = node_security()
    try:
        servers = parse_servers(service.servers)
    except ValueError as error:
        raise Failed(f"--bootstrap-server: {error}", Exit.USAGE) from error
    servers = await check_nodes(servers, service.timeout_s, security)
    async with DisklessClient(
        [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers],
        client_id="diskless-cli",
        api_timeout_ms=milliseconds(service.timeout_s),
        object_store=object_store,
        security=security,
    ) as client:
        yield client


async def ask(service: ServicePlace, question: Callable[[DisklessClient], Awaitable[T]]) -> T:
    """Return the answer to one question to the service. Raises what `open_client` and the question raise."""
    async with open_client(service) as client:
        return await question(client)


def milliseconds(seconds: float) -> int:
    """Seconds as the client's whole milliseconds."""
    return max(1, round(seconds * 1000))


def status_of(error: ServiceError) -> Exit:
    """The exit status for an exception of the client."""
    from coordinator.client import errors

    match error:
        case errors.NotFound() | errors.OffsetOutOfRange():
            return Exit.NOT_FOUND
        case errors.Unavailable():
            return Exit.UNAVAILABLE
        case errors.TimedOut():
            return Exit.TIMEOUT
        case _:
            return Exit.FAILURE


def fail_for(what: str, refusals: Iterable[Refusal]) -> None:
    """Raise `Failed` for a list of results of which some have an error; errors of one kind give that kind's status."""
    from coordinator.client.errors import error_of
    from coordinator.kafka.errors import ErrorCode

    wrong = [refusal for refusal in refusals if refusal.code is not ErrorCode.NONE]
    if not wrong:
        return
    statuses = {status_of(error_of(refusal.code, refusal.message)) for refusal in wrong}
    status = Exit.TIMEOUT if Exit.TIMEOUT in statuses else statuses.pop() if len(statuses) == 1 else Exit.FAILURE
    first = wrong[0]
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    raise Failed(f"{what}: {first.code.name} ({int(first.code)}): {first.message}{more}", status)


async def find_topic(client: DisklessClient, text: str) -> TopicDescription:
    """Find a topic by its name, or by its id as text. Raises `Failed`."""
    from coordinator.client.errors import NotFound
    from coordinator.kafka.names import parse_topic_id

    try:
        return await client.describe_topic(text)
    except NotFound as by_name:
        try:
            topic_id = parse_topic_id(text)
        except ValueError:
            raise Failed(f"topic {text} does not exist; `diskless topics list` shows those that do", Exit.NOT_FOUND) from by_name
    try:
        return await client.describe_topic(topic_id)
    except NotFound as error:
        raise Failed(f"no topic has the name or the id {text}", Exit.NOT_FOUND) from error


def find_partition(topic: TopicDescription, partition: int) -> PartitionDescription:
    """Find a partition of a described topic. Raises `Failed`."""
    for one in topic.partitions:
        if one.partition == partition:
            return one
    raise Failed(f"topic {topic.name} has no partition {partition}; it has {len(topic.partitions)}", Exit.NOT_FOUND)


def partition_ids(topic: TopicDescription, partitions: Sequence[int]) -> list[PartitionId]:
    """The given partitions of a topic, or all of them. Raises `Failed`."""
    from coordinator.client.model import PartitionId

    wanted = [find_partition(topic, partition).partition for partition in partitions] or [one.partition for one in topic.partitions]
    return [PartitionId(topic.topic_id, partition) for partition in wanted]
