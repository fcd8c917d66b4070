"""Options of the data source: those of Spark's Kafka source by its names and rules, its own, and what is refused with a remedy."""

from __future__ import annotations

import logging
import pickle
import re
from collections.abc import Callable

import pytest

from tables.reading.span import COLUMNS, Damage
from tables.source.offsets import EARLIEST, LATEST, Positions, TopicPlace
from tables.source.options import (
    KNOWN,
    AtOffset,
    AtOffsets,
    AtTime,
    AtTimes,
    NoMatch,
    SourceOptionError,
    SourceOptions,
    SplitBy,
    TopicChoice,
    parse_batch_options,
    parse_options,
    parse_stream_options,
)
from tests.tables.source.given import ACCESS, batch, chosen, stream

A, B = TopicPlace("orders", 0), TopicPlace("orders", 1)


def test_what_is_not_given_is_as_in_sparks_kafka_source() -> None:
    options = batch()
    assert (options.starting, options.ending) == (AtOffset(EARLIEST), AtOffset(LATEST))
    assert stream().starting == AtOffset(LATEST)
    assert options.fail_on_data_loss
    assert options.columns == COLUMNS
    assert options.no_match is NoMatch.ERROR
    assert options.trigger_delay_ms == 15 * 60_000
    assert (options.split, options.fetch_bytes, options.pushes_filters, options.on_damage) == (SplitBy.AUTO, 32 << 20, False, Damage.FAIL)
    assert (options.min_splits, options.records_per_split_max, options.max_per_trigger, options.min_per_trigger) == (None,) * 4


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ({"subscribe": " orders, clicks ,,orders"}, TopicChoice(names=("orders", "clicks"))),
        ({"SUBSCRIBE": "orders"}, TopicChoice(names=("orders",))),
        ({"subscribePattern": "or.*"}, TopicChoice(pattern="or.*")),
        ({"assign": '{"orders":[1,0,1]}'}, TopicChoice(places=(A, B))),
    ],
)
def test_topics_are_chosen_in_one_of_three_ways(given: dict[str, str], choice: TopicChoice) -> None:
    assert parse_batch_options({**ACCESS, **given}).choice == choice


EACH: list[tuple[dict[str, str], Callable[[SourceOptions], object], object]] = [
    ({"startingOffsets": "latest"}, lambda o: o.starting, AtOffset(LATEST)),
    ({"startingOffsets": " Earliest "}, lambda o: o.starting, AtOffset(EARLIEST)),
    ({"startingoffsets": '{"orders":{"0":23,"1":-1}}'}, lambda o: o.starting, AtOffsets(Positions(offsets={A: 23, B: -1}))),
    ({"startingTimestamp": "1700000000000"}, lambda o: o.starting, AtTime(1_700_000_000_000)),
    ({"startingOffsetsByTimestamp": '{"orders":{"0":5,"1":6}}'}, lambda o: o.starting, AtTimes({A: 5, B: 6})),
    ({"startingTimestamp": "7", "startingOffsets": "latest"}, lambda o: o.starting, AtTime(7)),
    ({"startingOffsetsByTimestamp": '{"orders":{"0":5}}', "startingOffsets": "latest"}, lambda o: o.starting, AtTimes({A: 5})),
    ({"endingOffsets": '{"orders":{"0":9}}'}, lambda o: o.ending, AtOffsets(Positions(offsets={A: 9}))),
    ({"endingTimestamp": "8"}, lambda o: o.ending, AtTime(8)),
    ({"endingOffsetsByTimestamp": '{"orders":{"0":8}}'}, lambda o: o.ending, AtTimes({A: 8})),
    ({"startingOffsetsByTimestampStrategy": "LATEST"}, lambda o: o.no_match, NoMatch.LATEST),
    ({"maxOffsetsPerTrigger": "400"}, lambda o: o.max_per_trigger, 400),
    ({"minOffsetsPerTrigger": "40"}, lambda o: o.min_per_trigger, 40),
    ({"maxTriggerDelay": "30s"}, lambda o: o.trigger_delay_ms, 30_000),
    ({"maxTriggerDelay": "250"}, lambda o: o.trigger_delay_ms, 250),
    ({"minPartitions": "7"}, lambda o: o.min_splits, 7),
    ({"maxRecordsPerPartition": "9"}, lambda o: o.records_per_split_max, 9),
    ({"failOnDataLoss": "False"}, lambda o: o.fail_on_data_loss, False),
    ({"includeHeaders": "true"}, lambda o: o.columns, (*COLUMNS, "headers")),
    ({"columns": "Offset, timestampType"}, lambda o: o.columns, ("offset", "timestampType")),
    ({"columns": "headers,offset", "includeHeaders": "true"}, lambda o: o.columns, ("headers", "offset")),
    ({"splitBy": "objects"}, lambda o: o.split, SplitBy.OBJECTS),
    ({"fetchBytes": "8m"}, lambda o: o.fetch_bytes, 8 << 20),
    ({"pushdown": "true"}, lambda o: o.pushes_filters, True),
    ({"onDamage": "skip"}, lambda o: o.on_damage, Damage.SKIP),
    ({"diskless.timeout": "5s"}, lambda o: o.access.timeout_ms, 5000),
    ({"diskless.config": "/etc/client.properties"}, lambda o: o.access.config_file, "/etc/client.properties"),
    (
        {"diskless.security.protocol": "SSL", "diskless.ssl.ca.location": "/etc/ca.crt"},
        lambda o: o.access.security,
        {"security.protocol": "SSL", "ssl.ca.location": "/etc/ca.crt"},
    ),
    ({"diskless.object.store.option.endpoint": "http://s3:9000"}, lambda o: o.access.store_options, {"endpoint": "http://s3:9000"}),
    (
        {"groupId": "readers", "diskless.kafka.bootstrap.servers": "kafka:9092"},
        lambda o: (o.group_id, o.kafka_servers),
        ("readers", "kafka:9092"),
    ),
]


