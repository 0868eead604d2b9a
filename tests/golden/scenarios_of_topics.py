"""Scenarios of topics: creation, added partitions, znodes written by hand, deletion."""

from __future__ import annotations

from tests.golden.scenario_cluster import MorePartitions, Reassignment, TopicCreation, TopicDeletion
from tests.golden.scenario_run import (
    ScenarioRun,
    all_of,
    epoch,
    gone,
    in_sync,
    json_data,
    partitions,
    topic_znode,
    unreachable_broker,
)
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.zk.client import Create, Delete, SetData

ORDERS = "/brokers/topics/orders"
P0, P1 = (TopicPartition("orders", partition) for partition in range(2))


def more_partitions(run: ScenarioRun) -> None:
    run.begin()
    run.ask("create orders", TopicCreation("orders", {0: (0, 1), 1: (1, 2)}), partitions(2))
    run.ask("to 4, placed by Kafka", MorePartitions("orders", 4, None), partitions(4))
    run.ask("to 3: fewer", MorePartitions("orders", 3, None))
    run.ask("to 4 once more", MorePartitions("orders", 4, None))
    run.ask("to 5 on an unknown broker", MorePartitions("orders", 5, [(0, 9)]))
    run.ask("to 5 with fewer replicas", MorePartitions("orders", 5, [(0,)]))
    run.ask("to 5 twice on one broker", MorePartitions("orders", 5, [(0, 0)]))
    run.ask("to 6 with one assignment", MorePartitions("orders", 6, [(0, 1)]))
    run.ask("of no topic", MorePartitions("nosuch", 2, None))
    run.kill(2)
    run.ask("to 5 on the dead broker", MorePartitions("orders", 5, [(0, 2)]))
    run.ask("to 5, placed on who is left", MorePartitions("orders", 5, None), partitions(5))
    topic = topic_znode(run, "orders")
    topic["partitions"]["5"] = [2, 1]
    run.edit("a sixth by hand, on the dead broker first", SetData(ORDERS, json_data(topic)), until=partitions(6))
    del topic["partitions"]["4"]
    run.edit("one fewer by hand", SetData(ORDERS, json_data(topic)))
    run.restart(2, until=in_sync(2, 1, 3, 5))


def topics_by_hand(run: ScenarioRun) -> None:
    run.begin()
    second = {"version": 2, "partitions": {"0": [1, 2], "1": [2, 0]}, "adding_replicas": {}, "removing_replicas": {}}
    run.edit("version 2", Create("/brokers/topics/second", json_data(second)), until=partitions(2))
    first = {"version": 1, "partitions": {"0": [9, 1], "2": [1, 9]}}
    run.edit("with a broker that is not there", Create("/brokers/topics/first", json_data(first)), until=partitions(4))
    nowhere = {"version": 1, "partitions": {"0": [8, 9]}}
    run.edit("with none that is there", Create("/brokers/topics/nowhere", json_data(nowhere)))
    run.edit("with no partitions", Create("/brokers/topics/empty", json_data({"version": 1, "partitions": {}})))
    own_id = {
        "partitions": {"0": [0, 1]},
        "topic_id": "x9vYyDPaTIqmnZ0vWv2J1Q",
        "adding_replicas": {},
        "removing_replicas": {},
        "version": 3,
    }
    run.edit("with an id of its own", Create("/brokers/topics/own", json_data(own_id)), until=partitions(5))
    run.edit("the missing broker comes", unreachable_broker(9), until=partitions(6))
    run.edit("and goes", Delete("/brokers/ids/9"))
    znodes = [f"/brokers/topics/second{below}" for below in below_topic(2)]
    run.edit("removed by hand", *map(Delete, znodes), until=partitions(4))


