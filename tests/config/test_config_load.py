"""Loading: precedence of the sources, one error with everything in it, rules between settings, secrets stay hidden."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from coordinator.config import KEYS, ConfigError, Settings, advice, document_keys, load_settings, parse_properties_flags, render
from coordinator.config.keys import Key
from coordinator.config.settings import NODE
from coordinator.config.sources import SourceError, environment_name, parse_properties
from coordinator.config.values import HttpAddress, Listener, numbers_in
from coordinator.kafka.acls import TopicPattern
from records.history import levels
from records.levels import LEVEL_LATEST

ESSENTIAL = {
    "node.id": "1",
    "bootstrap.servers": "localhost:9092",
    "data.dirs": "/var/lib/diskless",
    "object.store.url": "file:///var/lib/objects",
}


def load(**given: str) -> Settings:
    return load_settings(overrides=ESSENTIAL | {key.replace("__", "."): value for key, value in given.items()})


def problems_of(overrides: dict[str, str]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load_settings(overrides=ESSENTIAL | overrides)
    return {problem.key: str(problem) for problem in caught.value.problems}


def test_defaults_are_within_their_own_bounds_and_rules() -> None:
    settings = load()
    assert settings.node_id == 1
    assert settings.metadata_topic == "__diskless_metadata"
    assert settings.listeners == (Listener("PLAINTEXT", "0.0.0.0", 9192),)
    assert settings.http_listener == HttpAddress("0.0.0.0", 9193)
    assert settings.data_dirs == (Path("/var/lib/diskless"),)
    assert advice(settings) == []


def test_attribute_and_key_are_the_same_words() -> None:
    for field in fields(Settings):
        if "key" in field.metadata:
            assert field.name == field.metadata["key"].name.replace(".", "_")


def test_every_key_has_a_reason_and_a_distinct_variable() -> None:
    assert all(len(key.why) > 60 and key.why.endswith((".", "only.")) for key in KEYS.values())
    assert len({environment_name(key) for key in KEYS}) == len(KEYS)
    assert {row.key for row in document_keys()} == set(KEYS) | {"kafka.*", "object.store.option.*", "listener.name.*"}


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = tmp_path / "coordinator.properties"
    file.write_text(
        "".join(f"{key}={value}\n" for key, value in ESSENTIAL.items()) + "group.id=file\nnode.rack=file\nmetadata.topic=file\n"
    )
    env = {"DISKLESS_GROUP_ID": "env", "DISKLESS_NODE_RACK": "env", "HOME": "/root"}
    settings = load_settings(file, env, {"group.id": "flag"})
    assert (settings.group_id, settings.node_rack, settings.metadata_topic, settings.standby_replicas) == ("flag", "env", "file", 1)
    assert settings.sources["group.id"] == "--property"
    assert settings.sources["node.rack"] == "environment variable DISKLESS_NODE_RACK"
    assert settings.sources["metadata.topic"] == f"{file}:7"
    assert "standby.replicas" not in settings.sources


@pytest.mark.parametrize(
    ("variable", "attribute", "value"),
    [
        ("DISKLESS_METADATA_TOPIC_NUM_PARTITIONS", "diskless_metadata_topic_num_partitions", "16"),
        ("DISKLESS_DISKLESS_METADATA_TOPIC_NUM_PARTITIONS", "diskless_metadata_topic_num_partitions", "16"),
        ("DISKLESS_NODE_ID", "node_id", "16"),
        ("DISKLESS_COMMIT_RESULTS_RETENTION_MS", "commit_results_retention_ms", "1800001"),
    ],
)
def test_environment_names(variable: str, attribute: str, value: str) -> None:
    assert (
        str(
            getattr(
                load_settings(
                    env={variable: value},
                    overrides={k: v for k, v in ESSENTIAL.items() if k != "node.id"}
                    | ({} if variable == "DISKLESS_NODE_ID" else {"node.id": "1"}),
                ),
                attribute,
            )
        )
        == value
    )


def test_variables_of_kubernetes_services_are_no_settings() -> None:
    env = {
        "DISKLESS_COORDINATOR_SERVICE_HOST": "10.0.0.1",
        "DISKLESS_COORDINATOR_SERVICE_PORT": "9192",
        "DISKLESS_COORDINATOR_SERVICE_PORT_HTTP": "9193",
        "DISKLESS_PORT": "tcp://10.0.0.1:9192",
        "DISKLESS_COORDINATOR_PORT_9192_TCP_ADDR": "10.0.0.1",
    }
    assert load_settings(env=env, overrides=ESSENTIAL).node_id == 1


def test_variables_of_the_tools_are_no_settings() -> None:
    env = {"DISKLESS_CACHE_DIR": "/tmp/x", "DISKLESS_KAFKA": "testcontainers", "DISKLESS_KAFKA_IMAGE": "x", "DISKLESS_CONFIG": "x"}
    assert load_settings(env=env, overrides=ESSENTIAL).kafka == {}
    assert load_settings(env={"DISKLESS_KAFKA_SASL_PASSWORD": "x"}, overrides=ESSENTIAL).kafka == {"sasl.password": "x"}


def test_unknown_variable_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"environment variable DISKLESS_NODE_RAK.*did you mean node\.rack\?"):
        load_settings(env={"DISKLESS_NODE_RAK": "a"}, overrides=ESSENTIAL)


def test_all_problems_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(
            overrides={
                "node.id": "-1",
                "sesion.timeout.ms": "1",
                "data.dirs": "a,./a",
                "heartbeat.interval.ms": "5000",
            }
        )
    text = str(caught.value)
    assert text.startswith("6 problems in the configuration:")
    assert "docs/configuration.md explain every key" in text
    assert "node.id = '-1' (--property): must be a whole number from 0 to 2147483647" in text
    assert "did you mean session.timeout.ms?" in text
    assert "must be a list without repeated entries" in text
    assert "must be at most a third of session.timeout.ms" in text
    assert "bootstrap.servers is not set: must be given" in text
    assert "set DISKLESS_OBJECT_STORE_URL or pass --property object.store.url=..." in text


@pytest.mark.parametrize(
    ("key", "overrides", "limit"),
    [
        ("commit.results.retention.ms", {"commit.results.retention.ms": "899999"}, "must be at least 900000 (file.commit.max.age.ms)"),
        ("deleted.topic.retention.ms", {"deleted.topic.retention.ms": "1804999"}, "must be at least 1805000"),
        ("deleted.topic.retention.ms", {"deleted.topic.retention.ms": "3600001", "file.commit.max.age.ms": "1797501"}, "least 3600002"),
        (
            "deleted.topic.retention.ms",
            {"deleted.topic.retention.ms": "3605000", "commit.results.retention.ms": "3600001"},
            "least 3605001",
        ),
        ("deleted.topic.retention.ms", {"deleted.topic.retention.ms": "1900000", "clock.skew.max.ms": "100001"}, "at least 1900001"),
        ("file.fence.retention.ms", {"file.fence.retention.ms": "1804999"}, "must be at least 1805000"),
        ("file.fence.retention.ms", {"file.commit.max.age.ms": "900000", "clock.skew.max.ms": "1800001"}, "must be at least 3600001"),
        ("leader.load.timeout.ms", {"leader.load.timeout.ms": "44999"}, "must be at least 45000 (leader.term.timeout.ms)"),
        ("leader.load.timeout.ms", {"leader.load.timeout.ms": "50000", "session.timeout.ms": "50001"}, "least 50001 (session.timeout.ms)"),
        ("file.commit.max.age.ms", {"file.commit.max.age.ms": "5000"}, "must be above 5000 (clock.skew.max.ms)"),
        ("snapshots.prefix", {"snapshots.prefix": "wal/snapshots"}, "must be apart from object.store.wal.prefix = wal/"),
        ("snapshots.prefix", {"snapshots.prefix": "a", "object.store.wal.prefix": "a/b/"}, "must be apart"),
        ("producer.id.expiration.ms", {"producer.id.expiration.ms": "1000"}, "must be at least 900000"),
        ("diskless.metadata.topic.min.insync.replicas", {"diskless.metadata.topic.replication.factor": "1"}, "must not exceed"),
        ("heartbeat.interval.ms", {"heartbeat.interval.ms": "2001"}, "at most a third of session.timeout.ms = 6000"),
        ("object.store.wal.prefix", {"object.store.wal.prefix": "wal"}, "a relative path that ends with a slash"),
        ("object.store.wal.prefix", {"object.store.wal.prefix": "services/"}, "must not be below services/, where each object is a mark"),
        ("snapshots.prefix", {"snapshots.prefix": "orphan-scan/a"}, "must not be below orphan-scan/, where each object is a record of"),
        ("object.store.wal.prefix", {"object.store.wal.prefix": "wal/./"}, "a relative path that ends with a slash"),
        (
            "listener.security.protocol.map",
            {"listeners": "INSIDE://:9192"},
            "protocol of listener INSIDE; add INSIDE:PROTOCOL",
        ),
        ("listener.security.protocol.map", {"listener.security.protocol.map": "A:TLS"}, "must be NAME:PROTOCOL"),
        ("listener.security.protocol.map", {"listener.security.protocol.map": "A:SSL,a:PLAINTEXT"}, "must name each listener once"),
        ("ssl.keystore.location", {"listeners": "SSL://:9192"}, "must be given: listener SSL is SSL"),
        (
            "ssl.keystore.location",
            {"listeners": "SSL://:9192", "ssl.keystore.location": "/a", "ssl.key.location": "/b"},
            "must not be given beside ssl.certificate.location",
        ),
        ("ssl.keystore.location", {"listeners": "SSL://:9192", "ssl.key.location": "/b"}, "must be given"),
        (
            "ssl.truststore.location",
            {"listeners": "SSL://:9192", "ssl.keystore.location": "/a", "ssl.client.auth": "requested"},
            "must be given: listener SSL is SSL and ssl.client.auth=requested",
        ),
        ("ssl.keystore.type", {"ssl.keystore.type": "JKS"}, "must be one of PEM"),
        ("ssl.enabled.protocols", {"ssl.enabled.protocols": "TLSv1.1"}, "some of TLSv1.3, TLSv1.2"),
        ("ssl.principal.mapping.rules", {"ssl.principal.mapping.rules": "RULE:a"}, "DEFAULT or RULE:pattern/replacement/"),
        ("ssl.principal.mapping.rules", {"ssl.principal.mapping.rules": "RULE:a/$1/"}, "names a group that its pattern has not"),
        ("sasl.enabled.mechanisms", {"listeners": "SASL_PLAINTEXT://:9192"}, "must name a mechanism: listener SASL_PLAINTEXT"),
        ("sasl.enabled.mechanisms", {"sasl.enabled.mechanisms": "GSSAPI"}, "some of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        (
            "users.file",
            {"listeners": "SASL_PLAINTEXT://:9192", "sasl.enabled.mechanisms": "PLAIN"},
            "must be given: listener SASL_PLAINTEXT",
        ),
        (
            "sasl.oauthbearer.jwks.endpoint.url",
            {"listeners": "SASL_PLAINTEXT://:9192", "sasl.enabled.mechanisms": "OAUTHBEARER"},
            "must be given: listener SASL_PLAINTEXT is SASL_PLAINTEXT with OAUTHBEARER",
        ),
        (
            "sasl.oauthbearer.jwks.endpoint.url",
            {"sasl.oauthbearer.jwks.endpoint.url": "http://keys/"},
            "file:///folder/keys.json or https://",
        ),
        ("listener.name.other.users.file", {"listener.name.other.users.file": "/a"}, "other is not one of listeners"),
        ("listener.name.plaintext.ssl.client.auth", {"listener.name.plaintext.ssl.client.auth": "some"}, "must be one of none, requested"),
        (
            "listener.name.plaintext.user.file",
            {"listener.name.plaintext.user.file": "/a"},
            "did you mean listener.name.plaintext.users.file?",
        ),
        ("listeners", {"listeners": "PLAINTEXT://:9192,PLAINTEXT://:9195"}, "must have distinct names"),
        ("http.listener", {"http.listener": "localhost:9192"}, "port 9192 is taken"),
        ("advertised.listeners", {"advertised.listeners": "SSL://coordinator:9192"}, "SSL is not one of listeners"),
        ("advertised.listeners", {"advertised.listeners": "PLAINTEXT://0.0.0.0:9192"}, "no address that a client can connect to"),
        ("kafka.acks", {"kafka.acks": "1"}, "leave it out"),
        ("kafka.max.poll.interval.ms", {"kafka.max.poll.interval.ms": "9000"}, "leave it out"),
        ("kafka.group.id", {"kafka.group.id": "x"}, "set group.id instead"),
        ("data.dirs", {"data.dirs": "/a,/a"}, "without repeated entries"),
        ("object.store.url", {"object.store.url": "s3://"}, "followed by a bucket name"),
        ("object.store.url", {"object.store.url": "file://relative/folder"}, "three slashes"),
        ("object.store.url", {"object.store.url": "/var/lib/objects"}, "a URL that starts with file://"),
        ("http.listener", {"http.listener": "ftp://localhost:1"}, "https://host:port"),
        ("bootstrap.servers", {"bootstrap.servers": "localhost"}, "host:port, comma separated"),
        ("metadata.topic", {"metadata.topic": "a b"}, "a legal Kafka topic name"),
        ("wire.kip.keys.enabled", {"wire.kip.keys.enabled": "yes"}, "must be true or false"),
    ],
)
def test_broken_rule_is_named_with_its_key(key: str, overrides: dict[str, str], limit: str) -> None:
    assert limit in problems_of(overrides)[key]


def test_boundary_values_of_the_rules_are_accepted() -> None:
    load(commit__results__retention__ms="900000", deleted__topic__retention__ms="1805000", heartbeat__interval__ms="2000")
    load(commit__results__retention__ms="3600000", deleted__topic__retention__ms="3605000", leader__load__timeout__ms="45000")
    load(file__commit__max__age__ms="5001")


def test_replication_is_lowered_only_explicitly_and_with_a_warning() -> None:
    settings = load(diskless__metadata__topic__replication__factor="1", diskless__metadata__topic__min__insync__replicas="1")
    assert [line.split("=")[0] for line in advice(settings)] == [
        "diskless.metadata.topic.replication.factor",
        "diskless.metadata.topic.min.insync.replicas",
    ]


def test_more_coordinators_than_a_file_may_have_are_allowed_with_a_warning() -> None:
    assert advice(load(diskless__metadata__topic__num__partitions="64")) == []
    [told] = advice(load(diskless__metadata__topic__num__partitions="65"))
    assert "num.partitions=65: a file may have batches of at most 64 coordinators" in told
    assert "4096" in problems_of({"diskless.metadata.topic.num.partitions": "4097"})["diskless.metadata.topic.num.partitions"]


def test_secrets_are_never_shown() -> None:
    secrets = {
        "kafka.sasl.password": "hush2",
        "kafka.ssl.key.pem": "hush3",
        "object.store.option.secret.access.key": "hush4",
        "object.store.option.aws.session.token": "hush5",
        "object.store.option.account_key": "hush6",
        "object.store.option.sse_customer_key_base64": "hush7",
        "object.store.option.encryption_key": "hush8",
        "object.store.option.proxy.url": "http://user:hush9@proxy",
    }
    logins = {"object.store.option.endpoint": "https://user:hush10@store:9000", "object.store.option.sts_endpoint": "http://:hush11@sts"}
    settings = load_settings(overrides=ESSENTIAL | secrets | logins | {"kafka.debug": "broker", "object.store.option.region": "eu-1"})
    assert settings.kafka == {"sasl.password": "hush2", "ssl.key.pem": "hush3", "debug": "broker"}
    shown = {line.key: line.value for line in render(settings)}
    assert "hush" not in repr(settings) + repr(shown)
    assert all(shown[key] == "***" and NODE.is_secret(key) for key in secrets)
    assert all(shown[key] == "***" and NODE.is_hidden(key, value) and not NODE.is_secret(key) for key, value in logins.items())
    assert (shown["kafka.debug"], shown["object.store.option.region"], shown["node.id"]) == ("broker", "eu-1", "1")


def test_secrets_are_not_in_error_messages() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(overrides=ESSENTIAL | {"kafak.sasl.password": "hush", "group.idd": "hush", "object.store.secret": "hush"})
    assert "hush" not in str(caught.value)
    assert "did you mean group.id?" in str(caught.value)


def test_rendered_values_load_to_equal_settings() -> None:
    given = {
        "listeners": "INSIDE://[::1]:9192,OUTSIDE://0.0.0.0:9194",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "advertised.listeners": "INSIDE://inside:9192,OUTSIDE://outside:443",
        "http.listener": "",
        "data.dirs": "/a, /b",
        "object.store.url": "s3://bucket/some/prefix/",
        "kafka.client.rack": "a",
    }
    settings = load_settings(overrides=ESSENTIAL | given)
    again = load_settings(overrides={line.key: line.value for line in render(settings)})
    assert again == settings
    assert settings.http_listener is None
    assert settings.listeners[0] == Listener("INSIDE", "::1", 9192)
    assert str(settings.object_store_url) == "s3://bucket/some/prefix"


def test_wildcard_listener_is_advertised_by_host_name() -> None:
    (advertised,) = load(listeners="PLAINTEXT://:9192").effective_advertised_listeners()
    assert advertised.port == 9192
    assert not advertised.is_wildcard


def test_properties_format() -> None:
    content = "# note\n! note\n\n a = 1 \nb:2\nc 3\nd=x\\\n   y\ne\\=f=\\u0041\\t|\\\\\ng\n a=last\n"
    found = list(parse_properties(content, "x"))
    assert found == [(4, "a", "1"), (5, "b", "2"), (6, "c", "3"), (7, "d", "xy"), (9, "e=f", "A\t|\\"), (10, "g", ""), (11, "a", "last")]


def test_line_without_key_is_refused() -> None:
    with pytest.raises(SourceError, match="x:1 has no key"):
        list(parse_properties("=1", "x"))


def test_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the settings file"):
        load_settings(tmp_path / "none.properties")


def test_property_flags() -> None:
    assert parse_properties_flags(["a.b=c=d", "a.b=e", "f="]) == {"a.b": "e", "f": ""}
    with pytest.raises(SourceError, match="key=value"):
        parse_properties_flags(["a.b"])


@pytest.mark.parametrize("key", [key for key in KEYS.values() if key.bounds], ids=lambda key: key.name)
def test_wrong_value_is_reported_with_its_bounds_whatever_the_rules_look_at(key: Key) -> None:
    found = problems_of({key.name: {"group.id": "", "data.dirs": ",", "leader.racks": ","}.get(key.name, "!! !!")})
    assert "must be" in found[key.name]
    assert "correct it" in found[key.name]


def test_the_highest_schema_level_is_the_newest_of_the_records_and_can_be_held_lower() -> None:
    assert load_settings(env={}, overrides=ESSENTIAL).schema_level_max == LEVEL_LATEST == levels()[-1]
    assert load_settings(env={}, overrides=ESSENTIAL | {"schema.level.max": "1"}).schema_level_max == 1
    for value in ("0", str(LEVEL_LATEST + 1), "newest"):
        with pytest.raises(ConfigError, match=rf"schema\.level\.max = '{value}'.*must be a whole number from 1 to {LEVEL_LATEST}"):
            load_settings(env={}, overrides=ESSENTIAL | {"schema.level.max": value})


@pytest.mark.parametrize("text", ["0", "1", "0.25", "1e-3"])
def test_a_ratio_is_a_number(text: str) -> None:
    assert load(metadata__snapshot__min__changed_records__ratio=text).metadata_snapshot_min_changed_records_ratio == float(text)


@pytest.mark.parametrize("text", ["-0.1", "1.1", "nan", "inf", "half", ""])
def test_a_ratio_out_of_bounds_is_refused(text: str) -> None:
    key = "metadata.snapshot.min.changed_records.ratio"
    assert "must be a number from 0 to 1" in problems_of({key: text})[key]


@pytest.mark.parametrize("prefix", ["/a", "a/", "a//b", "..", "a/./b", "a b", "é", "", "a" * 201])
def test_a_snapshot_prefix_that_makes_no_keys_is_refused(prefix: str) -> None:
    assert "snapshots.prefix" in problems_of({"snapshots.prefix": prefix})


def test_names_that_only_begin_alike_are_apart() -> None:
    assert load(snapshots__prefix="wal-snapshots").snapshots_prefix == "wal-snapshots"


@pytest.mark.parametrize(
    ("given", "key", "part"),
    [
        ({"listeners": "SASL_SSL://:9192"}, "authorizer", "must be given, since listener SASL_SSL is SASL_SSL"),
        ({"acls": "User:a:ALTER"}, "acls", "set authorizer=acls"),
        ({"acls": "User:a:ALTER", "authorizer": "kafka"}, "acls", "authorizer is kafka"),
        ({"super.users": "User:a"}, "super.users", "set authorizer=acls"),
        ({"authorizer": "acls", "acls": "User:a:FLY"}, "acls", "CLUSTER_ACTION"),
        ({"authorizer": "acls", "acls": "User:a:READ@"}, "acls", "after @ a topic"),
        ({"authorizer": "acls", "acls": "User:a:READ@or*ders"}, "acls", "after @ a topic"),
        ({"authorizer": "acls", "acls": "User:a:READ,ALTER@orders"}, "acls", "the operations READ and DESCRIBE alone"),
        ({"authorizer": "acls", "acls": "Group:a:ALTER"}, "acls", "User:name"),
        ({"authorizer": "acls", "acls": "User::ALTER"}, "acls", "User:name"),
        ({"authorizer": "acls", "acls": "ALTER"}, "acls", "User:name"),
        ({"authorizer": "acls", "super.users": "a"}, "super.users", "User:name"),
        ({"authorizer": "acls", "super.users": "User:a;User:a"}, "super.users", "repeated"),
        ({"authorizer": "opa"}, "authorizer", "acls, kafka, or empty"),
        ({"internal.principals": "User:node"}, "internal.principals", "does not ask for them"),
        ({"internal.principals": "node"}, "internal.principals", "User:name"),
        ({"internal.principals": "User:ANONYMOUS"}, "internal.principals", "everybody who did not log in"),
        ({"internal.principals": "User:n", "internal.secret.file": "s"}, "internal.secret.file", "leave one of the two out"),
        ({"http.listener": "https://:9193"}, "http.ssl.key.location", "must be given: http.listener is https://"),
        ({"http.listener": "https://:9193", "http.ssl.key.location": "k"}, "http.ssl.certificate.location", "must be given"),
        ({"http.ssl.certificate.location": "c"}, "http.ssl.certificate.location", "let it begin with https:"),
        ({"http.listener": "", "http.ssl.key.location": "k"}, "http.ssl.key.location", "http.listener is empty"),
    ],
)
def test_rules_of_who_may_do_what_that_do_not_fit_are_refused(given: dict[str, str], key: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(overrides=ESSENTIAL | given)
    assert any(one.key == key and part in str(one) for one in caught.value.problems), str(caught.value)


def test_acls_are_written_as_they_are_given() -> None:
    text = "User:CN=a,O=b:c:CLUSTER_ACTION;User:*:ALTER,DESCRIBE;User:a@b:READ,DESCRIBE@orders;User:a:READ@app-*;User:a:READ@*"
    settings = load_settings(overrides=ESSENTIAL | {"authorizer": "acls", "acls": text + " ;", "super.users": "User:x; User:y"})
    shown = {one.key: one.value for one in render(settings)}
    assert shown["acls"] == text
    assert shown["super.users"] == "User:x;User:y"
    assert [entry.principal for entry in settings.acls] == ["User:CN=a,O=b:c", "User:*", "User:a@b", "User:a", "User:a"]
    topics = [TopicPattern("orders"), TopicPattern("app-", is_prefix=True), TopicPattern("*")]
    assert [entry.topics for entry in settings.acls] == [None, None, *topics]


@pytest.mark.parametrize("value", ["4-3", "-1", "1-", "a", "0,,1", "1,1", "100000", "1-2-3", "1 - 2", "٣"])
def test_coordinators_of_a_node_are_numbers_and_ranges(value: str) -> None:
    assert set(problems_of({"node.coordinators": value})) == {"node.coordinators"}


def test_coordinators_of_a_node_are_read_as_numbers() -> None:
    assert numbers_in(load(node__coordinators="0, 4-7,9-9").node_coordinators) == {0, 4, 5, 6, 7, 9}
    assert load().node_coordinators == ()
    assert load(leader__racks="a, b").leader_racks == ("a", "b")
