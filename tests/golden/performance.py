"""A scenario on a stage, recorded step by step, and what it waits for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

from foundation.zk.client import Create, Op
from tests.golden.recorder import Recorder
from tests.golden.recording import Json
from tests.golden.stage import Refused, Request, Stage, TopicCreation, Tree, tree_of

SIX_PARTITIONS = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0))
"""How `orders` is placed, so that nothing depends on chance."""

Condition: TypeAlias = Callable[[Tree], bool]


class Performance:
    """One scenario on one stage, recorded step by step."""

    def __init__(self, scenario: str, stage: Stage, brokers: Sequence[int]) -> None:
        self.stage = stage
        self._brokers = tuple(brokers)
        self._recorder = Recorder(scenario)

    @property
    def document(self) -> Json:
        return self._recorder.document

    def begin(self) -> None:
        """Start all brokers, one after the other, outside the recording."""
        for broker in self._brokers:
            self.start(broker)
        self.skip()

    def skip(self) -> None:
        """What has happened since the last step is part of none."""
        self._recorder.skip(self.stage.transactions(), self.stage.requests())

    def end_step(self, name: str, outcome: Refused | None = None, *, by_tool: bool = False) -> None:
        shown: dict[str, Json] = {}
        if by_tool:
            shown = {"rc": 0 if outcome is None else 1} | ({} if outcome is None else {"refused": outcome.reason})
        self._recorder.step(name, self.stage.transactions(), self.stage.requests(), shown)

    # -- steps

    def ask(self, name: str, request: Request, until: Condition | None = None) -> None:
        """A tool asks; over once it has its answer and, if given, `until` holds."""
        outcome = self.stage.ask(request)
        self.stage.wait_until(until or (lambda tree: True), name)
        self.end_step(name, outcome, by_tool=True)

    def edit(self, name: str, *ops: Op, until: Condition | None = None) -> None:
        """An operator edits znodes in one transaction."""
        self.stage.edit(*ops)
        self.stage.wait_until(until or (lambda tree: True), name)
        self.end_step(name)

    # -- what several scenarios do

    def start(self, broker: int) -> None:
        self.stage.start(broker)
        self.stage.wait_until(
            lambda tree: f"/brokers/ids/{broker}" in tree and "/controller" in tree and all_in_sync(tree, broker),
            f"broker {broker} is registered and in every ISR it belongs to",
        )

    def create_orders(self, name: str = "create orders", *, partitions: int = 6) -> None:
        outcome = self.stage.ask(TopicCreation("orders", dict(enumerate(SIX_PARTITIONS[:partitions]))))
        self.stage.wait_until(lambda tree: len(states(tree)) == partitions, f"{partitions} partitions have a state")
        self.end_step(name, outcome, by_tool=True)

    def wait_for_loss_of(self, broker: int) -> None:
        self.stage.wait_until(
            lambda tree: (
                f"/brokers/ids/{broker}" not in tree and "/controller" in tree and all_led_without(tree, broker)
            ),
            f"broker {broker} is gone and leads nothing",
        )

    def kill(self, broker: int, name: str | None = None, until: Condition | None = None) -> None:
        self.stage.kill(broker)
        self._lose(broker, name or f"kill -9 broker {broker}", until)

    def stop(self, broker: int, name: str | None = None, until: Condition | None = None) -> None:
        self.stage.stop(broker)
        self._lose(broker, name or f"SIGTERM broker {broker}", until)

    def _lose(self, broker: int, name: str, until: Condition | None) -> None:
        if until is None:
            self.wait_for_loss_of(broker)
        else:
            self.stage.wait_until(lambda tree: f"/brokers/ids/{broker}" not in tree and until(tree), name)
        self.end_step(name)

    def bring_back(self, broker: int, name: str | None = None, until: Condition | None = None) -> None:
        if until is None:
            self.start(broker)
        else:
            self.stage.start(broker)
            self.stage.wait_until(
                lambda tree: f"/brokers/ids/{broker}" in tree and until(tree), f"broker {broker} is back"
            )
        self.end_step(name or f"broker {broker} returns")


# -- what an operator writes


def json_data(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def ghost(broker: int) -> Create:
    """The registration of a broker at whose address nobody answers."""
    registered = {
        "features": {},
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": [f"PLAINTEXT://127.0.0.1:{broker}"],
        "jmx_port": -1,
        "port": broker,
        "host": "127.0.0.1",
        "version": 5,
        "timestamp": "1700000000000",
    }
    return Create(f"/brokers/ids/{broker}", json_data(registered))


def topic_znode(play: Performance, topic: str) -> Json:
    """What is written there now, to be edited."""
    return json.loads(tree_of(play.stage)[f"/brokers/topics/{topic}"].data or b"")


# -- what the znodes say


def partitions(count: int) -> Condition:
    """So many have a state."""
    return lambda tree: len(states(tree)) == count


def epoch(wanted: int) -> Condition:
    """There is a controller of this epoch."""
    return lambda tree: "/controller" in tree and _data(tree, "/controller_epoch") == b"%d" % wanted


def gone(path: str) -> Condition:
    return lambda tree: path not in tree


def placed(partition: int, *brokers: int) -> Condition:
    """The partition of `orders` is there, and on its way nowhere."""
    return lambda tree: _placement(tree, str(partition)) == list(brokers)


def led_by(*brokers: int) -> Condition:
    """In the order of topics and partitions; -1 for nobody."""
    return lambda tree: leaders(tree) == list(brokers)


def in_sync(broker: int, *of_partitions: int) -> Condition:
    """In the ISR of these partitions of `orders`."""
    paths = [f"/brokers/topics/orders/partitions/{partition}/state" for partition in of_partitions]
    return lambda tree: all(broker in json.loads(_data(tree, path))["isr"] for path in paths)


def all_of(*conditions: Condition) -> Condition:
    return lambda tree: all(condition(tree) for condition in conditions)


def none_of(*conditions: Condition) -> Condition:
    return lambda tree: not any(condition(tree) for condition in conditions)


def _data(tree: Tree, path: str) -> bytes:
    return (tree[path].data or b"") if path in tree else b""


def _placement(tree: Tree, partition: str) -> Json:
    topic = json.loads(_data(tree, "/brokers/topics/orders"))
    moving = {**topic["adding_replicas"], **topic["removing_replicas"]}
    return None if partition in moving else topic["partitions"][partition]


def states(tree: Tree) -> list[tuple[str, Json]]:
    """(path, state) of every partition, sorted."""
    return [(path, json.loads(tree[path].data or b"")) for path in sorted(tree) if path.endswith("/state")]


def assigned(tree: Tree) -> Json:
    """The replicas of `orders`, once none of them is on its way in or out; else None."""
    topic = json.loads(tree["/brokers/topics/orders"].data or b"")
    return None if topic["adding_replicas"] or topic["removing_replicas"] else topic["partitions"]


def leaders(tree: Tree) -> list[int]:
    return [state["leader"] for _, state in states(tree)]


def all_in_sync(tree: Tree, broker: int) -> bool:
    return all(broker in state["isr"] for path, state in states(tree) if broker in replicas(tree, path))


def all_led_without(tree: Tree, broker: int) -> bool:
    return all(state["leader"] >= 0 and broker not in state["isr"] for _, state in states(tree))


def replicas(tree: Tree, path: str) -> list[int]:
    topic, partition = path.removeprefix("/brokers/topics/").split("/partitions/")
    found: list[int] = json.loads(tree[f"/brokers/topics/{topic}"].data or b"")["partitions"][
        partition.removesuffix("/state")
    ]
    return found
