"""The scenarios of the recordings, which run on processes and in the simulator."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.golden import scenarios_of_leaders as of_leaders
from tests.golden import scenarios_of_the_controller as of_the_controller
from tests.golden import scenarios_of_topics as of_topics
from tests.golden.recording import Json
from tests.golden.scenario_cluster import (
    Cancellation,
    ConfigChange,
    Election,
    MorePartitions,
    Reassignment,
    ReassignmentList,
    ScenarioCluster,
    TopicCreation,
    TopicDeletion,
    Verification,
    throttle_removal,
    throttle_removals_of_brokers,
)
from tests.golden.scenario_run import SIX_PARTITIONS, ScenarioRun, assigned, in_sync, leaders, none_of, states
from understudy.clusters.clients.config_requests import BROKER, TOPIC
from understudy.clusters.clients.topic_requests import PREFERRED, UNCLEAN
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.zk.client import Create

BROKERS = (0, 1, 2)
FOUR_BROKERS = (0, 1, 2, 3)
IBP = "inter.broker.protocol.version"
KEPT_ALIVE = "the simulator starts a broker again that ends by itself"
REBALANCING = {"auto.leader.rebalance.enable": "true", "leader.imbalance.check.interval.seconds": "5"}

LAGGING = {"replica.lag.time.max.ms": "4000", "zookeeper.session.timeout.ms": "30000"}
"""A follower that does not fetch leaves the ISR long before its session ends."""


def startup(run: ScenarioRun) -> None:
    for broker in BROKERS:
        run.start(broker)
        run.end_step(f"start broker {broker}")


def create_topic(run: ScenarioRun) -> None:
    run.begin()
    outcome = run.cluster.ask(
        TopicCreation("orders", dict(enumerate(SIX_PARTITIONS[:4])), {"min.insync.replicas": "2"})
    )
    run.cluster.wait_until(lambda tree: len(states(tree)) == 4, "four partitions have a state")
    run.end_step("create orders 4x3 by tool with a config", outcome, by_tool=True)

    direct = {"version": 1, "partitions": {"0": [0, 1], "7": [2, 0], "3": [1, 2]}}
    run.cluster.edit(Create("/brokers/topics/direct", json.dumps(direct, separators=(",", ":")).encode()))
    run.cluster.wait_until(lambda tree: len(states(tree)) == 7, "seven partitions have a state")
    run.end_step("create direct by writing the znode, partitions 0 3 7, version 1 without topic id")

    outcome = run.cluster.ask(MorePartitions("orders", 6, SIX_PARTITIONS[4:]))
    run.cluster.wait_until(lambda tree: len(states(tree)) == 9, "nine partitions have a state")
    run.end_step("add partitions: orders to 6", outcome, by_tool=True)

    outcome = run.cluster.ask(TopicCreation("orders", dict(enumerate(SIX_PARTITIONS[:4]))))
    run.cluster.wait_until(lambda tree: True, "the refusal has come")
    run.end_step("create again: exists", outcome, by_tool=True)


def broker_killed(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders()
    run.cluster.kill(1)
    run.wait_for_loss_of(1)
    run.end_step("kill -9 broker 1")
    run.start(1)
    run.end_step("broker 1 returns")


def controller_killed(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders()
    run.cluster.kill(0)
    run.wait_for_loss_of(0)
    run.end_step("kill -9 broker 0, the controller")
    run.start(0)
    run.end_step("broker 0 returns")
    outcome = run.cluster.ask(Election(PREFERRED, None))
    run.cluster.wait_until(lambda tree: leaders(tree) == [0, 1, 2, 0, 1, 2], "preferred leaders lead")
    run.end_step("preferred election of all", outcome, by_tool=True)


def controlled_shutdown(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders()
    run.cluster.stop(1)
    run.wait_for_loss_of(1)
    run.end_step("SIGTERM broker 1")
    run.start(1)
    run.end_step("broker 1 returns")
    run.cluster.stop(0)
    run.wait_for_loss_of(0)
    run.end_step("SIGTERM broker 0, the controller")


def deletion(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=2)
    outcome = run.cluster.ask(TopicDeletion("orders"))
    run.cluster.wait_until(lambda tree: "/admin/delete_topics/orders" not in tree, "the marker is gone")
    run.end_step("delete orders", outcome, by_tool=True)
    run.create_orders("create again", partitions=2)
    run.cluster.kill(1)
    run.wait_for_loss_of(1)
    run.end_step("kill -9 broker 1")
    outcome = run.cluster.ask(TopicDeletion("orders"))
    run.cluster.wait_until(lambda tree: leaders(tree) == [-1, -1], "no partition has a leader")
    run.end_step("delete orders with a dead replica: stalls", outcome, by_tool=True)
    run.cluster.start(1)
    run.cluster.wait_until(lambda tree: "/admin/delete_topics/orders" not in tree, "the marker is gone")
    run.end_step("broker 1 returns: completes")
    run.cluster.edit(Create("/admin/delete_topics/nosuch", b""))
    run.cluster.wait_until(lambda tree: "/admin/delete_topics/nosuch" not in tree, "the marker is gone")
    run.end_step("ask by znode for a topic that does not exist")


def offline_and_unclean(run: ScenarioRun) -> None:
    run.begin()
    outcome = run.cluster.ask(TopicCreation("orders", {0: (1, 2), 1: (2, 1)}))
    run.cluster.wait_until(lambda tree: len(states(tree)) == 2, "two partitions have a state")
    run.end_step("create orders on 1,2", outcome, by_tool=True)
    run.cluster.kill(1)
    run.wait_for_loss_of(1)
    run.end_step("kill -9 broker 1")
    run.cluster.kill(2)
    run.cluster.wait_until(lambda tree: leaders(tree) == [-1, -1], "no partition has a leader")
    run.end_step("kill -9 broker 2: no leader left")
    run.cluster.start(1)
    run.cluster.wait_until(lambda tree: "/brokers/ids/1" in tree, "broker 1 is registered")
    run.end_step("broker 1 returns: not in ISR, stays offline")
    outcome = run.cluster.ask(Election(UNCLEAN, (TopicPartition("orders", 0),)))
    run.cluster.wait_until(lambda tree: leaders(tree) == [1, -1], "one partition has a leader")
    run.end_step("unclean election by tool", outcome, by_tool=True)
    outcome = run.cluster.ask(ConfigChange(TOPIC, "orders", {"unclean.leader.election.enable": "true"}, asked=0))
    run.cluster.wait_until(lambda tree: leaders(tree) == [1, 1], "the other partition has a leader too")
    run.end_step("topic config unclean.leader.election.enable=true", outcome, by_tool=True)
    run.start(2)
    run.end_step("broker 2 returns")


def configs(run: ScenarioRun) -> None:
    run.begin()
    outcome = run.cluster.ask(TopicCreation("orders", {0: (0, 1, 2)}))
    run.cluster.wait_until(lambda tree: len(states(tree)) == 1, "a partition has a state")
    run.end_step("create orders", outcome, by_tool=True)
    for step, change in (
        (
            "topic config add",
            ConfigChange(TOPIC, "orders", {"retention.ms": "60000", "segment.bytes": "1048576"}, asked=0),
        ),
        ("topic config delete", ConfigChange(TOPIC, "orders", {"retention.ms": None}, asked=2)),
        ("broker config add", ConfigChange(BROKER, "1", {"log.cleaner.threads": "2"}, asked=1)),
        ("cluster default add", ConfigChange(BROKER, "", {"unclean.leader.election.enable": "true"}, asked=1)),
        ("unknown config", ConfigChange(TOPIC, "orders", {"no.such": "1"}, asked=0)),
        ("describe", ConfigChange(TOPIC, "orders", {}, asked=0)),
    ):
        outcome = run.cluster.ask(change)
        run.cluster.wait_until(lambda tree: True, "the answer has come")
        run.end_step(step, outcome, by_tool=True)


def reassignment(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    moves = {TopicPartition("orders", 0): (3, 1, 2), TopicPartition("orders", 1): (2, 3)}
    outcome = run.cluster.ask(Reassignment(moves))
    run.cluster.wait_until(
        lambda tree: assigned(tree) == {"0": [3, 1, 2], "1": [2, 3], "2": [2, 0, 1]}, "both have moved"
    )
    run.end_step("execute: 0 to 3,1,2 and 1 to 2,3", outcome, by_tool=True)

    throttles = [*throttle_removals_of_brokers(0, 2, 3, 1), throttle_removal(TOPIC, "orders", asked=1)]
    outcome = run.cluster.ask(Verification(Reassignment(moves), throttles))
    run.cluster.wait_until(lambda tree: True, "the answer has come")
    run.end_step("verify", outcome, by_tool=True)

    run.cluster.kill(3)
    run.wait_for_loss_of(3)
    run.skip()
    towards_3 = Reassignment({TopicPartition("orders", 2): (3, 0, 1)})
    outcome = run.cluster.ask(towards_3)
    run.cluster.wait_until(lambda tree: True, "the refusal has come")
    run.end_step("execute towards a dead broker: refused or stuck", outcome, by_tool=True)
    outcome = run.cluster.ask(ReassignmentList())
    run.end_step("list", outcome, by_tool=True)

    # The tool also tries to remove the throttle of broker 3, which is dead.
    outcome = run.cluster.ask(Cancellation(towards_3, throttle_removals_of_brokers(1, 2, 0, 3)))
    run.cluster.wait_until(lambda tree: True, "the answers have come")
    run.end_step("cancel", outcome, by_tool=True)

    asked = {"version": 1, "partitions": [{"topic": "orders", "partition": 2, "replicas": [1, 2, 0]}]}
    run.cluster.edit(Create("/admin/reassign_partitions", json.dumps(asked, separators=(",", ":")).encode()))
    run.cluster.wait_until(lambda tree: "/admin/reassign_partitions" not in tree, "the reassignment znode is deleted")
    run.end_step("by writing /admin/reassign_partitions: reorder 2 to 1,2,0")


def isr(run: ScenarioRun) -> None:
    """A paused follower leaves the ISR of the one partition that records arrive in: it stays caught up in the other."""
    orders_0 = TopicPartition("orders", 0)
    run.begin()
    run.create_orders(partitions=3)
    run.cluster.produce(orders_0, [b"before"] * 10)
    run.cluster.pause(1)
    run.cluster.produce(orders_0, [b"meanwhile"] * 10)
    run.cluster.wait_until(none_of(in_sync(1, 0)), "broker 1 is not in the ISR of 0")
    run.end_step("SIGSTOP broker 1 within its session: ISR shrinks")
    run.cluster.resume(1)
    run.cluster.wait_until(in_sync(1, 0, 1, 2), "broker 1 is in the ISRs again")
    run.end_step("SIGCONT: ISR grows")


class Scenario(NamedTuple):
    """The steps of a scenario, its brokers, and its keys of `server.properties`."""

    steps: Callable[[ScenarioRun], None]
    brokers: tuple[int, ...] = BROKERS
    settings: Mapping[str, str] = {}
    unchecked: str = ""
    """An action of an operator that violates an invariant of `understudy.checks`, with Kafka and with ours."""

    only_processes: str = ""
    """The reason why it cannot run in the simulator; empty if it can."""


SCENARIOS: Mapping[str, Scenario] = {
    "startup": Scenario(startup),
    "create-topic": Scenario(create_topic),
    "broker-killed": Scenario(broker_killed),
    "controller-killed": Scenario(controller_killed),
    "controlled-shutdown": Scenario(controlled_shutdown),
    "deletion": Scenario(deletion),
    "offline-and-unclean": Scenario(offline_and_unclean),
    "configs": Scenario(configs),
    "reassignment": Scenario(reassignment, brokers=FOUR_BROKERS),
    "isr": Scenario(isr, settings=LAGGING),
    "more-partitions": Scenario(of_topics.more_partitions),
    "topics-by-hand": Scenario(of_topics.topics_by_hand),
    "deletions": Scenario(of_topics.deletions),
    "deletion-during-reassignment": Scenario(of_topics.deletion_during_reassignment),
    "deletion-disabled": Scenario(of_topics.deletion_disabled, settings={"delete.topic.enable": "false"}),
    "controller-deposed": Scenario(of_the_controller.controller_deposed),
    "controller-epoch-lost": Scenario(
        of_the_controller.controller_epoch_lost, unchecked="controller epochs begin again"
    ),
    "registrations": Scenario(of_the_controller.registrations),
    "shutdowns": Scenario(of_the_controller.shutdowns, settings={"controlled.shutdown.retry.backoff.ms": "500"}),
    "pauses": Scenario(of_the_controller.pauses),
    "notifications": Scenario(of_the_controller.notifications),
    "reassignment-overridden": Scenario(of_leaders.reassignment_overridden),
    "reassignment-refused": Scenario(of_leaders.reassignment_refused),
    "reassignment-by-znode": Scenario(of_leaders.reassignment_by_znode),
    "preferred-election-by-znode": Scenario(of_leaders.preferred_election_by_znode),
    "elections": Scenario(of_leaders.elections),
    "rebalance": Scenario(of_leaders.rebalance, settings=REBALANCING),
    "unclean-by-config": Scenario(of_leaders.unclean_by_config),
    "znodes-edited": Scenario(of_topics.znodes_edited),
    "several-topics": Scenario(of_topics.several_topics),
    "reassignments": Scenario(of_leaders.reassignments, brokers=FOUR_BROKERS),
    "reassignment-cancelled": Scenario(of_leaders.reassignment_cancelled, brokers=FOUR_BROKERS),
    "unclean-by-default": Scenario(of_leaders.unclean_by_default, settings={"unclean.leader.election.enable": "true"}),
    "blackout": Scenario(of_the_controller.blackout),
    "hang": Scenario(of_the_controller.hang, settings={"zookeeper.session.timeout.ms": "12000"}),
    "broker-killed-3.4": Scenario(broker_killed, settings={IBP: "3.4"}),
    "create-topic-0.11": Scenario(create_topic, settings={IBP: "0.11.0"}),
    "started-too-soon": Scenario(
        of_the_controller.started_too_soon,
        settings={"zookeeper.session.timeout.ms": "12000"},
        only_processes=KEPT_ALIVE,
    ),
    "listeners": Scenario(of_the_controller.listeners, only_processes="a broker there has one address"),
    "create-topic-2.7": Scenario(create_topic, settings={IBP: "2.7-IV0"}),
    "broker-killed-2.6": Scenario(broker_killed, settings={IBP: "2.6"}),
    "controlled-shutdown-2.7": Scenario(controlled_shutdown, settings={IBP: "2.7"}),
    "offline-and-unclean-3.1": Scenario(offline_and_unclean, settings={IBP: "3.1"}),
    "deletion-2.1": Scenario(deletion, settings={IBP: "2.1"}),
    "controller-killed-2.8": Scenario(controller_killed, settings={IBP: "2.8"}),
}


RECORDED_WITH_TOOLS = tuple(SCENARIOS)[:10]
"""Scenarios whose recordings were made with Apache's tools, before there was a recorder here."""


def brokers_and_settings(scenario: str) -> tuple[tuple[int, ...], Mapping[str, str]]:
    """The brokers and settings of the cluster that a scenario needs."""
    return SCENARIOS[scenario].brokers, SCENARIOS[scenario].settings


def run_scenario(scenario: str, cluster: ScenarioCluster) -> Json:
    """Run `scenario` on `cluster` and return its recording."""
    run = ScenarioRun(scenario, cluster, SCENARIOS[scenario].brokers)
    SCENARIOS[scenario].steps(run)
    return run.document
