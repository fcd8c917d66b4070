"""Tells the kind of server at an address (node, Kafka broker, another server, none) from one small request.

Both kinds of server speak Kafka's protocol, so a client given the wrong address would only see closed connections, or talk to
the brokers as if they were nodes. Every finding says what was found and what to do, and comes within the time given.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from coordinator.protocol.api_keys import ApiKey
from coordinator.security.tls_errors import explain_to_client

IDENTIFY_TIMEOUT_S: Final = 2.0
NUDGE_S: Final = 0.3
_BLANK_LINE: Final = b"\r\n\r\n"
"""Ends the head of an HTTP request, for which such a server waits before it says anything."""

_CORRELATION_ID: Final = 0x6469736B
_CLIENT_ID: Final = b"diskless-identify"
_REQUEST: Final = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID
_REPLY_BYTES_MAX: Final = 64 * 1024


class ServerKind(Enum):
    """The kind of server at an address."""

    NODE = "a Diskless Coordinator node"
    BROKER = "a Kafka broker"
    HTTP = "an HTTP server"
    OTHER = "something that does not speak Kafka's protocol"
    UNTRUSTED = "a server with TLS that this client does not get on with"
    SILENT = "something that accepts connections and does not answer"
    SLOW = "something that does not accept a connection in time"
    NOBODY = "nobody"
    UNRESOLVED = "no known host"


class Found(NamedTuple):
    """The finding for one address; `detail` is the operating system's word for it, or empty."""

    host: str
    port: int
    kind: ServerKind
    detail: str = ""
    is_encrypted: bool = False
    """Whether it was asked with TLS."""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


async def identify(host: str, port: int, timeout_s: float = IDENTIFY_TIMEOUT_S, tls: ssl.SSLContext | None = None) -> Found:
    """Find out what listens at an address, within `timeout_s`; no finding raises. Without `tls` it is asked in plain text."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            writer.write(struct.pack(">i", len(_REQUEST)) + _REQUEST)
            return Found(host, port, await _nudged(reader, writer))._replace(is_encrypted=tls is not None)
    except ssl.SSLError as error:
        return Found(host, port, ServerKind.UNTRUSTED, explain_to_client(error))
    except socket.gaierror as error:
        return Found(host, port, ServerKind.UNRESOLVED, error.strerror or str(error))
    except TimeoutError:
        # A server whose queue of connections is full is as silent as an address where there is none: it may answer later.
        return Found(host, port, ServerKind.SLOW if writer is None else ServerKind.SILENT, f"not within {timeout_s:g} s")
    except ConnectionResetError as error:
        return Found(host, port, ServerKind.OTHER, str(error), tls is not None)
    except (OSError, UnicodeError) as error:
        # A host name with an empty or overlong label is refused by the encoder of names before anybody is asked.
        return Found(host, port, ServerKind.UNRESOLVED if isinstance(error, UnicodeError) else ServerKind.NOBODY, str(error))
    finally:
        if writer is not None:
            writer.transport.abort()


async def identify_all(
    servers: Sequence[tuple[str, int]], timeout_s: float = IDENTIFY_TIMEOUT_S, tls: ssl.SSLContext | None = None
) -> list[Found]:
    """Find out what listens at several addresses, all asked at once."""
    return list(await asyncio.gather(*(identify(host, port, timeout_s, tls) for host, port in servers)))


async def _nudged(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> ServerKind:
    """Read the answer; a server that is silent for a moment gets a blank line, too."""
    reading = asyncio.ensure_future(_kind(reader))
    try:
        done, _ = await asyncio.wait({reading}, timeout=NUDGE_S)
        if not done:
            writer.write(_BLANK_LINE)
        return await reading
    finally:
        reading.cancel()


async def _kind(reader: asyncio.StreamReader) -> ServerKind:
    """Read the answer to ApiVersions. A server that speaks another protocol answers in its own words, or hangs up."""
    try:
        head = await reader.readexactly(4)
        if head == b"HTTP":
            return ServerKind.HTTP
        [size] = struct.unpack(">i", head)
        if not 10 <= size <= _REPLY_BYTES_MAX:
            return ServerKind.OTHER
        reply = await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        return ServerKind.OTHER
    correlation_id, _error, count = struct.unpack_from(">ihi", reply)
    if correlation_id != _CORRELATION_ID or not 0 <= count * 6 <= size - 10:
        return ServerKind.OTHER
    keys = {struct.unpack_from(">h", reply, 10 + 6 * place)[0] for place in range(count)}
    return ServerKind.NODE if ApiKey.DESCRIBE_COORDINATORS in keys else ServerKind.BROKER


def complaint_as_node(found: Found) -> str | None:
    """Why an address is no node's, with what to do; None for a node."""
    match found.kind:
        case ServerKind.NODE:
            return None
        case ServerKind.BROKER:
            return f"{found.address} is a Kafka broker, not a Diskless Coordinator node; a node listens on 9192 by default"
        case ServerKind.HTTP:
            return f"{found.address} is an HTTP port, such as a node's 9193; clients connect to the node's listener, 9192 by default"
        case _:
            return _complaint(found, "a node")


def complaint_as_broker(found: Found) -> str | None:
    """Why an address is no Kafka broker's, with what to do; None for a broker."""
    match found.kind:
        case ServerKind.BROKER:
            return None
        case ServerKind.NODE:
            return f"{found.address} is a Diskless Coordinator node, not a Kafka broker; a broker listens on 9092 by default"
        case ServerKind.HTTP:
            return f"{found.address} is an HTTP port, not a Kafka broker; a broker listens on 9092 by default"
        case _:
            return _complaint(found, "a broker")


def _complaint(found: Found, wanted: str) -> str:
    match found.kind:
        case ServerKind.UNRESOLVED:
            return f"{found.address}: the host name is not known ({found.detail}); correct it, or see the resolver of this machine"
        case ServerKind.NOBODY:
            return f"nobody listens at {found.address} ({found.detail}); is {wanted} running there, and is the address right?"
        case ServerKind.SILENT:
            return f"{found.address} accepts connections and does not answer ({found.detail}); is it {wanted} that hangs or is overloaded?"
        case ServerKind.SLOW:
            return (
                f"{found.address} does not accept a connection ({found.detail}); is it {wanted}'s address, and can it be reached from here?"
            )
        case ServerKind.UNTRUSTED:
            return f"{found.address}: {found.detail}"
        case _ if found.is_encrypted:
            hint = "does it speak TLS (security.protocol), and accept this client's certificate, if it wants one?"
            return f"{found.address} hangs up before it says anything; is it {wanted}'s address, {hint}"
        case _:
            hint = "does it want TLS (security.protocol)?"
            return f"{found.address} does not speak Kafka's protocol in plain text; is it {wanted}'s address, and {hint}"
