"""Tests of `KAFKA_CREATE_TOPICS`."""

from __future__ import annotations

import pytest

from understudy.brokers.config.config_def import ConfigError
from understudy.cli.image.create_topics import TopicToCreate, read_topics


@pytest.mark.parametrize(
    ("others", "topics"),
    [
        ({}, ()),
        (
            {"KAFKA_CREATE_TOPICS": "orders:3:2, changes:1:1:compact"},
            (TopicToCreate("orders", 3, 2), TopicToCreate("changes", 1, 1, "compact")),
        ),
        (
            {"KAFKA_CREATE_TOPICS": "a:1:1;b:1:1:delete,compact", "KAFKA_CREATE_TOPICS_SEPARATOR": ";"},
            (TopicToCreate("a", 1, 1), TopicToCreate("b", 1, 1, "delete,compact")),
        ),
        ({"KAFKA_CREATE_TOPICS": "a:1:1\nb:2:1\n"}, (TopicToCreate("a", 1, 1), TopicToCreate("b", 2, 1))),
    ],
)
def test_topics_have_partitions_replicas_and_a_cleanup_policy(
    others: dict[str, str], topics: tuple[TopicToCreate, ...]
) -> None:
    assert read_topics(others) == topics


@pytest.mark.parametrize("entry", ["orders", "orders:3", "orders:x:1", "orders:0:1", ":1:1", "a:1:1:compact:more"])
def test_another_form_is_refused(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"expected name:partitions:replicas\[:cleanup.policy\]"):
        read_topics({"KAFKA_CREATE_TOPICS": entry})


def test_a_topic_is_created_by_kafkas_tool() -> None:
    assert TopicToCreate("a", 3, 2, "compact").arguments("localhost:9092") == [
        *("--bootstrap-server", "localhost:9092", "--create", "--if-not-exists", "--topic", "a"),
        *("--partitions", "3", "--replication-factor", "2", "--config", "cleanup.policy=compact"),
    ]
