"""Who may look at the page: logins by token, cookies, bounded attempts, and headers of proxies that are believed or not."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from cli.main import root
from cli.outcome import Exit
from spark_jobs.dashboard.app import Dashboard
from spark_jobs.dashboard.login import ADDRESSES_MAX, ATTEMPTS_AT_ONCE, COOKIE, SESSION_S, Attempts, Login, LookRules
from tests.spark.dashboard_store import NOW_MS, StoreMaker

TOKEN = "0123456789abcdef"
BY_TOKEN = LookRules(token=TOKEN)
BY_PROXY = LookRules(user_header="X-Forwarded-User", proxies=(ipaddress.ip_network("10.0.0.0/24"),))
BY_BOTH = LookRules(token=TOKEN, user_header="X-Forwarded-User", proxies=(ipaddress.ip_network("10.0.0.0/24"),))
HTML = {"Accept": "text/html"}


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


def page(folder: Path, rules: LookRules, clock: Clock | None = None, address: str = "192.0.2.1") -> TestClient:
    app = Dashboard(folder, clock_ms=clock or Clock(), looking=rules).application()
    return TestClient(app, client=(address, 4711), follow_redirects=False)


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


@pytest.mark.parametrize("way", ["form", "header"])
def test_wrong_tokens_are_bounded_for_each_address_and_harm_no_session(folder: Path, way: str) -> None:
    client = page(folder, BY_TOKEN)

    def attempt(token: str) -> int:
        if way == "form":
            return log_in(client, token)
        return int(client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).status_code)

    assert [attempt("wrong") for _ in range(ATTEMPTS_AT_ONCE)] == [401] * ATTEMPTS_AT_ONCE
    assert attempt(TOKEN) == 429  # not even the right one
    other = page(folder, BY_TOKEN, address="192.0.2.2")
    assert log_in(other) == 303
    assert shown(client, other.cookies[COOKIE]) == 200


def test_attempts_come_back_with_time_and_their_table_is_bounded() -> None:
    now_s = 0.0
    attempts = Attempts(lambda: now_s)
    for _ in range(ATTEMPTS_AT_ONCE):
        attempts.note_failure("2001:db8::1")
    assert not attempts.are_left("2001:db8::ffff")  # one network is one guesser
    assert attempts.are_left("2001:db8:0:1::1")
    now_s = 5.0
    assert attempts.are_left("2001:db8::1")
    for number in range(ADDRESSES_MAX + 10):
        attempts.note_failure(str(ipaddress.ip_address(number + 2**24)))
    assert len(attempts) == ADDRESSES_MAX


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
        (["--proxy-user-header", "X-User"], "go together"),
        (["--proxy-addresses", "10.0.0.1"], "go together"),
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


async def test_attempts_that_come_at_once_are_bounded_like_those_that_come_in_turn() -> None:
    async def nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise AssertionError

    login, more, body_comes, statuses = Login(nothing, BY_TOKEN, Attempts()), 5, asyncio.Event(), []
    scope = {"type": "http", "method": "POST", "path": "/login", "headers": [], "client": ("192.0.2.1", 4711), "query_string": b""}

    async def receive() -> Message:
        await body_comes.wait()
        return {"type": "http.request", "body": b"token=wrong", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    waiting = [asyncio.ensure_future(login(dict(scope), receive, send)) for _ in range(ATTEMPTS_AT_ONCE + more)]
    await asyncio.sleep(0)
    body_comes.set()
    await asyncio.gather(*waiting)
    assert sorted(statuses) == [401] * ATTEMPTS_AT_ONCE + [429] * more
