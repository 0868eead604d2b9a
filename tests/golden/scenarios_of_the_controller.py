"""What becomes of the controller's role, of its notifications, and of brokers that come and go in unusual ways."""

from __future__ import annotations

import json

from foundation.zk.client import Create, Delete, SetData
from tests.golden.performance import (
    Condition,
    Performance,
    all_of,
    epoch,
    ghost,
    gone,
    in_sync,
    json_data,
    led_by,
    none_of,
    partitions,
    states,
)
from tests.golden.stage import ConfigChange, TopicCreation, TopicDeletion, Tree, tree_of
from understudy.admin_client import BROKER

STATE_0 = "/brokers/topics/orders/partitions/0/state"


def controller_deposed(play: Performance) -> None:
    play.begin()
    play.create_orders()
    play.edit("/controller deleted by hand", Delete("/controller"), until=epoch(2))
    play.edit("/controller_epoch raised by hand", SetData("/controller_epoch", b"9"))
    direct = {"version": 1, "partitions": {"0": [0, 1]}}
    play.edit("a topic meanwhile", Create("/brokers/topics/direct", json_data(direct)))
    play.edit("/controller deleted again", Delete("/controller"), until=all_of(epoch(10), partitions(7)))
    play.edit("another topic", Create("/brokers/topics/later", json_data(direct)), until=partitions(8))


def controller_epoch_lost(play: Performance) -> None:
    play.begin()
    # Epochs that come twice in a recording have no one winner.
    play.stage.edit(SetData("/controller_epoch", b"4"), Delete("/controller"))
    play.stage.wait_until(epoch(5), "a controller of epoch 5")
    play.skip()
    play.create_orders(partitions=3)
    play.edit("/controller_epoch deleted by hand", Delete("/controller_epoch"))
    direct = {"version": 1, "partitions": {"0": [0, 1]}}
    play.edit("a topic meanwhile", Create("/brokers/topics/direct", json_data(direct)))
    play.edit("/controller deleted too", Delete("/controller"), until=epoch(1))


def registrations(play: Performance) -> None:
    play.begin()
    play.create_orders(partitions=3)
    registered = json.loads(tree_of(play.stage)["/brokers/ids/1"].data or b"")
    moved = registered | {"rack": "attic"}
    play.edit("broker 1 has a rack", SetData("/brokers/ids/1", json_data(moved)))
    moved["endpoints"] = [*registered["endpoints"], "EXTRA://127.0.0.1:7"]
    moved["listener_security_protocol_map"] = {"PLAINTEXT": "PLAINTEXT", "EXTRA": "PLAINTEXT"}
    play.edit("broker 1 has another listener", SetData("/brokers/ids/1", json_data(moved)))
    again = Create("/brokers/ids/1", json_data(registered))
    play.edit("broker 1 registers anew before anybody looks", Delete("/brokers/ids/1"), again, until=follows(1))
    play.edit("broker 7 comes", ghost(7))
    play.edit("brokers 7 and 8 change places", Delete("/brokers/ids/7"), ghost(8))


def pauses(play: Performance) -> None:
    play.begin()
    play.create_orders()
    play.stage.pause(1)
    play.wait_for_loss_of(1)
    play.end_step("broker 1 stands still beyond its session")
    play.stage.resume(1)
    play.stage.wait_until(all_of(registered(1), follows(1)), "broker 1 is back")
    play.end_step("broker 1 goes on")
    play.stage.pause(0)
    play.wait_for_loss_of(0)
    play.end_step("broker 0, the controller, stands still beyond its session")
    play.stage.resume(0)
    play.stage.wait_until(all_of(registered(0), follows(0)), "broker 0 is back")
    play.end_step("broker 0 goes on")


def blackout(play: Performance) -> None:
    play.begin()
    play.create_orders()
    for broker in (0, 1, 2):
        play.stage.kill(broker)
    nobody = none_of(registered(0), registered(1), registered(2))
    play.stage.wait_until(all_of(nobody, gone("/controller")), "everybody's session is over")
    play.end_step("kill -9 of everybody")
    play.bring_back(2, "broker 2 comes first", until=led_by(2, 2, 2, 2, 2, 2))
    play.bring_back(0, "then broker 0", until=in_sync(0, 0, 1, 2, 3, 4, 5))
    play.bring_back(1, "then broker 1", until=in_sync(1, 0, 1, 2, 3, 4, 5))


