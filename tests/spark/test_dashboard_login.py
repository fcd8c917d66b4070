"""Who may look at the page: logins by token, cookies, bounded attempts, and headers of proxies that are believed or not."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from cli.main import root
from cli.outcome import Exit
from spark_jobs.dashboard.app import Dashboard
from spark_jobs.dashboard.attempts import ADDRESSES_MAX, DELAY_MAX_S, FREE, WAITING_MAX, WAITING_OF_ADDRESS_MAX, Attempts
from spark_jobs.dashboard.login import COOKIE, SESSION_S, LookRules
from tests.spark.dashboard_store import NOW_MS, StoreMaker

TOKEN = "0123456789abcdef"
BY_TOKEN = LookRules(token=TOKEN)
BY_PROXY = LookRules(user_header="X-Forwarded-User", proxies=(ipaddress.ip_network("10.0.0.0/24"),))
BY_BOTH = LookRules(token=TOKEN, user_header="X-Forwarded-User", proxies=(ipaddress.ip_network("10.0.0.0/24"),))
HTML = {"Accept": "text/html"}
ACKNOWLEDGE = "/api/findings/acknowledge"


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    made = StoreMaker(tmp_path)
    made.healthy()
    yield made.folder
    made.close()


class Delays:
    """What wrong tokens were made to wait, in seconds, on a clock that stands."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []
        self.attempts = Attempts(lambda: 0.0, self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.waited_s.append(seconds)


def page(folder: Path, rules: LookRules, clock: Clock | None = None, address: str = "192.0.2.1", **more: Any) -> TestClient:
    app = Dashboard(folder, clock_ms=clock or Clock(), looking=rules, **more).application()
    return TestClient(app, client=(address, 4711), follow_redirects=False)


def send(client: TestClient, way: str, token: str, forwarded: str = "") -> int:
    """Send a token as people, as programs, or to change something; return the status, 200 where the token was right."""
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    if way == "form":
        status = client.post("/login", data={"token": token}, headers=headers).status_code
        return 200 if status == 303 else int(status)
    headers["Authorization"] = f"Bearer {token}"
    if way == "header":
        return int(client.get("/metrics", headers=headers).status_code)
    headers["Origin"] = "http://testserver"
    status = client.post(ACKNOWLEDGE, json={"all": True, "who": "w", "reason": "r"}, headers=headers).status_code
    return 200 if status == 404 else int(status)  # there is nothing to acknowledge


WAYS = ("form", "header", "acknowledge")


def rules_for(way: str, proxies: tuple[ipaddress.IPv4Network, ...] = ()) -> dict[str, Any]:
    """Return what a page needs so that tokens can be sent that way."""
    if way == "acknowledge":
        return {"rules": LookRules(proxies=proxies), "token": TOKEN}
    return {"rules": LookRules(token=TOKEN, proxies=proxies)}


def log_in(client: TestClient, token: str = TOKEN) -> int:
    return int(client.post("/login", data={"token": token}).status_code)


def shown(client: TestClient, cookie: str) -> int:
    return int(client.get("/api/findings", headers={"Cookie": f"{COOKIE}={cookie}".encode()}).status_code)


PATHS = ("/", "/api", "/api/overview", "/api/findings", "/api/events", "/metrics", "/static/main.js", "/nowhere")


@pytest.mark.parametrize("path", PATHS)
def test_without_a_login_nothing_is_shown(folder: Path, path: str) -> None:
    client = page(folder, BY_TOKEN)
    assert client.get(path).status_code == 401
    answer = client.get(path, headers=HTML)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert client.get("/healthz").status_code == 200


def test_a_login_holds_for_its_time_and_over_a_restart_until_the_token_changes(folder: Path) -> None:
    clock = Clock()
    client = page(folder, BY_TOKEN, clock)
    assert 'type="password"' in client.get("/login").text
    assert log_in(client) == 303
    assert client.get("/api/findings").status_code == 200
    cookie = client.cookies[COOKIE]
    assert shown(page(folder, BY_TOKEN, clock), cookie) == 200
    assert shown(page(folder, LookRules(token="another token, 16"), clock), cookie) == 401
    clock.ms += SESSION_S * 1000 + 1000
    assert shown(page(folder, BY_TOKEN, clock), cookie) == 401


def test_the_cookie_is_out_of_reach_of_scripts_and_foreign_pages_and_tells_no_token(folder: Path) -> None:
    answer = page(folder, BY_TOKEN).post("/login", data={"token": TOKEN})
    told = answer.headers["set-cookie"].lower()
    assert all(word in told for word in ("httponly", "samesite=strict", "path=/"))
    assert TOKEN not in told
    assert "secure" not in told
    by_proxy = page(folder, BY_BOTH, address="10.0.0.7").post("/login", data={"token": TOKEN}, headers={"X-Forwarded-Proto": "https"})
    assert "secure" in by_proxy.headers["set-cookie"].lower()


@pytest.mark.parametrize(
    "cookie",
    ["", ".", "9" * 12, "9" * 12 + ".", f"{'9' * 12}.{'0' * 64}", "-1.x", "٣.x", f"{NOW_MS}.{TOKEN}", "9" * 4000 + ".0"],
)
def test_made_up_cookies_are_none(folder: Path, cookie: str) -> None:
    client = page(folder, BY_TOKEN)
    assert shown(client, cookie) == 401


def test_a_cookie_cannot_be_made_to_hold_longer(folder: Path) -> None:
    client = page(folder, BY_TOKEN)
    log_in(client)
    expires, _, proof = client.cookies[COOKIE].strip('"').partition(".")
    fresh = page(folder, BY_TOKEN)
    assert shown(fresh, f"{expires}.{proof}") == 200
    assert shown(fresh, f"{int(expires) + 1}.{proof}") == 401


def test_programs_send_the_token_itself(folder: Path) -> None:
    client = page(folder, BY_TOKEN)
    assert client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/metrics", headers={"Authorization": f"Basic {TOKEN}"}).status_code == 401
    assert client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}x"}).status_code == 401