@pytest.mark.parametrize(("given", "part", "expected"), EACH, ids=lambda one: ",".join(one) if isinstance(one, dict) else "")
def test_each_option_is_read(given: dict[str, str], part: Callable[[SourceOptions], object], expected: object) -> None:
    options = parse_options(chosen(given))
    assert part(options) == expected
    assert pickle.loads(pickle.dumps(options)) == options, "Spark hands it to executors"


def test_every_option_has_an_example_here() -> None:
    given = {name.lower() for one, _, _ in EACH for name in one} | {"assign", "subscribe", "subscribepattern"}
    assert {name.lower() for name in KNOWN} - given == set(ACCESS)


SHARED: list[tuple[dict[str, str], str]] = [
    ({"subscribe": "a", "assign": "{}"}, "Only one of the following options can be specified .* assign, subscribe, subscribePattern"),
    ({"subscribe": " , "}, "'subscribe' names no topics"),
    ({"subscribePattern": "("}, "'subscribePattern': .* is no regular expression"),
    ({"subscribePattern": " "}, "'subscribePattern' must be specified"),
    ({"assign": "orders"}, r"'assign': expected e.g. \{\"topicA\":\[0,1\].*it is no JSON"),
    ({"assign": '{"orders":[-1]}'}, "-1 is no partition"),
    ({"assign": "{}"}, "'assign' names no partitions"),
    ({"startingOffsets": "first"}, "'startingOffsets': expected earliest, latest, or"),
    ({"startingOffsets": '{"orders":{"0":-3}}'}, "-3 is no offset"),
    ({"startingOffsets": '{"orders":{"x":3}}'}, "'x' is no partition"),
    ({"startingOffsets": '{"orders":{"0":true}}'}, "True is no offset"),
    ({"startingOffsets": "[" * 100_000}, "it is no JSON"),
    ({"startingOffsets": '{"orders":{"0":' + "9" * 5000 + "}}"}, "it is no JSON"),
    ({"startingTimestamp": "-5"}, "'startingTimestamp': expected a time in milliseconds"),
    ({"startingOffsetsByTimestamp": '{"orders":{"0":-1}}'}, "orders-0: times begin at 0"),
    ({"startingOffsetsByTimestampStrategy": "earliest"}, "expected error or latest"),
    ({"maxOffsetsPerTrigger": "0"}, "'maxOffsetsPerTrigger': expected a whole number that is positive"),
    ({"minPartitions": "-1"}, "'minPartitions': expected a whole number that is positive"),
    ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, r"minOffsetsPerTrigger \(9\) is higher than maxOffsetsPerTrigger \(8\)"),
    ({"maxTriggerDelay": "soon"}, "expected a time such as"),
    ({"failOnDataLoss": "yes"}, "expected true or false"),
    ({"columns": "offset,value_size"}, "'value_size' is none of key, value, topic"),
    ({"columns": "headers"}, "headers need includeHeaders=true"),
    ({"columns": ","}, "names no column"),
    ({"splitBy": "file"}, "expected partition or objects or auto"),
    ({"fetchBytes": "10"}, "must be 1m to 1g"),
    ({"onDamage": "ignore"}, "expected fail or skip"),
    ({"diskless.timeout": "0"}, "must be more than 0"),
    ({"groupId": "readers"}, "groupId needs diskless.kafka.bootstrap.servers"),
    ({"startingOffset": "latest"}, "Unknown option 'startingoffset' of the diskless source; did you mean 'startingOffsets'"),
    ({"wholly": "other"}, "Unknown option 'wholly' .* the options are assign, columns"),
    ({"path": "/orders"}, "use subscribe: load\\(\\) takes no path"),
    ({"topic": "orders"}, "use subscribe; the source reads"),
    ({"kafka.bootstrap.servers": "kafka:9092"}, "'kafka.bootstrap.servers' is not supported .* use diskless.bootstrap.servers"),
    ({"kafka.group.id": "readers"}, "use groupId"),
    ({"kafka.auto.offset.reset": "earliest"}, "use startingOffsets"),
    ({"kafka.fetch.max.bytes": "1"}, "use fetchBytes"),
    ({"kafka.isolation.level": "read_committed"}, "no transactions"),
    ({"kafka.ssl.ca.location": "/ca"}, "use diskless.ssl.ca.location, or name a properties file"),
    ({"kafka.sasl.jaas.config": "secret-7"}, "name a properties file with it in diskless.config"),
    ({"kafka.value.deserializer": "x"}, "leave it out: no Kafka client takes part"),
    ({"groupIdPrefix": "x"}, "use groupId"),
    ({"fetchOffset.numRetries": "3"}, "use diskless.timeout"),
    ({"diskless.sasl.password": "secret-7"}, "holds a secret, which Spark would keep in the plan"),
    ({"diskless.ssl.key.password": "secret-7"}, "holds a secret"),
    ({"diskless.ssl.ca.pem": "secret-7"}, "holds a secret"),
    ({"diskless.sasl.jaas.config": "secret-7"}, "holds a secret"),
    ({"diskless.object.store.option.secret_access_key": "secret-7"}, "holds a secret.* usual environment variables"),
    ({"diskless.object.store.option.access.key.id": "secret-7"}, "holds a secret"),
    ({"diskless.object.store.option.proxy.url": "secret-7"}, "holds a secret"),
    ({"diskless.object.store.url": "s3://me:secret-7@bucket"}, "holds a secret"),
]


