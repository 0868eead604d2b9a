"""The steps of a scenario on a cluster, each recorded, and the conditions that steps wait for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tests.golden.recorder import Recorder
from tests.golden.recording import Json
from tests.golden.scenario_cluster import Refused, Request, ScenarioCluster, TopicCreation, Tree, tree_of
from understudy.foundation.zk.client import Create, Op

SIX_PARTITIONS = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0))
"""The assignment of `orders`, fixed so that nothing depends on chance."""

Condition: TypeAlias = Callable[[Tree], bool]


class ScenarioRun:
    """One run of a scenario on a cluster, recorded step by step."""

    def __init__(self, scenario: str, cluster: ScenarioCluster, brokers: Sequence[int]) -> None:
        self.cluster = cluster
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
        """Leave out of the recording what has happened since the last step."""
        self._recorder.skip(self.cluster.transactions(), self.cluster.requests())

    def end_step(self, name: str, outcome: Refused | None = None, *, by_tool: bool = False) -> None:
        shown: dict[str, Json] = {}
        if by_tool:
            shown = {"rc": 0 if outcome is None else 1} | ({} if outcome is None else {"refused": outcome.reason})
        self._recorder.step(name, self.cluster.transactions(), self.cluster.requests(), shown)

    # -- steps

    def ask(self, name: str, request: Request, until: Condition | None = None) -> None:
        """Record a tool's request, which ends when it is answered and `until`, if given, holds."""
        outcome = self.cluster.ask(request)
        self.cluster.wait_until(until or (lambda tree: True), name)
        self.end_step(name, outcome, by_tool=True)

    def edit(self, name: str, *ops: Op, until: Condition | None = None) -> None:
        """Record an operator's transaction, which ends when `until`, if given, holds."""
        self.cluster.edit(*ops)
        self.cluster.wait_until(until or (lambda tree: True), name)
        self.end_step(name)

    # -- steps of several scenarios

    def start(self, broker: int) -> None:
        self.cluster.start(broker)
        self.cluster.wait_until(
            lambda tree: f"/brokers/ids/{broker}" in tree and "/controller" in tree and all_in_sync(tree, broker),
            f"broker {broker} is registered and in every ISR it belongs to",
        )

    def create_orders(self, name: str = "create orders", *, partitions: int = 6) -> None:
        outcome = self.cluster.ask(TopicCreation("orders", dict(enumerate(SIX_PARTITIONS[:partitions]))))
        self.cluster.wait_until(lambda tree: len(states(tree)) == partitions, f"{partitions} partitions have a state")
        self.end_step(name, outcome, by_tool=True)

    def wait_for_loss_of(self, broker: int) -> None:
        self.cluster.wait_until(
            lambda tree: (
                f"/brokers/ids/{broker}" not in tree and "/controller" in tree and all_led_without(tree, broker)
            ),
            f"broker {broker} is gone and leads nothing",
        )

    def kill(self, broker: int, name: str | None = None, until: Condition | None = None) -> None:
        self.cluster.kill(broker)
        self._lose(broker, name or f"kill -9 broker {broker}", until)

    def stop(self, broker: int, name: str | None = None, until: Condition | None = None) -> None:
        self.cluster.stop(broker)
        self._lose(broker, name or f"SIGTERM broker {broker}", until)

    def _lose(self, broker: int, name: str, until: Condition | None) -> None:
        if until is None:
            self.wait_for_loss_of(broker)
        else:
            self.cluster.wait_until(lambda tree: f"/brokers/ids/{broker}" not in tree and until(tree), name)
        self.end_step(name)

    def restart(self, broker: int, name: str | None = None, until: Condition | None = None) -> None:
        if until is None:
            self.start(broker)
        else:
            self.cluster.start(broker)
            self.cluster.wait_until(
                lambda tree: f"/brokers/ids/{broker}" in tree and until(tree), f"broker {broker} is back"
            )
        self.end_step(name or f"broker {broker} returns")


# -- znodes that an operator writes


def json_data(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def unreachable_broker(broker: int) -> Create:
    """The registration of a broker at whose address no server listens."""
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


def topic_znode(run: ScenarioRun, topic: str) -> Json:
    """The topic's znode as it is now, to be edited."""
    return json.loads(tree_of(run.cluster)[f"/brokers/topics/{topic}"].data or b"")


# -- conditions on the znodes


def partitions(count: int) -> Condition:
    """`count` partitions have a state."""
    return lambda tree: len(states(tree)) == count


def epoch(wanted: int) -> Condition:
    """There is a controller, and its epoch is `wanted`."""
    return lambda tree: "/controller" in tree and _data(tree, "/controller_epoch") == b"%d" % wanted


def gone(path: str) -> Condition:
    return lambda tree: path not in tree


def placed(partition: int, *brokers: int) -> Condition:
    """The partition of `orders` is assigned to `brokers`, and not being reassigned."""
    return lambda tree: _placement(tree, str(partition)) == list(brokers)


def led_by(*brokers: int) -> Condition:
    """The leaders of all partitions, in the order of topics and partitions, are `brokers`; -1 means no leader."""
    return lambda tree: leaders(tree) == list(brokers)


def in_sync(broker: int, *of_partitions: int) -> Condition:
    """`broker` is in the ISR of these partitions of `orders`."""
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
    """The (path, state) of every partition, sorted."""
    return [(path, json.loads(tree[path].data or b"")) for path in sorted(tree) if path.endswith("/state")]


def assigned(tree: Tree) -> Json:
    """The replicas of `orders` by partition; None while any partition is being reassigned."""
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
