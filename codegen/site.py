"""The documentation site, as hooks of MkDocs (`mkdocs.yml`): pages of the whole repository, its order, and its links.

A page exists once, where its subject is; the site shows those below `docs` and, by `PAGES`, others of the repository. Links are
written for readers of the repository. On the site a link to a page leads there, and a link to anything else becomes its path.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = "docs"

PAGES: Mapping[str, str] = {
    "command-line.md": "cli/README.md",
    "security.md": "SECURITY.md",
    "chart.md": "helm/diskless-coordinator/README.md",
    "dashboards.md": "helm/README.md",
    "runbook.md": "helm/monitoring/runbook.md",
    "monitor.md": "spark_jobs/README.md",
    "design.md": "coordinator/DESIGN.md",
    "gateway-design.md": "gateway/DESIGN.md",
    "divergence.md": "coordinator/DIVERGENCE.md",
    "contributing.md": "CONTRIBUTING.md",
    "benchmarks.md": "benchmarks/README.md",
}
"""Pages of the site that are elsewhere in the repository."""

HOME = {"README.md": "index.md"}
"""What links of the repository mean by these is another page of the site."""

NAV: Mapping[str, tuple[str, ...]] = {
    "Start": ("index.md", "getting-started.md", "use-your-kafka-clients.md", "topics-as-tables.md", "concepts.md", "compare.md"),
    "Operate": (
        "operating.md",
        "tasks.md",
        "sizing.md",
        "secure-nodes.md",
        "secure-gateways.md",
        "gateway-tuning.md",
        "gateway-limits.md",
        "secured-kafka.md",
        "systemd.md",
        "chart.md",
        "prometheus.md",
        "dashboards.md",
        "monitor.md",
        "monitor-on-a-cluster.md",
        "tables-export.md",
        "runbook.md",
        "upgrades.md",
        "rotate-secrets.md",
        "remove-node.md",
        "grow-volumes.md",
        "migration.md",
        "security.md",
    ),
    "Reference": (
        "configuration.md",
        "gateway-configuration.md",
        "commands.md",
        "command-reference.md",
        "command-line.md",
        "operations.md",
        "metrics.md",
        "snapshot-format.md",
        "licences.md",
    ),
    "Design": ("design.md", "gateway-design.md", "divergence.md", "decisions/README.md", "benchmarks.md", "contributing.md"),
    "Subjects of the design": (
        "design/state-database.md",
        "design/snapshots.md",
        "design/restore.md",
        "design/data-directories.md",
        "design/files.md",
        "design/object-store.md",
        "design/orphans.md",
        "design/retention.md",
        "design/directory.md",
        "design/moves.md",
        "design/nodes.md",
        "design/long-polls.md",
        "design/client.md",
        "design/migration.md",
        "design/tables.md",
        "design/table-exports.md",
        "design/failures.md",
        "design/proof.md",
    ),
}
"""The order of the pages; one that is not there is left out, and others of `docs` follow below "More"."""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|//|#")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages in their order."""
    here = {path.relative_to(ROOT / DOCS).as_posix() for path in (ROOT / DOCS).rglob("*.md")}
    here |= {page for page, source in PAGES.items() if (ROOT / source).is_file()}
    decisions = sorted(page for page in here if page.startswith("decisions/") and page != "decisions/README.md")
    nav: list[dict[str, Any]] = [{title: [page for page in pages if page in here]} for title, pages in NAV.items()]
    nav.append({"Decisions": decisions})
    more = sorted(here - {page for pages in NAV.values() for page in pages} - set(decisions))
    config.nav = [*nav, {"More": more}] if more else nav
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are elsewhere."""
    for page, source in PAGES.items():
        if (ROOT / source).is_file():
            files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links of the repository into links of the site."""
    uri = page.file.src_uri
    source = PAGES.get(uri, f"{DOCS}/{uri}")
    return "".join(
        text if is_code else _LINK.sub(lambda link: _of_site(link, uri, source, files), text) for text, is_code in _parts(markdown)
    )


def _parts(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield the text in order, what is code apart from the rest."""
    end = 0
    for code in _CODE.finditer(markdown):
        yield markdown[end : code.start()], False
        yield code[0], True
        end = code.end()
    yield markdown[end:], False


def _of_site(link: re.Match[str], uri: str, source: str, files: Files) -> str:
    is_picture, text, target = link[1], link[2], link[3]
    if _EXTERNAL.match(target):
        return link[0]
    path, hash_sign, anchor = target.partition("#")
    place = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    pages = {of: name for name, of in PAGES.items()} | HOME
    # A folder means its README, as on code hosts.
    page = next((found for one in (place, f"{place}/README.md") if (found := _page(one, pages, files)) is not None), None)
    if page is not None:
        return f"{is_picture}[{text}]({posixpath.relpath(page, posixpath.dirname(uri) or '.')}{hash_sign}{anchor})"
    if not (ROOT / place).exists():
        return link[0]  # MkDocs refuses it
    return f"`{place}`" if text in (place, path) else f"{text} (`{place}`)"


def _page(place: str, pages: Mapping[str, str], files: Files) -> str | None:
    """The page of the site that a file of the repository is, if any."""
    name = pages.get(place, place.removeprefix(f"{DOCS}/") if place.startswith(f"{DOCS}/") else None)
    return name if name is not None and files.get_file_from_path(name) is not None else None
