"""The files of the chart that are made: README.md, values.schema.json, the rule for secrets, and copies of dashboards and rules.

Copies, because Helm packs no files from outside of the chart's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from helm.generator.chart import secrets
from helm.generator.chart.readme import readme
from helm.generator.chart.schema import schema
from helm.generator.chart.values import parse_values
from helm.generator.write import files

CHART: Final = Path(__file__).parents[2] / "diskless-coordinator"
MONITORING: Final = "monitoring"
FRAME: Final = Path(__file__).with_name("frame.md")


def chart_files(chart: Path = CHART) -> Mapping[str, str]:
    """Every made file by its name in the chart's folder, made of its values.yaml. Raises `UndocumentedValueError`."""
    values = parse_values((chart / "values.yaml").read_text(encoding="utf-8"))
    copies = {f"{MONITORING}/{name}": text for name, text in files().items() if name.startswith(("dashboards/", "rules/"))}
    return {
        "README.md": readme(FRAME.read_text(encoding="utf-8"), values),
        "values.schema.json": schema(values),
        secrets.NAME: secrets.secrets_template(),
        **copies,
    }


def stale_chart_files(chart: Path = CHART) -> list[str]:
    """The made files of a chart that are missing or differ, and copies that should not be there. Raises `UndocumentedValueError`."""
    made = chart_files(chart)
    changed = {name for name, text in made.items() if not (chart / name).is_file() or (chart / name).read_text(encoding="utf-8") != text}
    copies = {path.relative_to(chart).as_posix() for path in (chart / MONITORING).rglob("*") if path.is_file()}
    return sorted(changed | (copies - made.keys()))
