"""Tests of the operations of IncrementalAlterConfigs: set, delete, append, subtract."""

from __future__ import annotations

import time

import pytest

from understudy.brokers.config.operations import AlterConfigOperation, RequestedConfig, altered, check_changes
from understudy.brokers.config.topic_config import TOPIC_TABLE
from understudy.foundation.cluster.errors import ApiError, Errors

SET, DELETE, APPEND, SUBTRACT = AlterConfigOperation


@pytest.mark.spec("CF-8")
@pytest.mark.parametrize(
    ("stored", "operation", "value", "left"),
    [
        ({}, SET, "compact", {"cleanup.policy": "compact"}),
        ({"cleanup.policy": "compact"}, SET, "delete", {"cleanup.policy": "delete"}),
        ({"cleanup.policy": "compact"}, DELETE, None, {}),
        ({}, DELETE, None, {}),
        ({}, APPEND, "compact", {"cleanup.policy": "delete,compact"}),
        ({"cleanup.policy": "compact"}, APPEND, "delete", {"cleanup.policy": "compact,delete"}),
        ({"cleanup.policy": "compact,delete"}, APPEND, "delete", {"cleanup.policy": "compact,delete"}),
        ({"cleanup.policy": ""}, APPEND, "delete,", {"cleanup.policy": "delete"}),
        ({"cleanup.policy": "compact"}, APPEND, ",", {"cleanup.policy": "compact"}),
        ({}, SUBTRACT, "delete", {"cleanup.policy": ""}),
        ({"cleanup.policy": "compact,delete"}, SUBTRACT, "compact,other", {"cleanup.policy": "delete"}),
        ({"cleanup.policy": "a,b,a"}, SUBTRACT, "a", {"cleanup.policy": "b,a"}),
    ],
)
def test_results_of_operations(
    stored: dict[str, str], operation: AlterConfigOperation, value: str | None, left: dict[str, str]
) -> None:
    assert (
        altered({"keep": "me"} | stored, [RequestedConfig("cleanup.policy", operation, value)], TOPIC_TABLE)
        == {"keep": "me"} | left
    )


@pytest.mark.spec("CF-8")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            RequestedConfig("retention.ms", APPEND, "1"),
            "Config value append is not allowed for config key: retention.ms",
        ),
        (
            RequestedConfig("retention.ms", SUBTRACT, "1"),
            "Config value subtract is not allowed for config key: retention.ms",
        ),
        (RequestedConfig("no.such", APPEND, "1"), "Unknown config name: no.such"),
    ],
)
def test_only_lists_are_appended_to(change: RequestedConfig, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        altered({}, [change], TOPIC_TABLE)
    assert (refused.value.error, refused.value.message) == (Errors.INVALID_CONFIG, message)


def test_changes_larger_than_a_znode_are_refused_before_they_are_validated() -> None:
    with pytest.raises(ApiError) as refused:
        check_changes([RequestedConfig(str(number), SET, "x" * 30_000) for number in range(34)])
    assert refused.value.error is Errors.INVALID_CONFIG
    assert refused.value.message == "34 configs do not fit into a znode; a request to ZooKeeper may have 1000000 bytes"
    check_changes([RequestedConfig(str(number), SET, "x" * 30_000) for number in range(33)])


def test_a_list_may_grow_until_it_does_not_fit_into_a_response() -> None:
    name = "leader.replication.throttled.replicas"
    largest = ",".join([f"{index:05}:1" for index in range(4095)])
    assert altered({name: largest}, [RequestedConfig(name, APPEND, "1:1")], TOPIC_TABLE) == {name: f"{largest},1:1"}
    with pytest.raises(ApiError) as refused:
        altered({name: largest}, [RequestedConfig(name, APPEND, "1:1,22:2")], TOPIC_TABLE)
    assert refused.value.error is Errors.INVALID_CONFIG
    assert refused.value.message == f"The value of {name} would have 32768 bytes; a response can carry 32767"


def test_appending_many_values_to_a_long_list_is_fast() -> None:
    name = "leader.replication.throttled.replicas"
    stored = {name: ",".join(map(str, range(50_000)))}
    began = time.process_time()
    with pytest.raises(ApiError):
        altered(stored, [RequestedConfig(name, APPEND, ",".join(["49999"] * 5_000))], TOPIC_TABLE)
    assert time.process_time() - began < 1, (
        "searching the list for each value takes seconds, in which the broker serves no request"
    )


@pytest.mark.spec("CF-8")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((RequestedConfig("a", SET, "1"), RequestedConfig("a", DELETE, None)), "Error due to duplicate config keys"),
        ((RequestedConfig("a", SET, None), RequestedConfig("b", APPEND, None)), "Null value not supported for : a, b"),
        ((RequestedConfig("a", 4, "1"),), "Unknown operations type 4"),
    ],
)
def test_malformed_changes_are_refused(changes: tuple[RequestedConfig, ...], message: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_changes(changes)
    assert (refused.value.error, refused.value.message) == (Errors.INVALID_REQUEST, message)


def test_a_key_is_deleted_without_a_value() -> None:
    check_changes([RequestedConfig("a", DELETE, None), RequestedConfig("b", SET, "")])
