"""What `diskless monitor verify` prints of comparisons, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cli.outcome import Exit, Failed
from cli.spark.verify_outcome import end, outcome_of, show
from spark_jobs.verify.compare import ReplicaComparison

AGREES = ReplicaComparison(replica="node 1", kpart=0, offset=41, digest="aa", agree=True, batches=7)
DIFFERS = replace(AGREES, replica="node 2", agree=False, difference="file object_key=x: size_bytes is 1")
UNKNOWN = replace(AGREES, kpart=1, agree=None, difference="no such partition")
WITH_A_LIE = replace(AGREES, kpart=2, contradictions={17: "a batch is missing"})


def test_a_table_lists_replicas_and_then_what_contradicts_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    show([AGREES, WITH_A_LIE], "table")
    printed = capsys.readouterr()
    assert "entries that contradict the log, void for every replica:" in printed.err
    assert [line.split()[:2] for line in printed.out.splitlines()[-2:]] == [["KPART", "OFFSET"], ["2", "17"]]
    show([AGREES], "table")
    printed = capsys.readouterr()
    assert "contradict" not in printed.err
    assert [line.split()[:3] for line in printed.out.splitlines()[-1:]] == [["0", "node", "1"]]


def test_machines_get_both_in_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    show([AGREES, UNKNOWN, WITH_A_LIE], "json")
    found = json.loads(capsys.readouterr().out)
    assert found["agree"] is True
    assert [one["kpart"] for one in found["partitions"]] == [0, 2]
    assert [one["difference"] for one in found["not_compared"]] == ["no such partition"]
    assert found["contradictions"] == [{"kpart": 2, "offset": 17, "why": "a batch is missing"}]


def test_nothing_compared_is_no_agreement() -> None:
    assert outcome_of([UNKNOWN])["agree"] is False
    assert outcome_of([])["agree"] is False


def test_it_ends_well_only_when_all_agree(capsys: pytest.CaptureFixture[str]) -> None:
    end([AGREES, WITH_A_LIE])
    assert "the log and 2 replicas agree (14 batches read)" in capsys.readouterr().err
    end([replace(AGREES, begin=9)])
    assert "from snapshots on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("results", "status", "text"),
    [
        ([AGREES, DIFFERS, UNKNOWN], Exit.AUDIT, "the log and 1 of 3 replicas do not agree"),
        ([AGREES, UNKNOWN], Exit.FAILURE, "1 of 2 replicas could not be compared"),
        ([replace(UNKNOWN, is_pruned=True)], Exit.FAILURE, "--object-store-url"),
        ([], Exit.FAILURE, "0 of 0"),
    ],
)
def test_what_differs_counts_more_than_what_is_not_known(results: list[ReplicaComparison], status: Exit, text: str) -> None:
    with pytest.raises(Failed, match=text) as ended:
        end(results)
    assert ended.value.status == status
