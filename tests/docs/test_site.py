"""The documentation site: it is built strictly, loads nothing from outside, and has what error texts and alerts lead to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest
import yaml

from cli.lazy import LazyGroup
from cli.main import root
from codegen import command_reference, configuration
from codegen.commands import each_command
from codegen.site import DOCS, NAV, PAGES, ROOT
from coordinator.config import document_keys
from coordinator.config.settings import NODE
from gateway.settings import GATEWAY

LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
STYLE_FROM = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""")


class Html(HTMLParser):
    """The anchors of a page, and what a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.ids.add(str(found["id"]))
        if tag in LOADING and found.get("rel") != "canonical":
            self.loaded.append(found.get(LOADING[tag]) or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `mkdocs build` makes it; links that lead nowhere end that."""
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def html(site: Path, page: str) -> Html:
    return Html((site / page).with_suffix(".html").read_text(encoding="utf-8"))


def test_every_page_is_there_and_none_twice(site: Path) -> None:
    known = [page for pages in NAV.values() for page in pages]
    assert len(set(known)) == len(known)
    for page in known:
        source = ROOT / PAGES.get(page, f"{DOCS}/{page}")
        made = site / page.replace("README.md", "index.md").replace(".md", ".html")
        assert made.exists() == source.exists(), page


def test_nothing_is_loaded_from_outside(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loaded = Html(page.read_text(encoding="utf-8")).loaded
        assert [one for one in loaded if re.match(r"(?:https?:)?//", one)] == [], page
    for style in site.rglob("*.css"):
        assert not STYLE_FROM.search(style.read_text(encoding="utf-8")), style


def test_every_alert_leads_to_its_entry_of_the_runbook(site: Path) -> None:
    entries = html(site, "runbook.md").ids
    rules = yaml.safe_load((ROOT / "helm/monitoring/rules/alerts.yaml").read_text(encoding="utf-8"))
    anchors = {rule["annotations"]["runbook_url"].partition("#")[2] for group in rules["groups"] for rule in group["rules"]}
    assert anchors
    assert anchors <= entries


def test_every_key_and_every_command_has_an_anchor(site: Path) -> None:
    assert {configuration.anchor(one.key) for one in document_keys()} <= html(site, "configuration.md").ids
    assert {command_reference.anchor(words) for words, _ in each_command()} <= html(site, "command-reference.md").ids


def command_lines() -> Iterator[tuple[Path, str]]:
    """Every line of a page that runs `diskless`."""
    for page in (*(ROOT / DOCS).glob("*.md"), ROOT / PAGES["runbook.md"], ROOT / PAGES["command-line.md"], ROOT / "README.md"):
        for block in re.findall(r"^ *```bash\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            yield from ((page, line.split(" #")[0].strip()) for line in lines if line.strip().startswith("diskless "))


def test_commands_that_are_shown_exist_with_their_options() -> None:
    shown = set(command_lines())
    assert len(shown) > 20
    for page, line in shown:
        words = line.split("|")[0].split("<")[0].split()[1:]
        command: click.Command = root
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            name = words.pop(0)
            lazy = command.lazy.get(name) if isinstance(command, LazyGroup) else None
            found = command.commands.get(name) if lazy is None else lazy.load()
            assert found is not None, f"{page}: {line}: no command {name}"
            command = found
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
        options = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert options <= known, f"{page}: {line}: no option {sorted(options - known)}"


REACHING = ("--bootstrap-server", "--kafka-bootstrap-server")
FOR_TRIALS = ("docs/getting-started.md", "docs/use-your-kafka-clients.md", "README.md")
"""Pages for a first service, in plain text."""


def test_every_command_that_connects_takes_client_properties() -> None:
    commands = [(words, {name for one in command.params for name in one.opts}) for words, command in each_command()]
    connecting = [(words, options) for words, options in commands if options.intersection(REACHING)]
    assert len(connecting) > 30
    assert [words for words, options in connecting if "--command-config" not in options] == []


def test_guide_and_runbook_show_commands_as_they_are_on_a_secured_service() -> None:
    pages = {page for page, _ in command_lines() if str(page.relative_to(ROOT)) not in FOR_TRIALS}
    assert {ROOT / "docs/operating.md", ROOT / "docs/upgrades.md", ROOT / PAGES["runbook.md"]} <= pages
    reaching = [(page, line) for page, line in command_lines() if page in pages and set(line.split()).intersection(REACHING)]
    # The only one that shows what happens without a login.
    plain = [line for _, line in reaching if "--command-config" not in line and not line.endswith('|| echo "no login, no answer"')]
    assert plain == []


def test_settings_that_pages_name_exist() -> None:
    """Those of a block are settings of one kind of process: a node or a gateway."""
    for page in (*(ROOT / DOCS).glob("*.md"), ROOT / "README.md"):
        for block in re.findall(r"^ *```properties\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            keys = {line.partition("=")[0].strip() for line in block.splitlines() if "=" in line and not line.strip().startswith("#")}
            unknown = [
                {key for key in keys - set(table.keys) if table.family_of(key) is None and table.listener_key(key) is None}
                for table in (NODE, GATEWAY)
            ]
            assert set() in unknown, (page, unknown)
