"""Scenarios of controller elections, broker registrations, broker failures and notification znodes."""

from __future__ import annotations

import json

from tests.golden.scenario_cluster import ConfigChange, TopicCreation, TopicDeletion, Tree, tree_of
from tests.golden.scenario_run import (
    Condition,
    ScenarioRun,
    all_of,
    epoch,
    gone,
    in_sync,
    json_data,
    led_by,
    none_of,
    partitions,
    states,
    unreachable_broker,
)
from understudy.clusters.clients.config_requests import BROKER
from understudy.foundation.zk.client import Create, Delete, SetData

STATE_0 = "/brokers/topics/orders/partitions/0/state"


def controller_deposed(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders()
    run.edit("/controller deleted by hand", Delete("/controller"), until=epoch(2))
    run.edit("/controller_epoch raised by hand", SetData("/controller_epoch", b"9"))
    direct = {"version": 1, "partitions": {"0": [0, 1]}}
    run.edit("a topic meanwhile", Create("/brokers/topics/direct", json_data(direct)))
    run.edit("/controller deleted again", Delete("/controller"), until=all_of(epoch(10), partitions(7)))
    run.edit("another topic", Create("/brokers/topics/later", json_data(direct)), until=partitions(8))


def controller_epoch_lost(run: ScenarioRun) -> None:
    run.begin()
    # Starts at epoch 5, because a controller epoch that occurs twice in a recording has no single winner.
    run.cluster.edit(SetData("/controller_epoch", b"4"), Delete("/controller"))
    run.cluster.wait_until(epoch(5), "a controller of epoch 5")
    run.skip()
    run.create_orders(partitions=3)
    run.edit("/controller_epoch deleted by hand", Delete("/controller_epoch"))
    direct = {"version": 1, "partitions": {"0": [0, 1]}}
    run.edit("a topic meanwhile", Create("/brokers/topics/direct", json_data(direct)))
    run.edit("/controller deleted too", Delete("/controller"), until=epoch(1))


def registrations(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    registered = json.loads(tree_of(run.cluster)["/brokers/ids/1"].data or b"")
    moved = registered | {"rack": "attic"}
    run.edit("broker 1 has a rack", SetData("/brokers/ids/1", json_data(moved)))
    moved["endpoints"] = [*registered["endpoints"], "EXTRA://127.0.0.1:7"]
    moved["listener_security_protocol_map"] = {"PLAINTEXT": "PLAINTEXT", "EXTRA": "PLAINTEXT"}
    run.edit("broker 1 has another listener", SetData("/brokers/ids/1", json_data(moved)))
    again = Create("/brokers/ids/1", json_data(registered))
    run.edit(
        "broker 1 registers again before the controller reads it", Delete("/brokers/ids/1"), again, until=follows(1)
    )
    run.edit("broker 7 comes", unreachable_broker(7))
    run.edit("brokers 7 and 8 change places", Delete("/brokers/ids/7"), unreachable_broker(8))


def pauses(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders()
    run.cluster.pause(1)
    run.wait_for_loss_of(1)
    run.end_step("broker 1 stands still beyond its session")
    run.cluster.resume(1)
    run.cluster.wait_until(all_of(registered(1), follows(1)), "broker 1 is back")
    run.end_step("broker 1 goes on")
    run.cluster.pause(0)
    run.wait_for_loss_of(0)
    run.end_step("broker 0, the controller, stands still beyond its session")
    run.cluster.resume(0)
    run.cluster.wait_until(all_of(registered(0), follows(0)), "broker 0 is back")
    run.end_step("broker 0 goes on")


def blackout(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders()
    for broker in (0, 1, 2):
        run.cluster.kill(broker)
    none_registered = none_of(registered(0), registered(1), registered(2))
    run.cluster.wait_until(all_of(none_registered, gone("/controller")), "all sessions have ended")
    run.end_step("kill -9 of all brokers")
    run.restart(2, "broker 2 comes first", until=led_by(2, 2, 2, 2, 2, 2))
    run.restart(0, "then broker 0", until=in_sync(0, 0, 1, 2, 3, 4, 5))
    run.restart(1, "then broker 1", until=in_sync(1, 0, 1, 2, 3, 4, 5))


def hang(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=2)
    run.cluster.pause(1)
    created = TopicCreation("payments", {0: (0, 1, 2), 1: (1, 2, 0)})
    run.ask("create payments while broker 1 stands still within its session", created, until=partitions(4))
    run.ask("delete orders meanwhile", TopicDeletion("orders"))
    run.cluster.resume(1)
    run.cluster.wait_until(gone("/admin/delete_topics/orders"), "the deletion is over")
    run.end_step("broker 1 goes on")


def started_too_soon(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    run.cluster.kill(1)
    run.cluster.start_and_expect_exit(1)
    run.wait_for_loss_of(1)
    run.end_step("kill -9 broker 1, which is started again while its old session lasts, and gives up")
    run.restart(1)


def listeners(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    two = {
        "listeners": "PLAINTEXT://127.0.0.1:0,EXTRA://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT",
    }
    run.ask(
        "broker 1 listens twice", ConfigChange(BROKER, "1", two, asked=1), until=listens_on(1, "PLAINTEXT", "EXTRA")
    )
    without = ConfigChange(BROKER, "1", {"listeners": "EXTRA://127.0.0.1:0"}, asked=1)
    run.ask("and may not stop where brokers meet", without)
    never = ConfigChange(BROKER, "1", {"broker.id": "4"}, asked=1)
    run.ask("and may not change its name", never)
    run.ask("broker 1 listens once", ConfigChange(BROKER, "1", dict.fromkeys(two), asked=1))


def shutdowns(run: ScenarioRun) -> None:
    run.begin()
    run.ask("create alone", TopicCreation("alone", {0: (1,), 1: (0,)}), partitions(2))
    run.ask("create orders", TopicCreation("orders", {0: (1, 2), 1: (2, 1)}), partitions(4))
    run.stop(1, "SIGTERM broker 1, the only replica of one", until=led_by(-1, 0, 2, 2))
    run.restart(1, until=all_of(led_by(1, 0, 2, 2), in_sync(1, 0, 1)))
    run.kill(1, until=all_of(led_by(-1, 0, 2, 2), none_of(in_sync(1, 0, 1))))
    run.stop(2, "SIGTERM broker 2, alone in the ISRs of orders", until=led_by(-1, 0, -1, -1))
    run.stop(0, "SIGTERM broker 0, the last", until=gone("/controller"))
    run.restart(1, "broker 1 comes first", until=led_by(1, -1, -1, -1))
    run.restart(2, "then broker 2", until=all_of(led_by(1, -1, 2, 2), in_sync(1, 0, 1)))
    run.restart(0, "then broker 0", until=led_by(1, 0, 2, 2))


def notifications(run: ScenarioRun) -> None:
    run.begin()
    run.create_orders(partitions=3)
    run.edit("the ISR of 0, of which nothing is new", isr_change(("orders", 0)))
    state = json.loads(tree_of(run.cluster)[STATE_0].data or b"")
    shrunk = SetData(STATE_0, json_data(state | {"isr": [0, 1]}))
    run.edit("the ISR of 0, which has shrunk", shrunk, isr_change(("orders", 0)), until=none_of(in_sync(2, 0)))
    run.edit("of a partition that is not there", isr_change(("nosuch", 0), ("orders", 7)))
    run.edit("of nothing", Create("/isr_change_notification/isr_change_", b"nonsense", sequential=True))
    run.edit("a log dir of broker 1 failed", log_dir_event(1))
    run.edit("a log dir of a broker that is not there", log_dir_event(9))
    run.edit(
        "nonsense about log dirs", Create("/log_dir_event_notification/log_dir_event_", b"nonsense", sequential=True)
    )


def isr_change(*changed: tuple[str, int]) -> Create:
    data = {"version": 1, "partitions": [{"topic": topic, "partition": partition} for topic, partition in changed]}
    return Create("/isr_change_notification/isr_change_", json_data(data), sequential=True)


def log_dir_event(broker: int) -> Create:
    data = {"version": 1, "broker": broker, "event": 1}
    return Create("/log_dir_event_notification/log_dir_event_", json_data(data), sequential=True)


def follows(broker: int) -> Condition:
    """The broker leads no partition and is in every ISR."""
    return lambda tree: all(state["leader"] != broker and broker in state["isr"] for _, state in states(tree))


def registered(broker: int) -> Condition:
    return lambda tree: f"/brokers/ids/{broker}" in tree


def listens_on(broker: int, *names: str) -> Condition:
    def holds(tree: Tree) -> bool:
        endpoints = json.loads(tree[f"/brokers/ids/{broker}"].data or b"{}").get("endpoints", [])
        return [endpoint.partition("://")[0] for endpoint in endpoints] == list(names)

    return holds
