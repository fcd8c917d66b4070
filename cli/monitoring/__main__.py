"""`python -m cli.monitoring`: write the files, or with `--check` compare them."""

from __future__ import annotations

from pathlib import Path

import click

from cli.monitoring.write import FOLDER, RUNBOOK, files


def stale(folder: Path, runbook_url: str = RUNBOOK) -> list[str]:
    """The files of the folder that are missing, differ, or should not be there."""
    wanted = files(runbook_url)
    found = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in {".json", ".yaml", ".md"}
    }
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, show_default="helm/monitoring", help="Where the files belong.")
@click.option("--runbook-url", default=RUNBOOK, show_default=True, help="Where you publish the runbook: alerts link to its headings.")
@click.option("--check", is_flag=True, help="Write nothing; end with status 1 when a file is not what would be written.")
def main(folder: Path, runbook_url: str, check: bool) -> None:
    """Write Grafana's dashboards, Prometheus' rules and the runbook."""
    if check:
        if names := stale(folder, runbook_url):
            raise click.ClickException(f"not up to date: {', '.join(names)}. Run `python -m cli.monitoring`")
        return
    for name, text in files(runbook_url).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
