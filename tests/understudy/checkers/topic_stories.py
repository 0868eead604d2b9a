"""Histories of whole topics and of producer ids: what checks A1 to A4 must accept and reject."""

from __future__ import annotations

from tests.understudy.checkers.histories import History, accepts, cluster, rejects

TOPIC = "/brokers/topics/t"
STATE = "/brokers/topics/t/partitions/0/state"
CONFIG = "/config/topics/t"
MARKER = "/admin/delete_topics/t"
BROKER_1 = 0x11


def doomed(config: str = CONFIG) -> History:
    history = cluster()
    history.commit(0xFF, history.create(config, {"version": 1, "config": {}}))
    history.commit(0xFF, history.create(MARKER))
    return history


def delete(history: History, *paths: str) -> None:
    for path in paths:
        history.commit(BROKER_1, history.fence(), history.delete(path))


@accepts("A1")
def a_topic_goes_its_marker_last() -> History:
    history = doomed()
    delete(history, STATE, TOPIC, CONFIG, MARKER)
    return history


@accepts("A1")
def a_successor_of_the_same_name_comes_early() -> History:
    history = doomed()
    delete(history, STATE, TOPIC, CONFIG)
    history.commit(0x21, history.create(CONFIG, {"version": 1, "config": {}}))
    delete(history, MARKER)
    return history


@accepts("A1")
def a_marker_is_refused() -> History:
    history = doomed()
    delete(history, MARKER)
    return history


@rejects("A1", "the topic is still there")
def half_a_topic_stays() -> History:
    history = doomed()
    delete(history, STATE, MARKER)
    return history


@rejects("A1", "/config/topics/t is still there")
def a_config_stays() -> History:
    history = doomed()
    delete(history, STATE, TOPIC, MARKER)
    return history


def place(
    history: History, replicas: list[int], *, adding: list[int] | None = None, removing: list[int] | None = None
) -> None:
    data: dict[str, object] = {"partitions": {"0": replicas}, "version": 3, "topic_id": "abc"}
    data["adding_replicas"] = {"0": adding} if adding else {}
    data["removing_replicas"] = {"0": removing} if removing else {}
    history.commit(BROKER_1, history.fence(), history.set(TOPIC, data))


@accepts("A2")
@accepts("A3")
def a_partition_moves() -> History:
    history = cluster()
    place(history, [4, 2, 1, 3], adding=[4], removing=[1, 3])
    history.state(1, 1, [1, 2, 3, 4])
    history.state(4, 2, [4, 2])
    place(history, [4, 2])
    return history


@accepts("A2")
def a_move_is_called_off() -> History:
    history = cluster()
    place(history, [4, 1, 2, 3], adding=[4], removing=[1, 2, 3])
    history.state(4, 1, [4])
    place(history, [1, 2, 3])
    return history


@rejects("A2", "while (1, 3) were in sync")
def a_move_ends_too_early() -> History:
    history = cluster()
    place(history, [4, 2, 1, 3], adding=[4], removing=[1, 3])
    history.state(1, 1, [1, 3])
    place(history, [4, 2])
    return history


@rejects("A2", "while 1 led it")
def a_leader_is_moved_away_under_its_followers() -> History:
    history = cluster()
    place(history, [4, 2, 1, 3], adding=[4], removing=[1, 3])
    history.state(1, 1, [1, 2, 3, 4])
    place(history, [4, 2])
    return history


@rejects("A3", "t lost partition 1")
def an_assignment_forgets_a_partition_that_was_just_added() -> History:
    history = cluster()
    history.commit(0x21, history.set(TOPIC, {"partitions": {"0": [1, 2, 3], "1": [1, 2, 3]}, "version": 3}))
    place(history, [2, 1, 3])
    return history


@accepts("A3")
def what_is_added_to_a_topic_that_is_to_go_is_taken_back() -> History:
    history = doomed()
    history.commit(0x21, history.set(TOPIC, {"partitions": {"0": [1, 2, 3], "1": [1, 2, 3]}, "version": 3}))
    place(history, [2, 1, 3])
    return history


@accepts("A3")
def what_is_taken_back_has_a_namesake_of_an_earlier_life() -> History:
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
    place(history, [1, 2, 3])
    return history


@rejects("A3", "t lost partition 0")
def a_topic_that_is_to_go_loses_a_partition_that_lives() -> History:
    history = doomed()
    both = {"0": [1, 2, 3], "1": [1, 2, 3]}
    history.commit(0x21, history.set(TOPIC, {"partitions": both, "version": 3}))
    history.commit(BROKER_1, history.set(TOPIC, {"partitions": {"1": [1, 2, 3]}, "version": 3}))
    return history


@rejects("A3", "had the id abc and now has xyz")
def a_topic_changes_its_id() -> History:
    history = cluster()
    place(history, [1, 2, 3])
    history.commit(BROKER_1, history.set(TOPIC, {"partitions": {"0": [1, 2, 3]}, "version": 3, "topic_id": "xyz"}))
    return history


def give(history: History, first: int, last: int) -> None:
    block = {"version": 1, "broker": 1, "block_start": str(first), "block_end": str(last)}
    history.commit(BROKER_1, history.fence(), history.set("/latest_producer_id_block", block))


@accepts("A4")
def block_after_block() -> History:
    history = cluster()
    give(history, 0, 999)
    give(history, 1000, 1999)
    return history


@rejects("A4", "the block from 0 to 999 was given, the next one begins at 1000")
def two_brokers_get_the_same_ids() -> History:
    history = cluster()
    give(history, 0, 999)
    give(history, 0, 999)
    return history
