"""One connection to a broker for requests that librdkafka cannot be asked safely: a blocking socket and this project's own codec.

Every wait ends at the deadline given; a broker that is slow, gone or no broker ends in a `KafkaException` with librdkafka's code for it.
Used in worker threads only.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Final, TypeVar

import kio.schema.sasl_authenticate.v0 as sasl_authenticate
import kio.schema.sasl_handshake.v1 as sasl_handshake
from confluent_kafka import KafkaError, KafkaException

from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.framing import FrameReader, read_correlation_id, reply_body, request_frame
from coordinator.protocol.wire import MalformedMessage, UnencodableMessage
from coordinator.security.client_security import ClientSecurity
from coordinator.security.scram import ScramRefused
from coordinator.security.tls_errors import explain_to_client

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_RECEIVE_BYTES: Final = 64 * 1024
_API_VERSIONS: Final = 18

Answer = TypeVar("Answer", bound=Message)


def refused(code: int, text: str) -> KafkaException:
    """Make the error of a request that failed."""
    return KafkaException(KafkaError(code, text))


class BrokerConnection:
    """A connection that is open and logged in. Make it with `connect`."""

    def __init__(self, connected: socket.socket, name: str, client_id: str, deadline_s: float) -> None:
        self._socket = connected
        self._name = name
        self._client_id = client_id
        self._deadline_s = deadline_s
        self._correlation_id = 0
        self._frames = FrameReader(ANSWER_BYTES_MAX)

    def ask(self, request: Message, answer_type: type[Answer]) -> Answer:
        """Send a request and wait for its answer. Raises `KafkaException`."""
        with _told(self._name):
            return self._ask(request, answer_type)

    def _ask(self, request: Message, answer_type: type[Answer]) -> Answer:
        key, version = int(request.__api_key__), int(request.__version__)
        self._correlation_id += 1
        body = encode(request)
        self._socket.settimeout(self._rest_s())
        self._socket.sendall(request_frame(key, version, self._correlation_id, self._client_id, body, flexible=request.__flexible__))
        frame = self._receive()
        if (answered := read_correlation_id(frame)) != self._correlation_id:
            raise MalformedMessage(f"the answer is to request {answered}, not to {self._correlation_id}")
        return decode(answer_type, reply_body(frame, tagged=answer_type.__flexible__ and key != _API_VERSIONS))

    def _receive(self) -> bytes:
        while True:
            self._socket.settimeout(self._rest_s())
            data = self._socket.recv(_RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("closed by the broker")
            for frame in self._frames.feed(data):
                return frame

    def _rest_s(self) -> float:
        rest_s = self._deadline_s - time.monotonic()
        if rest_s <= 0:
            raise TimeoutError
        return rest_s

    def log_in(self, security: ClientSecurity) -> None:
        """Log in if the security says how. Raises `KafkaException`."""
        if security.mechanism is None:
            return
        chosen = self.ask(sasl_handshake.SaslHandshakeRequest(mechanism=security.mechanism), sasl_handshake.SaslHandshakeResponse)
        if chosen.error_code:
            known = ", ".join(chosen.mechanisms)
            raise refused(int(chosen.error_code), f"{self._name} does not know sasl.mechanism {security.mechanism}; it knows {known}")
        try:
            messages = security.login()
            answer = self._exchange(next(messages))
            while True:
                answer = self._exchange(messages.send(answer))
        except StopIteration:
            return
        except (ScramRefused, OSError) as error:
            raise refused(KafkaError.SASL_AUTHENTICATION_FAILED, f"{self._name}: {error}") from error

    def _exchange(self, message: bytes) -> bytes:
        answer = self.ask(sasl_authenticate.SaslAuthenticateRequest(auth_bytes=message), sasl_authenticate.SaslAuthenticateResponse)
        if answer.error_code:
            raise refused(int(answer.error_code), f"{self._name} refused the login: {answer.error_message or answer.error_code.name}")
        return answer.auth_bytes


@contextlib.contextmanager
def connect(host: str, port: int, *, security: ClientSecurity, client_id: str, timeout_s: float) -> Iterator[BrokerConnection]:
    """Connect and log in; all that follows on the connection has to end within `timeout_s`, too. Raises `KafkaException`."""
    name, deadline_s = f"{host}:{port}", time.monotonic() + timeout_s
    with contextlib.ExitStack() as closing:
        with _told(name):
            plain = closing.enter_context(socket.create_connection((host, port), timeout_s))
            context = security.context()
            secured = plain if context is None else closing.enter_context(context.wrap_socket(plain, server_hostname=host))
        connection = BrokerConnection(secured, name, client_id, deadline_s)
        connection.log_in(security)
        yield connection


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    """Turn what sockets and codec raise into librdkafka's codes."""
    try:
        yield
    except TimeoutError as error:
        raise refused(KafkaError._TIMED_OUT, f"{name} did not answer in time") from error
    except ssl.SSLError as error:
        raise refused(KafkaError._SSL, f"{name}: {explain_to_client(error)}") from error
    except (OSError, UnicodeError, OverflowError) as error:
        # A broker may advertise an address that is no host name (UnicodeError) or no port (OverflowError).
        raise refused(KafkaError._TRANSPORT, f"{name}: {error}") from error
    except (MalformedMessage, UnencodableMessage) as error:
        raise refused(KafkaError._BAD_MSG, f"{name} does not answer as a broker: {error}") from error
