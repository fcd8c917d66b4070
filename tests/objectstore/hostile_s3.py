"""An HTTP server that speaks enough of S3 to store, read, list and delete objects, and breaks single answers as it is told."""

from __future__ import annotations

import contextlib
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, quote_plus, unquote
from xml.sax.saxutils import escape

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_CONTROLS = {chr(code): f"&#x{code:x};" for code in (*range(1, 32), 127)}


class Break(Enum):
    NONE = "the request is served"
    ERROR = "status 503, nothing done"
    LOST_ANSWER = "the request is carried out, then the connection is closed without an answer"
    CUT = "the connection is closed in the middle of the body"
    STALL = "the body stops in the middle, the connection stays open"


class HostileS3:
    """Objects by path, and the breaks of the coming requests by method; `endpoint` is its address."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.breaks: dict[str, deque[Break]] = {"PUT": deque(), "GET": deque(), "POST": deque()}
        self.always: dict[str, Break] = {}
        self.moods: dict[str, Callable[[], Break]] = {}
        """Chooses the break of each request of a method."""
        self.page_objects = 1000
        """How many objects a page of a listing has."""
        self.pages: list[list[str]] = []
        """The keys of each page that was listed."""
        self.released = threading.Event()
        self._lock = threading.Lock()
        world = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                fault = world.next_break("PUT")
                if fault is Break.ERROR:
                    self.answer(503)
                    return
                is_new = world.store(self.path, data, create_only=self.headers.get("If-None-Match") == "*")
                if fault is Break.NONE:
                    self.answer(200 if is_new else 412)
                else:
                    self.close_connection = True

            def do_GET(self) -> None:
                fault = world.next_break("GET")
                if "list-type=2" in self.path:
                    if fault is Break.NONE:
                        self.list_objects()
                    else:
                        self.answer(503)
                    return
                data = world.objects.get(self.path)
                if fault is Break.ERROR or data is None:
                    self.answer(404 if data is None else 503)
                    return
                if fault is Break.LOST_ANSWER:
                    self.close_connection = True
                    return
                # A client that asks for the rest of a body it lost gets the whole again, as it may from a server without ranges.
                self.answer(200, data if fault is Break.NONE else data[: len(data) // 2], size=len(data))
                if fault is Break.STALL:
                    self.wfile.flush()
                    world.released.wait(20)
                self.close_connection = fault is not Break.NONE

            def do_HEAD(self) -> None:
                data = world.objects.get(self.path)
                self.answer(404 if data is None else 200, size=len(data or b""))

            def list_objects(self) -> None:
                """Answer as S3 does: in chunks, with a text for each key that asks to be decoded if the question allows that."""
                bucket, _, question = self.path.partition("?")
                asked = {name: values[0] for name, values in parse_qs(question, keep_blank_values=True).items()}
                is_encoded = asked.get("encoding-type") == "url"
                after = unquote(asked.get("continuation-token", "")) or asked.get("start-after", "")
                keys = [key for key in world.keys(f"{bucket}/") if key.startswith(asked.get("prefix", "")) and key > after]
                page, is_cut = keys[: world.page_objects], len(keys) > world.page_objects
                world.pages.append(page)
                told = "".join(
                    f"<Contents><Key>{quote_plus(key) if is_encoded else escape(key, _CONTROLS)}</Key><Size>"
                    f"{len(world.objects[f'{bucket}/{quote(key)}'])}</Size><LastModified>2026-11-22T00:00:00.000Z</LastModified></Contents>"
                    for key in page
                )
                more = f"<NextContinuationToken>{quote(page[-1])}</NextContinuationToken>" if is_cut else ""
                encoding = "<EncodingType>url</EncodingType>" if is_encoded else ""
                text = f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>{more}{encoding}{told}"
                body = f'<?xml version="1.0"?><ListBucketResult xmlns="{_NAMESPACE}">{text}</ListBucketResult>'.encode()
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

            def do_POST(self) -> None:
                """Delete many objects: what a POST to the bucket with `?delete` says."""
                text = self.rfile.read(int(self.headers["Content-Length"])).decode()
                fault = world.next_break("POST")
                if fault is Break.ERROR:
                    self.answer(503)
                    return
                keys = re.findall("<Key>(.*?)</Key>", text)
                world.delete([f"{self.path.partition('?')[0].rstrip('/')}/{key}" for key in keys])
                if fault is Break.STALL:
                    world.released.wait(20)
                if fault is not Break.NONE:
                    self.close_connection = True
                    return
                deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
                self.answer(200, f'<?xml version="1.0"?><DeleteResult>{deleted}</DeleteResult>'.encode())

            def answer(self, status: int, body: bytes = b"", *, size: int | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body) if size is None else size))
                self.send_header("ETag", '"1"')
                self.send_header("Last-Modified", "Sun, 22 Nov 2026 00:00:00 GMT")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def next_break(self, method: str) -> Break:
        with self._lock:
            waiting = self.breaks[method]
            if waiting:
                return waiting.popleft()
            return self.moods[method]() if method in self.moods else self.always.get(method, Break.NONE)

    def keys(self, bucket: str) -> list[str]:
        """The keys of a bucket, in order; a path is as a client quotes it."""
        with self._lock:
            return sorted(unquote(path.removeprefix(bucket)) for path in self.objects if path.startswith(bucket))

    def store(self, path: str, data: bytes, *, create_only: bool) -> bool:
        with self._lock:
            if create_only and path in self.objects:
                return False
            self.objects[path] = data
            return True

    def delete(self, paths: list[str]) -> None:
        with self._lock:
            for path in paths:
                self.objects.pop(path, None)

    @contextlib.contextmanager
    def running(self) -> Iterator[HostileS3]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()
