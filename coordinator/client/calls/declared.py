"""Calls made from the declarations of operations: by partitions, by coordinators, or one request for each target.

A declaration says which messages an operation has, who answers, and whether a request only looks; so a call adds the elements and the class
of its results. Fields of a result that have the names of the response's fields are taken over (`read_as`).
Invariant: a response that does not name exactly the elements of its request is a malformed message, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar, cast

from coordinator.client.errors import Refusal, refusal_of
from coordinator.client.model import PartitionId, Result
from coordinator.client.routing.discovery import DIRECTORY
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.client.routing.retry import Deadline, server_timeout_ms
from coordinator.client.routing.routed_call import ADMIN, RoutedCall, Target
from coordinator.operations.declaration import Operation
from coordinator.operations.nesting import each_partition, nested_request
from coordinator.protocol.codec import Message
from coordinator.protocol.wire import MalformedMessage

A = TypeVar("A", bound=Result)
K = TypeVar("K")

Read = Callable[[K, Any], A]
"""Makes the result of an element of what a response says of it."""


def read_as(result: type[A], answer: Any, **known: object) -> A:
    """Return a result from a response, or a part of one, that has an error and fields of the same names; `known` are the other fields."""
    names = {item.name for item in fields(result)} - known.keys() - {"refusal"}
    taken = {name: getattr(answer, name) for name in names}
    return cast(Callable[..., A], result)(refusal=refusal_of(answer.error_code, answer.error_message), **taken, **known)


class _DeclaredCall(RoutedCall[A]):
    """The parts that calls have in common."""

    def __init__(self, operation: Operation, targets: Sequence[Target], result: type[A], purpose: str) -> None:
        self.operation = operation
        self.purpose = purpose
        self._targets = targets
        self._result = result

    @property
    def targets(self) -> Sequence[Target]:
        return self._targets

    @property
    def is_write(self) -> bool:
        looks = self.operation.only_looks
        return self.operation.is_write and not (looks is not None and looks(self._sample()))

    def _sample(self) -> Message:
        """Return a request as it is sent, perhaps without elements."""
        raise NotImplementedError

    def refusal_of(self, answer: A) -> Refusal:
        return answer.refusal

    def refused(self, place: int, refusal: Refusal) -> A:
        return self._result(refusal=refusal)


class ByPartitions(_DeclaredCall[A]):
    """A call for partitions, each given with its part of the request; `more` are other fields of the request."""

    def __init__(
        self,
        operation: Operation,
        parts: Sequence[tuple[PartitionId, Message]],
        result: type[A],
        read: Read[PartitionId, A] | None = None,
        *,
        purpose: str = ADMIN,
        wait_for_creation: bool = False,
        **more: object,
    ) -> None:
        super().__init__(operation, [partition.key for partition, _ in parts], result, purpose)
        self.wait_for_creation = wait_for_creation
        self._parts = parts
        self._read = read or (lambda _, one: read_as(result, one))
        self._more = more

    def _sample(self) -> Message:
        return self._request((), 1)

    def _request(self, places: Sequence[int], timeout_ms: int) -> Message:
        asked = [(self._parts[place][0].topic_id, self._parts[place][1]) for place in places]
        return nested_request(self.operation.versions[0].request_type, asked, timeout_ms=timeout_ms, **self._more)

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[A]:
        response = await pool.call(line, self._request(places, server_timeout_ms(timeout_s)), timeout_s)
        answers = [(PartitionId(topic_id, one.partition_index), one) for topic_id, one in each_partition(response)]
        if [partition for partition, _ in answers] != [self._parts[place][0] for place in places]:
            raise MalformedMessage(f"{len(places)} partitions were asked for; the answer has {len(answers)}, or others")
        return [self._read(partition, one) for partition, one in answers]


class ByCoordinators(_DeclaredCall[A]):
    """A call for coordinators, which a request has in `coordinator_ids` and its response in `results`; serving may take long."""

    is_long = True

    def __init__(
        self, operation: Operation, coordinator_ids: Sequence[int], result: type[A], read: Read[int, A] | None = None, **more: object
    ) -> None:
        super().__init__(operation, coordinator_ids, result, ADMIN)
        self._coordinator_ids = coordinator_ids
        self._read = read or (lambda _, one: read_as(result, one))
        self._more = more

    def _sample(self) -> Message:
        return self._request((), 1)

    def _request(self, places: Sequence[int], timeout_ms: int) -> Message:
        asked = tuple(self._coordinator_ids[place] for place in places)
        make = cast(Callable[..., Message], self.operation.versions[0].request_type)
        return make(coordinator_ids=asked, timeout_ms=timeout_ms, **self._more)

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[A]:
        response = cast(Any, await pool.call(line, self._request(places, server_timeout_ms(timeout_s)), timeout_s))
        if [one.coordinator_id for one in response.results] != [self._coordinator_ids[place] for place in places]:
            raise MalformedMessage(f"{len(places)} coordinators were named; the answer has {len(response.results)}, or others")
        return [self._read(one.coordinator_id, one) for one in response.results]

    def refused(self, place: int, refusal: Refusal) -> A:
        return cast(Callable[..., A], self._result)(refusal=refusal, coordinator_id=self._coordinator_ids[place])


class OneByOne(_DeclaredCall[A]):
    """A call that sends one request to each coordinator; its response as a whole is the answer of that coordinator."""

    def __init__(
        self,
        operation: Operation,
        coordinator_ids: Sequence[int],
        request: Callable[[int, int], Message],
        result: type[A],
        read: Read[int, A] | None = None,
        refused: Callable[[Refusal], A] | None = None,
    ) -> None:
        """`request` takes a coordinator and the timeout in milliseconds."""
        super().__init__(operation, coordinator_ids, result, ADMIN)
        self._coordinator_ids = coordinator_ids
        self._request = request
        self._read = read or (lambda _, response: read_as(result, response))
        self._refused = refused or (lambda refusal: result(refusal=refusal))

    def _sample(self) -> Message:
        return self._request(self._coordinator_ids[0], 1)

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[A]:
        deadline = Deadline.after_ms(timeout_s * 1000)
        answers = []
        for coordinator_id in (self._coordinator_ids[place] for place in places):
            request = self._request(coordinator_id, server_timeout_ms(deadline.remaining_s))
            answers.append(self._read(coordinator_id, await pool.call(line, request, deadline.remaining_s)))
        return answers

    def refused(self, place: int, refusal: Refusal) -> A:
        return self._refused(refusal)


def by_directory(
    operation: Operation, request: Callable[[int], Message], result: type[A], read: Callable[[Any], A] | None = None
) -> OneByOne[A]:
    """Return a call to the leader of the directory; `request` takes the timeout in milliseconds."""
    return OneByOne(
        operation,
        [DIRECTORY],
        lambda _, timeout_ms: request(timeout_ms),
        result,
        None if read is None else lambda _, response: read(response),
    )
