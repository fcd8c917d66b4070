"""Pages of a listing of S3 with every key as it is, for the pages that obstore refuses because of one key.

obstore has credentials, region and address, so it signs the URL of each page: a store whose endpoint ends in the question signs the
question too, and the path that it adds becomes the value of a parameter of which S3 takes no notice (names that begin with `x-` are
free for the access log). The answer is fetched here, since obstore asks for a Content-Length, which S3 does not send with listings.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from urllib.parse import quote, unquote_plus, urlencode
from xml.etree import ElementTree

import obstore
from obstore.store import S3Store

from coordinator.object_store import StoredObject

if TYPE_CHECKING:  # obstore has it in its type stubs only
    from obstore.store import S3Config

PAGE_BYTES_MAX: Final = 16 << 20
"""A page has 1000 objects; one takes some 500 bytes and its key, which is at most three times as long as it is."""
_SIGNED_FOR: Final = timedelta(minutes=5)
_NAME: Final = "page"


class PageError(Exception):
    """A page was not answered, or the answer is none; the text says why. `status` is that of HTTP, or 0."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class S3Page(NamedTuple):
    """Objects with whole keys, in the order of the listing."""

    objects: list[StoredObject]
    is_last: bool


class S3Pages:
    """See the module's text."""

    def __init__(self, raw: S3Store, timeout_s: float) -> None:
        self._raw = raw
        self._timeout_s = timeout_s

    async def read(self, prefix: str, after: str) -> S3Page:
        """Return the first objects below a prefix after a key. Raises `PageError`, and what obstore raises without credentials."""
        question = {"list-type": "2", "encoding-type": "url", "prefix": prefix, **({"start-after": after} if after else {})}
        data = await asyncio.to_thread(self._fetch, await self._signed(question))
        page = await asyncio.to_thread(_parse, data)
        if any(one.key <= after for one in page.objects) or not (page.objects or page.is_last):
            raise PageError(f"the listing does not go on after {after!r}")
        return page

    async def _signed(self, question: Mapping[str, str]) -> str:
        # The address of the bucket is what obstore signs for any object of it, without the object.
        address = (await obstore.sign_async(self._raw, "GET", _NAME, _SIGNED_FOR)).partition("?")[0].removesuffix(f"/{_NAME}")
        endpoint = f"{address}?{urlencode(question, quote_via=quote, safe='')}&x-id="
        config = cast("S3Config", {**self._raw.config, "endpoint": endpoint, "virtual_hosted_style_request": "true"})
        asking = S3Store(config=config, client_options=self._raw.client_options, retry_config=self._raw.retry_config)
        return await obstore.sign_async(asking, "GET", _NAME, _SIGNED_FOR)

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        """Made when a page is first asked for: reading the roots of trust takes a tenth of a second."""
        return urllib.request.build_opener(*_handlers(cast(Mapping[str, object], self._raw.client_options or {})))

    def _fetch(self, url: str) -> bytes:
        try:
            with self._opener.open(url, timeout=self._timeout_s) as answer:
                data: bytes = answer.read(PAGE_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise PageError(f"status code: {error.code} {error.reason}", error.code) from error
        except (OSError, http.client.HTTPException) as error:
            raise PageError(str(error) or type(error).__name__) from error
        if len(data) > PAGE_BYTES_MAX:
            raise PageError(f"a page of a listing has more than {PAGE_BYTES_MAX} bytes")
        return data


def _handlers(options: Mapping[str, object]) -> list[urllib.request.BaseHandler]:
    """The client options of the store that matter for one request. Without a proxy that of the environment counts, as for obstore."""
    context = ssl.create_default_context()
    if certificate := options.get("root_certificate"):
        context.load_verify_locations(cadata=certificate.decode() if isinstance(certificate, bytes) else str(certificate))
    if str(options.get("allow_invalid_certificates", "")).lower() == "true":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context)]
    if proxy := options.get("proxy_url"):
        handlers.append(urllib.request.ProxyHandler({"http": str(proxy), "https": str(proxy)}))
    return handlers


def _parse(data: bytes) -> S3Page:
    try:
        root = ElementTree.fromstring(data)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        is_encoded = root.findtext("EncodingType") == "url"
        objects = [_object(one, is_encoded) for one in root.iterfind("Contents")]
        return S3Page(objects, root.findtext("IsTruncated") != "true")
    except (ElementTree.ParseError, ValueError, TypeError) as error:
        raise PageError(f"the answer is no listing: {error}") from error


def _object(element: ElementTree.Element, is_encoded: bool) -> StoredObject:
    """Raises ValueError, TypeError for what is no object of a listing."""
    key, size, modified = (element.findtext(name) for name in ("Key", "Size", "LastModified"))
    if key is None or size is None or modified is None:
        raise ValueError("an object has no key, size or time")
    return StoredObject(
        key=unquote_plus(key, errors="strict") if is_encoded else key,
        size_bytes=int(size),
        modified_ms=int(datetime.fromisoformat(modified).timestamp() * 1000),
    )
