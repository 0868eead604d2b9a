"""The errors that a Kafka client must survive, one by one, with confluent-kafka (librdkafka).

pip install pytest confluent-kafka               # and Understudy, from its repository
pytest test_confluent_kafka.py

A broker is asked to answer the next requests of one kind with an error (`broker.answer`). The client must reach its
goal all the same; `answer.wait()` shows that it has received the error.
"""

import contextlib
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = pytest.mark.understudy(topics={"orders": 1}, scope="session")


def produce(producer, value):
    """Produce a record, and return its error, None if it is written."""
    errors = []
    producer.produce("orders", value, on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(30) == 0
    [error] = errors
    return error


def producer_of(cluster):
    return Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "retry.backoff.ms": 50}
    )


def consumer_of(cluster, group="none", **settings):
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "retry.backoff.ms": 50,
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 6_000,
        }
        | settings
    )


def read(consumer, value, until=lambda: True):
    """Read until the value was there and `until` returns true, and return how often the value was there."""
    count = 0
    deadline = time.monotonic() + 30
    while not (count and until()) and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        count += message is not None and message.error() is None and message.value() == value
    consumer.close()
    return count


def read_all(cluster, value, until=lambda: True):
    """Read the partition from its beginning, without a group."""
    consumer = consumer_of(cluster)
    consumer.assign([TopicPartition("orders", 0, 0)])
    return read(consumer, value, until)


@pytest.mark.parametrize(
    ("error", "then"),
    [
        ("NOT_LEADER_OR_FOLLOWER", "ignore"),
        ("REQUEST_TIMED_OUT", "apply"),
        ("NOT_ENOUGH_REPLICAS", "ignore"),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "apply"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "ignore"),
        ("KAFKA_STORAGE_ERROR", "ignore"),
    ],
)
def test_a_record_is_written_once_after(understudy_cluster, error, then):
    producer = producer_of(understudy_cluster)
    assert produce(producer, b"before") is None
    leader = understudy_cluster.leader("orders", 0)
    answer = leader.answer("Produce", error, times=2, topic="orders", partition=0, then=then)
    value = f"after {error}".encode()
    assert produce(producer, value) is None
    answer.wait()
    assert read_all(understudy_cluster, value) == 1


@pytest.mark.parametrize("api", ["Produce", "Fetch"])
def test_a_throttled_answer_is_an_answer(understudy_cluster, api):
    answer = understudy_cluster.leader("orders", 0).answer(api, throttle_ms=300)
    value = f"throttled {api}".encode()
    assert produce(producer_of(understudy_cluster), value) is None
    assert read_all(understudy_cluster, value) == 1
    answer.wait()


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
        ("Fetch", "FENCED_LEADER_EPOCH"),
        ("Fetch", "OFFSET_OUT_OF_RANGE"),
        ("Fetch", "UNKNOWN_TOPIC_ID"),
        ("Metadata", "LEADER_NOT_AVAILABLE"),
    ],
)
def test_a_consumer_reads_on_after(understudy_cluster, api, error):
    value = f"beside {api} {error}".encode()
    assert produce(producer_of(understudy_cluster), value) is None
    answer = understudy_cluster.answer(api, error)  # at every broker: a client may ask any for its metadata
    assert read_all(understudy_cluster, value, lambda: answer.hits) >= 1


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("JoinGroup", "NOT_COORDINATOR"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("Heartbeat", "REBALANCE_IN_PROGRESS"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_a_member_of_a_group_reads_on_after(understudy_cluster, api, error):
    value = f"for a group beside {api} {error}".encode()
    assert produce(producer_of(understudy_cluster), value) is None
    answer = understudy_cluster.answer(api, error)
    consumer = consumer_of(understudy_cluster, f"{api}-{error}")
    consumer.subscribe(["orders"])
    assert read(consumer, value, lambda: answer.hits) >= 1


def test_a_producer_goes_on_after_an_out_of_order_sequence(understudy_cluster):
    """Nothing is lost without a word: the record is written, or its delivery fails, and the next producer goes on."""
    answer = understudy_cluster.leader("orders", 0).answer("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER")
    producer = producer_of(understudy_cluster)
    written = []
    for value in (b"out of order", b"in order"):
        try:
            error = produce(producer, value)
        except (KafkaException, SystemError) as fatal:  # `flush` raises it, perhaps while a callback runs
            error = fatal
        if error is None:
            written.append(value)
        else:
            producer = producer_of(understudy_cluster)
    answer.wait()
    assert b"in order" in written
    for value in written:
        assert read_all(understudy_cluster, value) == 1


def test_a_topic_is_created_after_not_controller(understudy_cluster):
    answer = understudy_cluster.controller.answer("CreateTopics", "NOT_CONTROLLER")
    admin = AdminClient({"bootstrap.servers": understudy_cluster.bootstrap})
    for _ in range(2):  # a client may report NOT_CONTROLLER, and find the controller at the next attempt
        with contextlib.suppress(KafkaException):
            admin.create_topics([NewTopic("letters", 1, 3)], operation_timeout=10)["letters"].result(30)
    understudy_cluster.wait_until(lambda: "letters" in admin.list_topics(timeout=10).topics, "the topic is there")
    assert answer.hits == 1
