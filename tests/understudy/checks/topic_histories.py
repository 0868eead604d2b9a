"""Histories of topics and producer ids that checks A1 to A4 must accept or reject."""

from __future__ import annotations

from tests.understudy.checks.histories import History, accepts, cluster, rejects

TOPIC = "/brokers/topics/t"
STATE = "/brokers/topics/t/partitions/0/state"
CONFIG = "/config/topics/t"
MARKER = "/admin/delete_topics/t"
BROKER_1 = 0x11


def marked_for_deletion(config: str = CONFIG) -> History:
    history = cluster()
    history.commit(0xFF, history.create(config, {"version": 1, "config": {}}))
    history.commit(0xFF, history.create(MARKER))
    return history


def delete(history: History, *paths: str) -> None:
    for path in paths:
        history.commit(BROKER_1, history.fence(), history.delete(path))


@accepts("A1")
def the_marker_is_removed_after_the_topic_and_its_config() -> History:
    history = marked_for_deletion()
    delete(history, STATE, TOPIC, CONFIG, MARKER)
    return history


@accepts("A1")
def a_new_topic_of_the_same_name_writes_its_config_before_the_marker_is_removed() -> History:
    history = marked_for_deletion()
    delete(history, STATE, TOPIC, CONFIG)
    history.commit(0x21, history.create(CONFIG, {"version": 1, "config": {}}))
    delete(history, MARKER)
    return history


@accepts("A1")
def a_marker_is_removed_and_the_topic_kept() -> History:
    history = marked_for_deletion()
    delete(history, MARKER)
    return history


@rejects("A1", "the topic still exists")
def the_marker_is_removed_before_the_topic() -> History:
    history = marked_for_deletion()
    delete(history, STATE, MARKER)
    return history


@rejects("A1", "/config/topics/t still exists")
def the_marker_is_removed_before_the_config() -> History:
    history = marked_for_deletion()
    delete(history, STATE, TOPIC, MARKER)
    return history


def assign(
    history: History, replicas: list[int], *, adding: list[int] | None = None, removing: list[int] | None = None
) -> None:
    data: dict[str, object] = {"partitions": {"0": replicas}, "version": 3, "topic_id": "abc"}
    data["adding_replicas"] = {"0": adding} if adding else {}
    data["removing_replicas"] = {"0": removing} if removing else {}
    history.commit(BROKER_1, history.fence(), history.set(TOPIC, data))


@accepts("A2")
@accepts("A3")
def a_partition_is_reassigned() -> History:
    history = cluster()
    assign(history, [4, 2, 1, 3], adding=[4], removing=[1, 3])
    history.state(1, 1, [1, 2, 3, 4])
    history.state(4, 2, [4, 2])
    assign(history, [4, 2])
    return history


@accepts("A2")
def a_reassignment_is_cancelled() -> History:
    history = cluster()
    assign(history, [4, 1, 2, 3], adding=[4], removing=[1, 2, 3])
    history.state(4, 1, [4])
    assign(history, [1, 2, 3])
    return history


@rejects("A2", "t-0 to (4, 2) ended with ISR (1, 3)")
def a_reassignment_ends_before_a_target_is_in_the_isr() -> History:
    history = cluster()
    assign(history, [4, 2, 1, 3], adding=[4], removing=[1, 3])
    history.state(1, 1, [1, 3])
    assign(history, [4, 2])
    return history


@rejects("A2", "t-0 to (4, 2) ended with leader 1")
def a_reassignment_removes_the_leader() -> History:
    history = cluster()
    assign(history, [4, 2, 1, 3], adding=[4], removing=[1, 3])
    history.state(1, 1, [1, 2, 3, 4])
    assign(history, [4, 2])
    return history


@rejects("A3", "t lost partition 1")
def a_topic_loses_a_partition_that_was_just_added() -> History:
    history = cluster()
    history.commit(0x21, history.set(TOPIC, {"partitions": {"0": [1, 2, 3], "1": [1, 2, 3]}, "version": 3}))
    assign(history, [2, 1, 3])
    return history


@accepts("A3")
def a_topic_marked_for_deletion_loses_an_added_partition() -> History:
    history = marked_for_deletion()
    history.commit(0x21, history.set(TOPIC, {"partitions": {"0": [1, 2, 3], "1": [1, 2, 3]}, "version": 3}))
    assign(history, [2, 1, 3])
    return history


@accepts("A3")
def a_topic_marked_for_deletion_loses_an_added_partition_that_a_former_topic_had() -> History:
    history = cluster()
    second = "/brokers/topics/t/partitions/1/state"
    both = {"partitions": {"0": [1, 2, 3], "1": [1, 2, 3]}, "version": 3}
    history.commit(0x21, history.set(TOPIC, both))
    history.commit(
        BROKER_1, history.fence(), history.create(second, {"leader": 1, "leader_epoch": 0, "isr": [1, 2, 3]})
    )
    delete(history, second, STATE, TOPIC)
    history.commit(0x21, history.create(TOPIC, {"partitions": {"0": [1, 2, 3]}, "version": 3}))
    history.commit(0xFF, history.create(MARKER))
    history.commit(0x21, history.set(TOPIC, both))
    assign(history, [1, 2, 3])
    return history


@rejects("A3", "t lost partition 0")
def a_topic_marked_for_deletion_loses_a_partition_with_a_state() -> History:
    history = marked_for_deletion()
    both = {"0": [1, 2, 3], "1": [1, 2, 3]}
    history.commit(0x21, history.set(TOPIC, {"partitions": both, "version": 3}))
    history.commit(BROKER_1, history.set(TOPIC, {"partitions": {"1": [1, 2, 3]}, "version": 3}))
    return history


@rejects("A3", "had the id abc and now has xyz")
def a_topic_changes_its_id() -> History:
    history = cluster()
    assign(history, [1, 2, 3])
    history.commit(BROKER_1, history.set(TOPIC, {"partitions": {"0": [1, 2, 3]}, "version": 3, "topic_id": "xyz"}))
    return history


def allocate(history: History, first: int, last: int) -> None:
    block = {"version": 1, "broker": 1, "block_start": str(first), "block_end": str(last)}
    history.commit(BROKER_1, history.fence(), history.set("/latest_producer_id_block", block))


@accepts("A4")
def blocks_follow_each_other() -> History:
    history = cluster()
    allocate(history, 0, 999)
    allocate(history, 1000, 1999)
    return history


@rejects("A4", "the block from 0 to 999 was allocated, but the next one begins at 1000")
def two_brokers_get_the_same_producer_ids() -> History:
    history = cluster()
    allocate(history, 0, 999)
    allocate(history, 0, 999)
    return history