@pytest.mark.parametrize(("given", "said"), SHARED, ids=lambda one: ",".join(one) if isinstance(one, dict) else "")
def test_a_wrong_option_is_refused_with_what_is_wanted(given: dict[str, str], said: str) -> None:
    for parse in (parse_options, parse_batch_options, parse_stream_options):
        with pytest.raises(SourceOptionError, match=re.compile(said, re.DOTALL)) as refused:
            parse(chosen(given))
        assert "secret-7" not in str(refused.value)
        assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("missing", ["subscribe", *ACCESS])
def test_what_a_query_needs_is_named(missing: str) -> None:
    given = {name: value for name, value in chosen({}).items() if name != missing}
    with pytest.raises(SourceOptionError, match="must be specified") as refused:
        parse_batch_options(given)
    assert missing in str(refused.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets can't be latest for batch queries"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, r"startingOffsets for orders-0 can't be latest \(-1\)"),
        ({"endingOffsets": "earliest"}, "endingOffsets can't be earliest for batch queries"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, r"endingOffsets for orders-0 can't be earliest \(-2\)"),
        ({"startingOffsets": '{"orders":{"0":9}}', "endingOffsets": '{"orders":{"0":8}}'}, "starting offset 9 of orders-0 is greater"),
        ({"startingOffsets": '{"orders":{"0":9}}', "endingOffsets": '{"orders":{"1":9}}'}, "name the same in both"),
        (
            {"startingOffsetsByTimestamp": '{"orders":{"0":9}}', "endingOffsetsByTimestamp": '{"orders":{"0":8}}'},
            "starting time 9 of orders-0 is greater than its ending time 8",
        ),
    ],
)
def test_bounds_that_a_batch_query_cannot_have_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(SourceOptionError, match=said):
        batch(**given)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(SourceOptionError, match=f"{name} is not valid in streaming queries"):
        stream(**{name: "5"})


def test_options_of_streams_are_ignored_in_batch_queries(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        batch(maxOffsetsPerTrigger="5", maxTriggerDelay="1s")
    assert [record.message for record in caplog.records] == [
        "option maxOffsetsPerTrigger ignored in batch queries",
        "option maxTriggerDelay ignored in batch queries",
    ]