def znodes_edited(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    topic = topic_znode(run, "orders")
    del topic["topic_id"]
    run.edit("the topic id is removed by hand", SetData(ORDERS, json_data(topic | {"version": 2})))
    state = json_data({"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 5, "isr": [2, 0]})
    run.edit("a state is edited by hand", SetData(f"{ORDERS}/partitions/1/state", state))
    run.edit("the controller is deposed", Delete("/controller"), until=epoch(2))
    moved = topic_znode(run, "orders")
    moved["partitions"]["0"] = [1, 2, 0]
    run.edit("an assignment is edited by hand", SetData(ORDERS, json_data(moved)))
    run.edit("the controller is deposed again", Delete("/controller"), until=epoch(3))
    state = json_data({"controller_epoch": 9, "leader": 2, "version": 1, "leader_epoch": 6, "isr": [2]})
    run.edit("a state comes from a controller that is to be", SetData(f"{ORDERS}/partitions/1/state", state))
    run.edit("the controller is deposed once more", Delete("/controller"), until=epoch(4))
    run.ask("1 to 0,2", Reassignment({P1: (0, 2)}))


def several_topics(run: ScenarioRun) -> None:
    run.begin()
    run.ask("create orders", TopicCreation("orders", {0: (0, 1), 1: (1, 2)}), partitions(2))
    run.ask("create a.b", TopicCreation("a.b", {0: (2, 0)}), partitions(3))
    run.ask("create a_b, which collides", TopicCreation("a_b", {0: (2, 0)}))
    run.ask("create with a gap", TopicCreation("gap", {0: (2, 0), 2: (0, 1)}))
    run.ask("create with unequal replicas", TopicCreation("unequal", {0: (2, 0), 1: (0,)}))
    run.ask("create twice on one broker", TopicCreation("twice", {0: (2, 2)}))
    run.ask("create on a broker that is not there", TopicCreation("away", {0: (2, 9)}))
    run.ask("create with a bad config", TopicCreation("bad", {0: (2, 0)}, {"retention.ms": "long"}))
    run.ask("create with an unknown config", TopicCreation("bad", {0: (2, 0)}, {"no.such": "1"}))
    run.ask("create with a bad name", TopicCreation("..", {0: (2, 0)}))
    run.ask("delete what is not there", TopicDeletion("nosuch"))
    run.kill(2, until=gone("/brokers/ids/2"))
    run.ask("create on the dead broker too", TopicCreation("late", {0: (2, 0)}))
    both = [Create(f"/admin/delete_topics/{topic}", b"") for topic in ("orders", "a.b")]
    run.edit("both asked for by hand, each with a dead replica", *both)
    run.restart(2, until=all_of(gone("/admin/delete_topics/orders"), gone("/admin/delete_topics/a.b")))


def deletions(run: ScenarioRun) -> None:
    run.begin()
    run.ask("create orders", TopicCreation("orders", {0: (0, 1), 1: (1, 2)}), partitions(2))
    run.ask("create payments", TopicCreation("payments", {0: (0, 2)}), partitions(3))
    both = [Create(f"/admin/delete_topics/{topic}", b"") for topic in ("orders", "payments")]
    run.kill(1)
    run.edit("both asked for by hand, a replica of one is dead", *both, until=partitions(2))
    run.ask("created again while it is being deleted", TopicCreation("orders", {0: (0, 2)}))
    run.ask("more partitions meanwhile", MorePartitions("orders", 3, [(0, 2)]))
    topic = topic_znode(run, "orders")
    topic["partitions"]["2"] = [0, 2]
    run.edit("more partitions by hand meanwhile", SetData(ORDERS, json_data(topic)))
    run.ask("asked for again", TopicDeletion("orders"))
    run.edit("the controller is deposed", Delete("/controller"), until=epoch(2))
    run.restart(1, until=gone("/admin/delete_topics/orders"))


def deletion_during_reassignment(run: ScenarioRun) -> None:
    run.begin()
    run.ask("create orders", TopicCreation("orders", {0: (0, 1), 1: (1, 2)}), partitions(2))
    run.edit("broker 7 comes", unreachable_broker(7))
    run.ask("move 0 to 7,1", Reassignment({P0: (7, 1)}))
    run.ask("delete orders", TopicDeletion("orders"))
    run.ask("move 1 meanwhile", Reassignment({P1: (1, 0)}))
    run.edit("broker 7 goes", Delete("/brokers/ids/7"))
    run.ask("take the move back", Reassignment({P0: None}))


def deletion_disabled(run: ScenarioRun) -> None:
    run.begin()
    run.ask("create orders", TopicCreation("orders", {0: (0, 1), 1: (1, 2)}), partitions(2))
    run.ask("delete orders", TopicDeletion("orders"))
    marker = "/admin/delete_topics/orders"
    run.edit("asked for by hand", Create(marker, b""), until=gone(marker))
    run.kill(1)
    run.edit("asked for by hand again", Create(marker, b""), until=gone(marker))
    run.restart(1)


def below_topic(count: int) -> list[str]:
    """The paths of a topic's znodes below its own, children first."""
    of_partitions = [f"/partitions/{partition}{below}" for partition in range(count) for below in ("/state", "")]
    return [*of_partitions, "/partitions", ""]
