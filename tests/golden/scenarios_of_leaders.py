"""Scenarios of reassignments and of leader elections."""

from __future__ import annotations

from tests.golden.scenario_cluster import ConfigChange, Election, Reassignment, ReassignmentList, TopicCreation
from tests.golden.scenario_run import (
    ScenarioRun,
    all_of,
    epoch,
    gone,
    json_data,
    led_by,
    partitions,
    placed,
    unreachable_broker,
)
from understudy.clusters.clients.config_requests import BROKER
from understudy.clusters.clients.topic_requests import PREFERRED, UNCLEAN
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.zk.client import Create, Delete

P0, P1, P2 = (TopicPartition("orders", partition) for partition in range(3))
ASKED = "/admin/reassign_partitions"
ELECT = "/admin/preferred_replica_election"


def reassignment_overridden(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    run.edit("broker 7 registers and does not respond", unreachable_broker(7))
    run.ask("move 0 to 7,1,2", Reassignment({P0: (7, 1, 2)}))
    run.ask("move 1 to 1,7 and 2 to 0", Reassignment({P1: (1, 7), P2: (0,)}), until=placed(2, 0))
    run.ask("list", ReassignmentList())
    run.ask("0 rather to 2,1", Reassignment({P0: (2, 1)}), until=placed(0, 2, 1))
    run.ask("1 rather to 7,2", Reassignment({P1: (7, 2)}))
    run.ask("take 1 back", Reassignment({P1: None}))
    run.ask("take 1 back again", Reassignment({P1: None}))
    run.ask("move 0 to 7", Reassignment({P0: (7,)}))
    run.edit("broker 7 goes", Delete("/brokers/ids/7"))
    run.edit("the controller is deposed", Delete("/controller"), until=epoch(2))
    run.ask("take 0 back", Reassignment({P0: None}), until=placed(0, 2, 1))


def reassignment_cancelled(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    run.cluster.pause(3)
    outcome = run.cluster.ask(Reassignment({P0: (3, 1, 2), P1: (1, 3)}))
    run.cluster.kill(3)
    run.cluster.wait_until(gone("/brokers/ids/3"), "broker 3 is gone")
    run.end_step("move 0 to 3,1,2 and 1 to 1,3, which stands still and dies", outcome, by_tool=True)
    run.ask("list", ReassignmentList())
    run.ask("take 0 back", Reassignment({P0: None}), until=placed(0, 1, 2, 0))
    run.restart(3, until=placed(1, 1, 3))
    run.cluster.pause(3)
    outcome = run.cluster.ask(Reassignment({P2: (3, 2)}))
    run.cluster.kill(3)
    run.cluster.wait_until(gone("/brokers/ids/3"), "broker 3 is gone")
    run.end_step("move 2 to 3,2, which stands still and dies", outcome, by_tool=True)
    run.ask("2 rather to 0,2", Reassignment({P2: (0, 2)}), until=placed(2, 0, 2))


def reassignments(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    run.ask("0 to 3 alone", Reassignment({P0: (3,)}), until=placed(0, 3))
    run.ask("0 to 3 and 1", Reassignment({P0: (3, 1)}), until=placed(0, 3, 1))
    run.ask("1 to 0,2,1: another order", Reassignment({P1: (0, 2, 1)}), until=placed(1, 0, 2, 1))
    run.ask("2 to 0,1: without its leader", Reassignment({P2: (0, 1)}), until=placed(2, 0, 1))
    run.ask("preferred of all", Election(PREFERRED, None), until=led_by(3, 0, 0))
    run.stop(3, until=led_by(1, 0, 0))
    run.restart(3)


def reassignment_refused(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    run.ask("to a broker that is not there", Reassignment({P0: (0, 9)}))
    run.ask("to no broker", Reassignment({P0: ()}))
    run.ask("twice to one broker", Reassignment({P0: (0, 0)}))
    run.ask("to a negative broker", Reassignment({P0: (0, -1)}))
    run.ask("of a partition that is not there", Reassignment({TopicPartition("orders", 9): (0, 1)}))
    run.ask("to where it is", Reassignment({P0: (0, 1, 2)}))
    run.ask("to another order", Reassignment({P0: (2, 1, 0)}))
    run.ask("cancel what is not on the move", Reassignment({P0: None}))
    run.kill(2)
    run.ask("within where it is, one of them dead", Reassignment({P1: (0, 1, 2)}))
    run.ask("away from the dead broker", Reassignment({P1: (0, 1)}))
    run.ask("to the dead broker alone", Reassignment({P2: (2,)}))


def reassignment_by_znode(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    run.edit("to a broker that is not there", asked((0, [0, 9])))
    run.ask("take it back", Reassignment({P0: None}))
    run.edit("of a partition and a topic that are not there", asked((7, [0, 1]), topic="orders"))
    run.edit("of a topic that is not there", asked((0, [0, 1]), topic="nosuch"))
    run.edit("broker 7 registers and does not respond", unreachable_broker(7))
    run.edit("0 to 7,1 and 1 to 2,1", asked((0, [7, 1]), (1, [2, 1])), until=placed(1, 2, 1))
    run.ask("list", ReassignmentList())
    run.ask("0 rather to 1,2", Reassignment({P0: (1, 2)}), until=placed(0, 1, 2))
    run.edit("2 to 7,0", asked((2, [7, 0])))
    run.edit("the controller is deposed", Delete("/controller"), until=epoch(2))
    run.edit("broker 7 goes", Delete("/brokers/ids/7"))
    run.edit("its request is taken away", Delete(ASKED))
    run.edit("1 back to 1,2, while the znode is not watched", asked((1, [1, 2])))
    run.ask("take 2 back", Reassignment({P2: None}))
    run.edit("the controller is deposed again", Delete("/controller"), until=all_of(epoch(3), placed(1, 1, 2)))
    run.edit("of nothing", Create(ASKED, json_data({"version": 1, "partitions": []})))
    run.edit("nothing is taken away", Delete(ASKED))
    run.ask("1 to 2,1", Reassignment({P1: (2, 1)}), until=placed(1, 2, 1))
    run.edit("1 back to 1,2, while the znode is watched", asked((1, [1, 2])), until=placed(1, 1, 2))
    run.edit("nonsense", Create(ASKED, b"nonsense"))


def preferred_election_by_znode(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    run.kill(1)
    run.edit("of a dead broker", preferred(("orders", 1), ("orders", 2)), until=gone(ELECT))
    run.restart(1)
    wanted = preferred(("orders", 0), ("orders", 1), ("orders", 9), ("nosuch", 0))
    run.edit("of what is there and what is not", wanted, until=all_of(gone(ELECT), led_by(0, 1, 2)))
    run.edit("of who leads already", preferred(("orders", 0)), until=gone(ELECT))
    run.edit("of nothing", Create(ELECT, json_data({"version": 1, "partitions": []})), until=gone(ELECT))
    run.edit("nonsense", Create(ELECT, b"nonsense"), until=gone(ELECT))


def elections(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    run.ask("preferred of all: none is needed", Election(PREFERRED, None))
    run.ask("unclean of one with a leader", Election(UNCLEAN, (P0,)))
    run.ask("of a partition that is not there", Election(PREFERRED, (TopicPartition("orders", 9),)))
    run.kill(1)
    run.ask("preferred of a dead broker", Election(PREFERRED, (P1,)))
    run.ask("unclean of all: none is needed", Election(UNCLEAN, None))


def rebalance(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders()
    run.kill(1)
    run.restart(1, "broker 1 returns and leads again", until=led_by(0, 1, 2, 0, 1, 2))


def unclean_by_default(run: ScenarioRun) -> None:
    run.begin()
    run.ask("create orders", TopicCreation("orders", {0: (1, 2)}), partitions(1))
    configs = {"unclean.leader.election.enable": "false"}
    run.ask("create payments, clean", TopicCreation("payments", {0: (1, 2)}, configs), partitions(2))
    run.kill(1)
    run.kill(2, until=led_by(-1, -1))
    run.restart(1, until=led_by(1, -1))
    run.restart(2, until=led_by(1, 2))


def unclean_by_config(run: ScenarioRun) -> None:
    run.begin()
    run.ask("create orders", TopicCreation("orders", {0: (1, 2)}), partitions(1))
    configs = {"unclean.leader.election.enable": "true"}
    run.ask("create payments, unclean", TopicCreation("payments", {0: (1, 2)}, configs), partitions(2))
    run.kill(1)
    run.kill(2, until=led_by(-1, -1))
    run.restart(1, until=led_by(-1, 1))
    change = ConfigChange(BROKER, "", configs, asked=1)
    run.ask("cluster default unclean.leader.election.enable=true", change, until=led_by(1, 1))
    run.restart(2)


def asked(*moves: tuple[int, list[int]], topic: str = "orders") -> Create:
    wanted = [{"topic": topic, "partition": partition, "replicas": replicas} for partition, replicas in moves]
    return Create(ASKED, json_data({"version": 1, "partitions": wanted}))


def preferred(*of: tuple[str, int]) -> Create:
    wanted = [{"topic": topic, "partition": partition} for topic, partition in of]
    return Create(ELECT, json_data({"version": 1, "partitions": wanted}))
