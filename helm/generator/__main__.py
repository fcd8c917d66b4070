"""`python -m helm.generator`: write the files, or with `--check` compare them."""

from __future__ import annotations

from pathlib import Path

import click

from helm.generator.chart.write import CHART, chart_files, stale_chart_files
from helm.generator.write import FOLDER, RUNBOOK, files


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
    """Write Grafana's dashboards, Prometheus' rules and the runbook, and the chart's README and schema."""
    if check:
        if names := [*stale(folder, runbook_url), *(f"{CHART.name}/{name}" for name in stale_chart_files())]:
            raise click.ClickException(f"not up to date: {', '.join(names)}. Run `python -m helm.generator`")
        return
    wanted = {folder / name: text for name, text in files(runbook_url).items()}
    wanted |= {CHART / name: text for name, text in chart_files().items()}
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
