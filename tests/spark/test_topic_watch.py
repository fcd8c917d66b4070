"""What Kafka's client leaves unsaid: a login that was refused ends questions by their time only."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from spark_jobs.monitor.topic import KafkaUnavailableError, TopicWatch


def test_a_refused_login_is_said_instead_of_a_timeout() -> None:
    watch = TopicWatch("127.0.0.1:1", "meta", {})
    asked: Future[object] = Future()
    asked.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer")))
    with pytest.raises(KafkaUnavailableError, match="no answer"):
        watch._answer(asked)
    watch._on_error(KafkaError(KafkaError._AUTHENTICATION, "Invalid username or password"))
    with pytest.raises(KafkaUnavailableError, match=r"login was refused.*Invalid username or password"):
        watch._answer(asked)
