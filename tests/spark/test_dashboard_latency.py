"""Latencies on the page: from the histograms of gateways and nodes, between two looks at them."""

from __future__ import annotations

from spark_jobs.dashboard.latency import CountedSpan, Latencies, grown, quantile
from spark_jobs.dashboard.nodes import AskedNodes, read_answer
from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.sight import NOT_READ
from spark_jobs.dashboard.scraping import Scraping

NOW_MS = 1_800_000_000_000
INF = float("inf")


def gateway(fast: int, slow: int) -> str:
    """What a gateway answers that has seen so many commits of 10 ms at most, and so many of 5 to 10 s."""
    counts = {"0.01": fast, "5.0": fast, "10.0": fast + slow, "+Inf": fast + slow}
    lines = [f'diskless_gateway_produce_commit_seconds_bucket{{le="{limit}"}} {count}' for limit, count in counts.items()]
    return "\n".join(['diskless_gateway_info{node_id="9",rack="",version="1"} 1', *lines]) + "\n"


def node(count: int) -> str:
    """What a node answers that has decided so many commits in 1 ms at most."""
    name = "diskless_coordinator_request_seconds_bucket"
    other = f'{name}{{api="METADATA",le="0.001"}} 900\n{name}{{api="METADATA",le="+Inf"}} 900\n'
    return f'{name}{{api="COMMIT_FILE",le="0.001"}} {count}\n{name}{{api="COMMIT_FILE",le="+Inf"}} {count}\n{other}'


def test_what_a_histogram_counted_since_is_its_growth_and_a_restart_counts_from_the_start() -> None:
    assert grown({1.0: 5, 2.0: 7, INF: 7}, {1.0: 6, 2.0: 9, INF: 10}) == {1.0: 1, 2.0: 1, INF: 1}
    assert grown({1.0: 5, INF: 7}, {1.0: 2, INF: 3}) == {1.0: 2, INF: 1}
    assert [quantile({1.0: 98, 2.0: 1, INF: 1}, percent) for percent in (50, 98, 99, 100)] == [1.0, 1.0, 2.0, 2.0]
    assert quantile({1.0: 0.0, INF: 0.0}, 99) is None


def test_a_fail_over_shows_at_the_clients_and_not_at_the_nodes() -> None:
    nodes = AskedNodes(["g:1", "n:1"], lambda: NOW_MS, Scraping())
    for number, (fast, slow, decided) in enumerate(((0, 0, 0), (100, 0, 100), (100, 0, 100), (101, 3, 104))):
        now_ms = NOW_MS - 30_000 + 6000 * number
        nodes.all[0].note(gateway(fast, slow), "", now_ms)
        nodes.all[1].note(node(decided), "", now_ms)
        nodes.note_look(now_ms)
    answer = nodes.latencies.answer(PanelQuery(), NOW_MS, nodes.who_answers())
    assert answer["asked"] == ["clients", "nodes"]
    assert answer["lines"]["clients"]["p99"] == [10.0, None, 10_000.0], "nothing was committed while there was no leader"
    assert answer["lines"]["clients"]["p50"] == [10.0, None, 10_000.0]
    assert answer["lines"]["nodes"]["max"] == [1.0, None, 1.0]
    (before, after) = answer["unknown"]
    assert (before["to_ms"], before["why"]) == (NOW_MS - 30_000, NOT_READ)
    assert (after["from_ms"], after["to_ms"]) == (NOW_MS - 12_000, NOW_MS)


def test_looks_are_kept_for_two_hours_and_pauses_between_them_are_not_known() -> None:
    latencies = Latencies()
    for hour in (3, 1, 0):
        at_ms = NOW_MS - hour * 3_600_000
        latencies.add(CountedSpan(at_ms - 3000, at_ms, {"nodes": {0.5: 1}}))
    day = latencies.answer(PanelQuery(range_s=86400), NOW_MS, ["nodes"])
    assert (len(day["times_ms"]), day["lines"]["nodes"]["p99"]) == (1, [500.0]), "the newest look ends with the range"
    past = latencies.answer(PanelQuery(range_s=600, to_s=NOW_MS // 1000 - 3500), NOW_MS, ["nodes"])
    assert past["lines"]["nodes"]["p95"] == [500.0]
    assert {span["why"] for span in past["unknown"]} == {NOT_READ}


def test_gateways_are_called_so() -> None:
    assert read_answer(gateway(1, 0)).name == "gateway 9"
