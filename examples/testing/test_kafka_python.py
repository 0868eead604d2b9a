"""The errors that a Kafka client must survive, one by one, with kafka-python.

pip install pytest kafka-python                  # and Understudy, from its repository
pytest test_kafka_python.py

A broker is asked to answer the next requests of one kind with an error (`broker.answer`). The client must reach its
goal all the same; `answer.wait()` shows that it has received the error.
"""

import time

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import OutOfOrderSequenceNumberError

pytestmark = pytest.mark.understudy(topics={"orders": 1}, scope="session")


def producer_of(cluster):
    return KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True, retry_backoff_ms=50)


@pytest.fixture
def producer(understudy_cluster):
    producer = producer_of(understudy_cluster)
    yield producer
    producer.close()


def consumer_of(cluster, **settings):
    return KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        retry_backoff_ms=50,
        **settings,
    )


def read(consumer, value, until=lambda: True):
    """Read until the value was there and `until` returns true, and return how often the value was there."""
    count = 0
    deadline = time.monotonic() + 30
    while not (count and until()) and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=100).values():
            count += sum(record.value == value for record in records)
    consumer.close()
    return count


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
def test_a_record_is_written_once_after(understudy_cluster, producer, error, then):
    producer.send("orders", b"before").get(timeout=30)
    value = f"after {error}".encode()
    leader = understudy_cluster.leader("orders", 0)
    answer = leader.answer("Produce", error, times=2, topic="orders", partition=0, then=then)
    producer.send("orders", value).get(timeout=30)
    answer.wait()
    assert read(consumer_of(understudy_cluster, group_id=None), value) == 1


@pytest.mark.parametrize("api", ["Produce", "Fetch"])
def test_a_throttled_answer_is_an_answer(understudy_cluster, producer, api):
    leader = understudy_cluster.leader("orders", 0)
    answer = leader.answer(api, throttle_ms=300)
    value = f"throttled {api}".encode()
    producer.send("orders", value).get(timeout=30)
    assert read(consumer_of(understudy_cluster, group_id=None), value) == 1
    answer.wait()


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"),
        ("Fetch", "FENCED_LEADER_EPOCH"),
        ("Fetch", "OFFSET_OUT_OF_RANGE"),
        ("Fetch", "UNKNOWN_TOPIC_ID"),
        ("Fetch", "FETCH_SESSION_ID_NOT_FOUND"),
        ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
        ("Metadata", "LEADER_NOT_AVAILABLE"),
    ],
)
def test_a_consumer_reads_on_after(understudy_cluster, producer, api, error):
    value = f"beside {api} {error}".encode()
    producer.send("orders", value).get(timeout=30)
    answer = understudy_cluster.answer(api, error)  # at every broker: a client may ask any for its metadata
    assert read(consumer_of(understudy_cluster, group_id=None), value, lambda: answer.hits) >= 1


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
def test_a_member_of_a_group_reads_on_after(understudy_cluster, producer, api, error):
    value = f"for a group beside {api} {error}".encode()
    producer.send("orders", value).get(timeout=30)
    answer = understudy_cluster.answer(api, error)
    settings = {"group_id": f"{api}-{error}", "heartbeat_interval_ms": 200, "session_timeout_ms": 6_000}
    assert read(consumer_of(understudy_cluster, **settings), value, lambda: answer.hits) >= 1


def test_a_producer_goes_on_after_it_has_reported_an_out_of_order_sequence(understudy_cluster):
    """Nothing is lost without a word: the record is written, or its future raises, and the next producer goes on."""
    answer = understudy_cluster.leader("orders", 0).answer("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER")
    producer = producer_of(understudy_cluster)
    written = []
    for value in (b"out of order", b"in order"):
        try:
            producer.send("orders", value).get(timeout=30)
            written.append(value)
        except OutOfOrderSequenceNumberError:
            producer.close()
            producer = producer_of(understudy_cluster)
    producer.close()
    answer.wait()
    assert b"in order" in written
    for value in written:
        assert read(consumer_of(understudy_cluster, group_id=None), value) == 1


def test_a_topic_is_created_after_not_controller(understudy_cluster):
    answer = understudy_cluster.controller.answer("CreateTopics", "NOT_CONTROLLER")
    admin = KafkaAdminClient(bootstrap_servers=understudy_cluster.bootstrap, retry_backoff_ms=50)
    admin.create_topics([NewTopic("letters", num_partitions=1, replication_factor=3)])
    understudy_cluster.wait_until(lambda: "letters" in admin.list_topics(), "the topic is there")
    admin.close()
    assert answer.hits == 1
