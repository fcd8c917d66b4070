"""The files of the chart that are made: README.md and values.schema.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from helm.generator.chart.readme import readme
from helm.generator.chart.schema import schema
from helm.generator.chart.values import parse_values

CHART: Final = Path(__file__).parents[2] / "diskless-coordinator"
FRAME: Final = Path(__file__).with_name("frame.md")


def chart_files(chart: Path = CHART) -> Mapping[str, str]:
    """Every made file by its name in the chart's folder, made of its values.yaml. Raises `UndocumentedValueError`."""
    values = parse_values((chart / "values.yaml").read_text(encoding="utf-8"))
    return {"README.md": readme(FRAME.read_text(encoding="utf-8"), values), "values.schema.json": schema(values)}


def stale_chart_files(chart: Path = CHART) -> list[str]:
    """The made files of a chart that are missing or differ. Raises `UndocumentedValueError`."""
    made = chart_files(chart)
    return sorted(name for name, text in made.items() if not (chart / name).is_file() or (chart / name).read_text(encoding="utf-8") != text)
