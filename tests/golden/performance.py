"""A scenario on a stage, recorded step by step, and what it waits for."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.golden.recorder import Recorder
from tests.golden.recording import Json
from tests.golden.stage import Refused, Stage, TopicCreation, Tree

SIX_PARTITIONS = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0))
"""How `orders` is placed, so that nothing depends on chance."""


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
        self._recorder.skip(self.stage.transactions(), self.stage.records())

    def end_step(self, name: str, outcome: Refused | None = None, *, by_tool: bool = False) -> None:
        rc = (0 if outcome is None else 1) if by_tool else None
        self._recorder.step(name, self.stage.transactions(), self.stage.records(), rc)

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
            lambda tree: f"/brokers/ids/{broker}" not in tree and "/controller" in tree and all_led_without(tree, broker),
            f"broker {broker} is gone and leads nothing",
        )


# -- what the znodes say


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
    found: list[int] = json.loads(tree[f"/brokers/topics/{topic}"].data or b"")["partitions"][partition.removesuffix("/state")]
    return found
