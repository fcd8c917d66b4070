"""The dashboard as tests use it: the command as a process, and a headless Chromium that looks at its page.

Invariant: whatever a page says to its console, throws, or fails to load is kept, and `assert_quiet` shows it.
"""

from __future__ import annotations

import shutil
import signal
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, Playwright

from cli.dev.ports import lease_ports
from cli.dev.process import ChildProcess, start_child
from integration_tests.gateway.stranger_clients import made, run_in
from integration_tests.waiting import wait_until

START_TIMEOUT_S = 120
WAIT_MS = 60_000
CHROMIUM = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",  # it runs as root in containers, and opens nothing but our own page
    "--disable-gpu",
    "--disable-dev-shm-usage",  # what containers give is small, and a page that finds no more of it crashes
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LOST = "Failed to load resource: net::ERR_CONNECTION_REFUSED"


def open_chromium(playwright: Playwright) -> Browser:
    """Start the Chromium of this machine."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert found is not None, "these tests need a Chromium: apt-get install chromium (.ci/run does)"
    return playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS), timeout=START_TIMEOUT_S * 1000)


def axe_source() -> str:
    """Return the script of axe-core, which npm fetches once."""
    folder = made("axe", Path(__file__).parent / "axe", lambda folder: run_in(folder, "npm", "install", "--no-audit", "--no-fund"))
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


class DashboardProcess:
    """`diskless dashboard` on a port of its own, which it keeps when it is started again."""

    def __init__(
        self,
        monitor_folder: Path,
        log_folder: Path,
        coordinators: Sequence[str] = (),
        token_file: Path | None = None,
        exports: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> None:
        self._lease = lease_ports(1)[0]
        self.address = f"http://127.0.0.1:{self._lease.port}/"
        self.log_file = log_folder / "dashboard.log"
        self._command = [sys.executable, "-m", "cli.program", "dashboard", "--dir", str(monitor_folder)]
        self._command += ["--listen", f"127.0.0.1:{self._lease.port}", "--coordinators", ",".join(coordinators)]
        self._command += ["--exports", ",".join(exports), *options]
        self._command += [] if token_file is None else ["--token-file", str(token_file)]
        self._process: ChildProcess | None = None

    def start(self) -> DashboardProcess:
        """Start it and wait until it answers."""
        self._process = process = start_child(self._command, marker="cli.program", log=self.log_file)
        wait_until(lambda: not process.is_running() or self._answers(), "the dashboard to answer", START_TIMEOUT_S)
        assert process.is_running(), self.log_file.read_text()
        return self

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()

    def terminate(self) -> int:
        """SIGTERM; its status."""
        assert self._process is not None
        self._process.send(signal.SIGTERM)
        return self._process.wait(START_TIMEOUT_S)

    def close(self) -> None:
        """End it if it runs."""
        if self._process is not None and self._process.is_running():
            self._process.kill()
        self._lease.close()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


class Watched:
    """A page, and everything that went wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.wrong: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda message: self.wrong.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))

    def open(self, address: str) -> Page:
        """Go there and wait for the first news."""
        self.page.goto(address)
        self.page.wait_for_selector("#link[data-state=live]")
        return self.page

    def wait_text(self, selector: str, text: str) -> None:
        """Wait until an element that is selected has the text in it."""
        self.page.wait_for_function(
            "([selector, text]) => [...document.querySelectorAll(selector)].some((one) => one.textContent.includes(text))",
            arg=[selector, text],
        )

    def wait_exact(self, selector: str, digits: str, timeout_s: float = WAIT_MS / 1000) -> None:
        """Wait until the element carries exactly these digits."""
        self.page.wait_for_function(
            "([selector, digits]) => document.querySelector(selector)?.dataset.exact === digits",
            arg=[selector, digits],
            timeout=timeout_s * 1000,
        )

    def violations(self, axe: str) -> list[str]:
        """Return what axe-core finds wrong, each with where."""
        self.page.evaluate(axe)
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']}).then((one) => one.violations)")
        return [
            f"{one['id']}: {one['help']}: {node['html'][:150]} {node['any'][:1] and node['any'][0]['message']}"
            for one in found
            for node in one["nodes"]
        ]

    def see_all(self) -> None:
        """Have every panel drawn."""
        for panel in self.page.locator("section.card[id^=panel-]:not([hidden])").all():
            panel.scroll_into_view_if_needed()
            self.page.wait_for_function("id => 'ready' in document.getElementById(id).dataset", arg=panel.get_attribute("id"))

    def assert_quiet(self, *, but_lost: bool = False) -> None:
        """Fail when the page complained; a lost connection shows in the console whatever a page does."""
        wrong = [line for line in self.wrong if not (but_lost and ("ERR_" in line or LOST in line))]
        assert not wrong, wrong


@contextmanager
def looked_at(browser: Browser, *, dark: bool = False, width: int = 1280, height: int = 900) -> Iterator[Watched]:
    """A page in a browser profile of its own."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
    try:
        yield Watched(context.new_page())
    finally:
        context.close()
