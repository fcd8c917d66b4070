"""Some hundreds of damages of real state databases at rest; `python -m tests.damage --at-rest` does thousands."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.damage.at_rest import BAD, damages


@pytest.fixture
def quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("quiet")
def test_no_damage_at_rest_leads_to_a_wrong_answer(tmp_path: Path) -> None:
    results = list(islice(damages(1, tmp_path), 200))
    assert [(kind, result) for kind, result in results if result.startswith(BAD)] == []
    assert {result for _, result in results} == {"set aside", "begun anew", "older state", "believed, rightly"}