def hang(play: Performance) -> None:
    play.begin()
    play.create_orders(partitions=2)
    play.stage.pause(1)
    created = TopicCreation("payments", {0: (0, 1, 2), 1: (1, 2, 0)})
    play.ask("create payments while broker 1 stands still within its session", created, until=partitions(4))
    play.ask("delete orders meanwhile", TopicDeletion("orders"))
    play.stage.resume(1)
    play.stage.wait_until(gone("/admin/delete_topics/orders"), "the deletion is over")
    play.end_step("broker 1 goes on")


def started_too_soon(play: Performance) -> None:
    play.begin()
    play.create_orders(partitions=3)
    play.stage.kill(1)
    play.stage.start_in_vain(1)
    play.wait_for_loss_of(1)
    play.end_step("kill -9 broker 1, which is started again while its old session lasts, and gives up")
    play.bring_back(1)


def listeners(play: Performance) -> None:
    play.begin()
    play.create_orders(partitions=3)
    two = {
        "listeners": "PLAINTEXT://127.0.0.1:0,EXTRA://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT",
    }
    play.ask(
        "broker 1 listens twice", ConfigChange(BROKER, "1", two, asked=1), until=listens_on(1, "PLAINTEXT", "EXTRA")
    )
    without = ConfigChange(BROKER, "1", {"listeners": "EXTRA://127.0.0.1:0"}, asked=1)
    play.ask("and may not stop where brokers meet", without)
    never = ConfigChange(BROKER, "1", {"broker.id": "4"}, asked=1)
    play.ask("and may not change its name", never)
    play.ask("broker 1 listens once", ConfigChange(BROKER, "1", dict.fromkeys(two), asked=1))


def shutdowns(play: Performance) -> None:
    play.begin()
    play.ask("create alone", TopicCreation("alone", {0: (1,), 1: (0,)}), partitions(2))
    play.ask("create orders", TopicCreation("orders", {0: (1, 2), 1: (2, 1)}), partitions(4))
    play.stop(1, "SIGTERM broker 1, the only replica of one", until=led_by(-1, 0, 2, 2))
    play.bring_back(1, until=all_of(led_by(1, 0, 2, 2), in_sync(1, 0, 1)))
    play.kill(1, until=all_of(led_by(-1, 0, 2, 2), none_of(in_sync(1, 0, 1))))
    play.stop(2, "SIGTERM broker 2, which nobody can stand in for", until=led_by(-1, 0, -1, -1))
    play.stop(0, "SIGTERM broker 0, the last", until=gone("/controller"))
    play.bring_back(1, "broker 1 comes first", until=led_by(1, -1, -1, -1))
    play.bring_back(2, "then broker 2", until=all_of(led_by(1, -1, 2, 2), in_sync(1, 0, 1)))
    play.bring_back(0, "then broker 0", until=led_by(1, 0, 2, 2))


def notifications(play: Performance) -> None:
    play.begin()
    play.create_orders(partitions=3)
    play.edit("the ISR of 0, of which nothing is new", isr_change(("orders", 0)))
    state = json.loads(tree_of(play.stage)[STATE_0].data or b"")
    shrunk = SetData(STATE_0, json_data(state | {"isr": [0, 1]}))
    play.edit("the ISR of 0, which has shrunk", shrunk, isr_change(("orders", 0)), until=none_of(in_sync(2, 0)))
    play.edit("of a partition that is not there", isr_change(("nosuch", 0), ("orders", 7)))
    play.edit("of nothing", Create("/isr_change_notification/isr_change_", b"nonsense", sequential=True))
    play.edit("a log dir of broker 1 failed", log_dir_event(1))
    play.edit("a log dir of a broker that is not there", log_dir_event(9))
    play.edit(
        "nonsense about log dirs", Create("/log_dir_event_notification/log_dir_event_", b"nonsense", sequential=True)
    )


def isr_change(*changed: tuple[str, int]) -> Create:
    said = {"version": 1, "partitions": [{"topic": topic, "partition": partition} for topic, partition in changed]}
    return Create("/isr_change_notification/isr_change_", json_data(said), sequential=True)


def log_dir_event(broker: int) -> Create:
    said = {"version": 1, "broker": broker, "event": 1}
    return Create("/log_dir_event_notification/log_dir_event_", json_data(said), sequential=True)


def follows(broker: int) -> Condition:
    """It leads nothing and is in every ISR."""
    return lambda tree: all(state["leader"] != broker and broker in state["isr"] for _, state in states(tree))


def registered(broker: int) -> Condition:
    return lambda tree: f"/brokers/ids/{broker}" in tree


def listens_on(broker: int, *names: str) -> Condition:
    def holds(tree: Tree) -> bool:
        endpoints = json.loads(tree[f"/brokers/ids/{broker}"].data or b"{}").get("endpoints", [])
        return [endpoint.partition("://")[0] for endpoint in endpoints] == list(names)

    return holds
