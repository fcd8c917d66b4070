"""A gateway in front of a secured Kafka: who gets in and by what, what is served before a login, and what clients may do."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from cli.dev.kafka import BrokerRuntime
from integration_tests.gateway.secured import SecuredGateway
from integration_tests.secured_kafka import Right
from integration_tests.waiting import WAIT_S, wait_until

EVERYTHING = (AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE, AclOperation.DESCRIBE)


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredGateway]:
    """The gateway of all tests; each makes topics of its own."""
    with SecuredGateway(tmp_path_factory.mktemp("gateway"), broker_runtime) as made:
        everything = [Right(ResourceType.TOPIC, "*", EVERYTHING), Right(ResourceType.GROUP, "*", (AclOperation.READ,))]
        made.kafka.allow("alice", everything)
        yield made


def topic_name(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"])
def test_a_login_passes_and_classic_topics_work(world: SecuredGateway, mechanism: str) -> None:
    name, properties = topic_name("classic"), world.client("alice", mechanism)
    admin = AdminClient(properties)
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(WAIT_S)
    producer = Producer({**properties, "enable.idempotence": "true"})
    for number in range(100):
        producer.produce(name, key=str(number), value=f"record {number}")
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({**properties, "group.id": topic_name("group"), "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    found: set[bytes | None] = set()

    def has_all() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.add(message.value())
        return len(found) == 100

    wait_until(has_all, "all records")
    consumer.close()
    assert {(one.host, one.port) for one in admin.list_topics(timeout=WAIT_S).brokers.values()} <= {
        ("127.0.0.1", int(world.gateway.address.rpartition(":")[2])),
        *(("127.0.0.1", port) for port in world.gateway.relay_ports),
    }


def refusal(properties: dict[str, str]) -> KafkaError:
    """Return why a client is not let in."""
    errors: list[KafkaError] = []
    admin = AdminClient({**properties, "error_cb": errors.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=5)
    wait_until(lambda: bool(errors or admin.poll(0.1)) and bool(errors), "the reason")
    return next((one for one in errors if one.code() != KafkaError._ALL_BROKERS_DOWN), errors[0])


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_wrong_password_is_refused_by_the_cluster(world: SecuredGateway, mechanism: str) -> None:
    error = refusal(world.client("alice", mechanism, sasl_password="wrong"))
    assert error.code() == KafkaError._AUTHENTICATION
    assert "Authentication failed" in error.str()