@pytest.mark.parametrize("way", WAYS)
def test_a_right_token_is_never_refused_and_wrong_ones_cost_more_each_time(folder: Path, way: str) -> None:
    delays = Delays()
    client = page(folder, **rules_for(way), attempts=delays.attempts)
    for _ in range(50):
        assert send(client, way, "wrong") == 401
        told = list(delays.waited_s)
        assert send(client, way, TOKEN) == 200
        assert delays.waited_s == told  # and at once
        client.cookies.clear()
    assert len(delays.waited_s) == 50 - FREE
    assert delays.waited_s == sorted(delays.waited_s)
    assert delays.waited_s[:3] == [0.5, 1.0, 2.0]
    assert delays.waited_s[-1] == DELAY_MAX_S
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("way", WAYS)
def test_behind_a_proxy_each_sender_pays_for_itself(folder: Path, way: str) -> None:
    delays = Delays()
    proxies = (ipaddress.ip_network("10.0.0.0/24"),)
    client = page(folder, **rules_for(way, proxies), address="10.0.0.7", attempts=delays.attempts)
    for number in range(20):
        # What the sender itself writes there stands before what the proxies add, and changes nothing.
        assert send(client, way, "wrong", f"203.0.113.{number}, 198.51.100.1, 10.0.0.8") == 401
    assert len(delays.waited_s) == 20 - FREE
    assert send(client, way, "wrong", "198.51.100.2:4711, 10.0.0.8:80") == 401
    assert len(delays.waited_s) == 20 - FREE
    assert len(delays.attempts) == 2


@pytest.mark.parametrize("way", WAYS)
def test_what_others_say_of_whom_they_forward_counts_for_nothing(folder: Path, way: str) -> None:
    delays = Delays()
    client = page(folder, **rules_for(way, (ipaddress.ip_network("10.0.0.0/24"),)), address="192.0.2.1", attempts=delays.attempts)
    for number in range(20):
        assert send(client, way, "wrong", f"203.0.113.{number}") == 401
    assert len(delays.attempts) == 1
    assert len(delays.waited_s) == 20 - FREE


async def test_wrong_tokens_are_forgotten_with_time_and_their_table_is_bounded() -> None:
    now_s, waited_s = 0.0, []

    async def sleep(seconds: float) -> None:
        waited_s.append(seconds)

    attempts = Attempts(lambda: now_s, sleep)
    for _ in range(FREE):
        await attempts.note_wrong("2001:db8::1")
    await attempts.note_wrong("2001:db8:0:1::1")
    assert waited_s == []
    await attempts.note_wrong("2001:db8::ffff")  # one network is one guesser
    assert waited_s == [0.5]
    now_s = 3_600.0
    await attempts.note_wrong("2001:db8::1")
    assert waited_s == [0.5]
    for number in range(ADDRESSES_MAX + 10):
        await attempts.note_wrong(str(ipaddress.ip_address(number + 2**24)))
    assert len(attempts) == ADDRESSES_MAX


async def test_answers_that_wait_are_bounded() -> None:
    opened = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        await opened.wait()

    attempts = Attempts(lambda: 0.0, sleep)
    for _ in range(FREE):
        assert await attempts.note_wrong("192.0.2.1") == 0
    waiting = [asyncio.ensure_future(attempts.note_wrong("192.0.2.1")) for _ in range(WAITING_OF_ADDRESS_MAX)]
    await asyncio.sleep(0)
    assert await attempts.note_wrong("192.0.2.1") > 0
    for number in range(WAITING_MAX):
        for _ in range(FREE):
            await attempts.note_wrong(f"10.1.{number // 256}.{number % 256}")
        waiting.append(asyncio.ensure_future(attempts.note_wrong(f"10.1.{number // 256}.{number % 256}")))
    await asyncio.sleep(0)
    assert sum(not one.done() for one in waiting) == WAITING_MAX
    opened.set()
    assert sum(answered == 0 for answered in await asyncio.gather(*waiting)) == WAITING_MAX
    assert await attempts.note_wrong("192.0.2.1") == 0  # there is room again


@pytest.mark.parametrize(("body", "status"), [(b"[" * 50_000, 400), (b'{"ids":' * 9_000, 400), (b"1" * 60_000, 400), (b"\xff", 400)])
def test_a_body_that_is_no_json_is_refused_in_one_line(folder: Path, body: bytes, status: int, caplog: pytest.LogCaptureFixture) -> None:
    client = page(folder, **rules_for("acknowledge"))
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    answer = client.post(ACKNOWLEDGE, content=body, headers=headers)
    assert answer.status_code == status
    assert "JSON" in answer.json()["error"]
    assert not [one for one in caplog.records if one.name != "httpx2"]  # that is the client


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("10.0.0.7", {"X-Forwarded-User": "alice"}, 200),
        ("::ffff:10.0.0.7", {"X-Forwarded-User": "alice"}, 200),
        ("10.0.0.7", {}, 403),
        ("10.0.0.7", {"X-Forwarded-User": " "}, 403),
        ("10.0.1.7", {"X-Forwarded-User": "alice"}, 403),
        ("192.0.2.1", {"X-Forwarded-User": "alice", "X-Forwarded-For": "10.0.0.7"}, 403),
        ("testclient", {"X-Forwarded-User": "alice"}, 403),
    ],
)
def test_a_header_counts_from_the_proxy_alone(folder: Path, address: str, headers: Mapping[str, str], status: int) -> None:
    client = page(folder, BY_PROXY, address=address)
    assert client.get("/api/findings", headers=headers).status_code == status
    assert client.get("/login").status_code == 403  # there is nothing to log in with


def test_beside_a_proxy_others_can_log_in(folder: Path) -> None:
    client = page(folder, BY_BOTH)
    assert client.get("/api/findings", headers={"X-Forwarded-User": "alice"}).status_code == 401
    assert log_in(client) == 303
    assert client.get("/api/findings").status_code == 200


def test_a_login_that_is_no_form_or_from_a_foreign_page_is_refused(folder: Path) -> None:
    client = page(folder, BY_TOKEN)
    assert client.post("/login", data={"token": TOKEN}, headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.post("/login", content=b"token=" + b"x" * 10_000).status_code == 413
    assert client.post("/login", content=b"&".join(b"token=x" for _ in range(20))).status_code == 401
    assert client.post("/login", content=b"\xff\xfe\x00").status_code == 401
    assert client.post("/api/findings").status_code == 405


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--login-token-file", "short"], "at least 16 ASCII characters"),
        (["--login-token-file", "missing"], "cannot be read"),
        (["--coordinators-token-file", "missing"], "--coordinators-token-file"),
        (["--token-file", "short"], "at least 16 ASCII characters"),
        (["--proxy-user-header", "X-User"], "needs --proxy-addresses"),
        (["--proxy-user-header", "X User", "--proxy-addresses", "10.0.0.1"], "takes the name of a header"),
        (["--proxy-user-header", "X-User", "--proxy-addresses", "everywhere"], "10.0.0.0/24"),
        (["--coordinators", "https://"], "takes HOST:PORT"),
    ],
)
def test_options_that_protect_nothing_are_refused(tmp_path: Path, arguments: list[str], told: str) -> None:
    (tmp_path / "short").write_text("short")
    given = [str(tmp_path / one) if one in ("short", "missing") else one for one in arguments]
    done = CliRunner().invoke(root, ["dashboard", "--dir", str(tmp_path), "--listen", "127.0.0.1:0", *given])
    assert (done.exit_code, told in done.stderr) == (Exit.USAGE, True), done.output
