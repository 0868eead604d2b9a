"""The scenarios of the recordings, told once; a stage performs them on real processes or in the simulator."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import TopicPartition
from foundation.eventlog.records import Envelope
from tests.golden.recorder import Recorder
from tests.golden.recording import Json
from understudy.admin_client import BROKER, PREFERRED, TOPIC, UNCLEAN, AdminClient
from understudy.checkers.history import Znode, ZnodeTransaction, tree_after

BROKERS = (0, 1, 2)
FOUR_BROKERS = (0, 1, 2, 3)
SIX_PARTITIONS = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0))

Tree = Mapping[str, Znode]


class Refused(NamedTuple):
    """A tool's request was refused."""

    reason: str


class Election(NamedTuple):
    """What `kafka-leader-election` asks for."""

    election_type: int
    partitions: tuple[TopicPartition, ...] | None
    """None: all."""

    async def hold(self, admin: AdminClient) -> None:
        """Raises ApiError where the tool would fail."""
        for partition, error in (await admin.elect_leaders(self.partitions, election_type=self.election_type)).items():
            if error not in (Errors.NONE, Errors.ELECTION_NOT_NEEDED):
                raise ApiError(error, str(partition))


class ConfigChange(NamedTuple):
    """What `kafka-configs` asks for: None deletes a key; without changes it only describes."""

    resource_type: int
    name: str
    changes: Mapping[str, str | None]
    asked: int
    """The broker Kafka's tool happened to ask; any could have served it."""

    async def make(self, admin: AdminClient) -> None:
        """Raises ApiError where the tool would fail. The tool describes a config before it alters it."""
        await admin.describe_config(self.resource_type, self.name)
        if self.changes:
            await admin.alter_config(self.resource_type, self.name, self.changes)


class Reassignment(NamedTuple):
    """What `kafka-reassign-partitions` asks for."""

    moves: Mapping[TopicPartition, Sequence[int]]

    async def begin(self, admin: AdminClient) -> None:
        """Raises ApiError where the tool would fail."""
        for error in (await admin.alter_partition_reassignments(self.moves)).values():
            if error is not None:
                raise error


class Stage(Protocol):
    """The brokers of a scenario (`brokers_of`), of which none runs at first, and an empty ZooKeeper."""

    def start(self, broker: int) -> None: ...

    def kill(self, broker: int) -> None: ...

    def stop(self, broker: int) -> None:
        """SIGTERM; returns once the process has ended."""

    def create_topic(
        self, name: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str]
    ) -> Refused | None: ...

    def create_partitions(self, topic: str, count: int, assignment: Sequence[Sequence[int]]) -> Refused | None: ...

    def delete_topic(self, name: str) -> Refused | None: ...

    def elect_leaders(self, election: Election) -> Refused | None: ...

    def change_config(self, change: ConfigChange) -> Refused | None: ...

    def reassign_partitions(self, reassignment: Reassignment) -> Refused | None: ...

    def create_znode(self, path: str, data: bytes) -> None:
        """As an operator would: in a session that belongs to no broker."""

    def wait_until(self, condition: Callable[[Tree], bool], what: str) -> None:
        """Until `condition` holds of the znodes, and then until nothing happens any more."""

    def transactions(self) -> Sequence[ZnodeTransaction]: ...

    def records(self) -> Mapping[str, Sequence[Envelope]]:
        """All records so far, by node, in order."""


class Performance:
    """One scenario on one stage, recorded step by step."""

    def __init__(self, scenario: str, stage: Stage) -> None:
        self.stage = stage
        self._brokers = brokers_of(scenario)
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
        outcome = self.stage.create_topic("orders", dict(enumerate(SIX_PARTITIONS[:partitions])), {})
        self.stage.wait_until(lambda tree: len(states(tree)) == partitions, f"{partitions} partitions have a state")
        self.end_step(name, outcome, by_tool=True)

    def wait_for_loss_of(self, broker: int) -> None:
        self.stage.wait_until(
            lambda tree: f"/brokers/ids/{broker}" not in tree and "/controller" in tree and all_led_without(tree, broker),
            f"broker {broker} is gone and leads nothing",
        )


def startup(play: Performance) -> None:
    for broker in BROKERS:
        play.start(broker)
        play.end_step(f"start broker {broker}")


def create_topic(play: Performance) -> None:
    play.begin()
    outcome = play.stage.create_topic("orders", dict(enumerate(SIX_PARTITIONS[:4])), {"min.insync.replicas": "2"})
    play.stage.wait_until(lambda tree: len(states(tree)) == 4, "four partitions have a state")
    play.end_step("create orders 4x3 by tool with a config", outcome, by_tool=True)

    direct = {"version": 1, "partitions": {"0": [0, 1], "7": [2, 0], "3": [1, 2]}}
    play.stage.create_znode("/brokers/topics/direct", json.dumps(direct, separators=(",", ":")).encode())
    play.stage.wait_until(lambda tree: len(states(tree)) == 7, "seven partitions have a state")
    play.end_step("create direct by writing the znode, partitions 0 3 7, version 1 without topic id")

    outcome = play.stage.create_partitions("orders", 6, SIX_PARTITIONS[4:])
    play.stage.wait_until(lambda tree: len(states(tree)) == 9, "nine partitions have a state")
    play.end_step("add partitions: orders to 6", outcome, by_tool=True)

    outcome = play.stage.create_topic("orders", dict(enumerate(SIX_PARTITIONS[:4])), {})
    play.stage.wait_until(lambda tree: True, "the refusal has come")
    play.end_step("create again: exists", outcome, by_tool=True)


def broker_killed(play: Performance) -> None:
    play.begin()
    play.create_orders()
    play.stage.kill(1)
    play.wait_for_loss_of(1)
    play.end_step("kill -9 broker 1")
    play.start(1)
    play.end_step("broker 1 returns")


def controller_killed(play: Performance) -> None:
    play.begin()
    play.create_orders()
    play.stage.kill(0)
    play.wait_for_loss_of(0)
    play.end_step("kill -9 broker 0, the controller")
    play.start(0)
    play.end_step("broker 0 returns")
    outcome = play.stage.elect_leaders(Election(PREFERRED, None))
    play.stage.wait_until(lambda tree: leaders(tree) == [0, 1, 2, 0, 1, 2], "preferred leaders lead")
    play.end_step("preferred election of all", outcome, by_tool=True)


def controlled_shutdown(play: Performance) -> None:
    play.begin()
    play.create_orders()
    play.stage.stop(1)
    play.wait_for_loss_of(1)
    play.end_step("SIGTERM broker 1")
    play.start(1)
    play.end_step("broker 1 returns")
    play.stage.stop(0)
    play.wait_for_loss_of(0)
    play.end_step("SIGTERM broker 0, the controller")


def deletion(play: Performance) -> None:
    play.begin()
    play.create_orders(partitions=2)
    outcome = play.stage.delete_topic("orders")
    play.stage.wait_until(lambda tree: "/admin/delete_topics/orders" not in tree, "the marker is gone")
    play.end_step("delete orders", outcome, by_tool=True)
    play.create_orders("create again", partitions=2)
    play.stage.kill(1)
    play.wait_for_loss_of(1)
    play.end_step("kill -9 broker 1")
    outcome = play.stage.delete_topic("orders")
    play.stage.wait_until(lambda tree: leaders(tree) == [-1, -1], "nobody leads")
    play.end_step("delete orders with a dead replica: stalls", outcome, by_tool=True)
    play.stage.start(1)
    play.stage.wait_until(lambda tree: "/admin/delete_topics/orders" not in tree, "the marker is gone")
    play.end_step("broker 1 returns: completes")
    play.stage.create_znode("/admin/delete_topics/nosuch", b"")
    play.stage.wait_until(lambda tree: "/admin/delete_topics/nosuch" not in tree, "the marker is gone")
    play.end_step("ask by znode for a topic that does not exist")


def offline_and_unclean(play: Performance) -> None:
    play.begin()
    outcome = play.stage.create_topic("orders", {0: (1, 2), 1: (2, 1)}, {})
    play.stage.wait_until(lambda tree: len(states(tree)) == 2, "two partitions have a state")
    play.end_step("create orders on 1,2", outcome, by_tool=True)
    play.stage.kill(1)
    play.wait_for_loss_of(1)
    play.end_step("kill -9 broker 1")
    play.stage.kill(2)
    play.stage.wait_until(lambda tree: leaders(tree) == [-1, -1], "nobody leads")
    play.end_step("kill -9 broker 2: no leader left")
    play.stage.start(1)
    play.stage.wait_until(lambda tree: "/brokers/ids/1" in tree, "broker 1 is registered")
    play.end_step("broker 1 returns: not in ISR, stays offline")
    outcome = play.stage.elect_leaders(Election(UNCLEAN, (TopicPartition("orders", 0),)))
    play.stage.wait_until(lambda tree: leaders(tree) == [1, -1], "one partition has a leader")
    play.end_step("unclean election by tool", outcome, by_tool=True)
    outcome = play.stage.change_config(ConfigChange(TOPIC, "orders", {"unclean.leader.election.enable": "true"}, asked=0))
    play.stage.wait_until(lambda tree: leaders(tree) == [1, 1], "the other partition has a leader too")
    play.end_step("topic config unclean.leader.election.enable=true", outcome, by_tool=True)
    play.start(2)
    play.end_step("broker 2 returns")


def configs(play: Performance) -> None:
    play.begin()
    outcome = play.stage.create_topic("orders", {0: (0, 1, 2)}, {})
    play.stage.wait_until(lambda tree: len(states(tree)) == 1, "a partition has a state")
    play.end_step("create orders", outcome, by_tool=True)
    for step, change in (
        ("topic config add", ConfigChange(TOPIC, "orders", {"retention.ms": "60000", "segment.bytes": "1048576"}, asked=0)),
        ("topic config delete", ConfigChange(TOPIC, "orders", {"retention.ms": None}, asked=2)),
        ("broker config add", ConfigChange(BROKER, "1", {"log.cleaner.threads": "2"}, asked=1)),
        ("cluster default add", ConfigChange(BROKER, "", {"unclean.leader.election.enable": "true"}, asked=1)),
        ("unknown config", ConfigChange(TOPIC, "orders", {"no.such": "1"}, asked=0)),
        ("describe", ConfigChange(TOPIC, "orders", {}, asked=0)),
    ):
        outcome = play.stage.change_config(change)
        play.stage.wait_until(lambda tree: True, "the answer has come")
        play.end_step(step, outcome, by_tool=True)


def reassignment(play: Performance) -> None:
    play.begin()
    play.create_orders(partitions=3)
    moves = {TopicPartition("orders", 0): (3, 1, 2), TopicPartition("orders", 1): (2, 3)}
    outcome = play.stage.reassign_partitions(Reassignment(moves))
    play.stage.wait_until(lambda tree: assigned(tree) == {"0": [3, 1, 2], "1": [2, 3], "2": [2, 0, 1]}, "both have moved")
    play.end_step("execute: 0 to 3,1,2 and 1 to 2,3", outcome, by_tool=True)

    # The tool takes throttles away, set or not, from every broker and topic; in the order in which the recorded one did it.
    for broker in (0, 2, 3, 1):
        outcome = play.stage.change_config(without_throttles(BROKER, str(broker), asked=broker))
    outcome = play.stage.change_config(without_throttles(TOPIC, "orders", asked=1))
    play.stage.wait_until(lambda tree: True, "the answer has come")
    play.end_step("verify", outcome, by_tool=True)

    play.stage.kill(3)
    play.wait_for_loss_of(3)
    play.skip()
    outcome = play.stage.reassign_partitions(Reassignment({TopicPartition("orders", 2): (3, 0, 1)}))
    play.stage.wait_until(lambda tree: True, "the refusal has come")
    play.end_step("execute towards a dead broker: refused or stuck", outcome, by_tool=True)
    play.end_step("list", by_tool=True)

    for broker in (1, 2, 0):
        play.stage.change_config(without_throttles(BROKER, str(broker), asked=broker))
    play.stage.wait_until(lambda tree: True, "the answers have come")
    play.end_step("cancel", Refused("the tool waits in vain for broker 3 to forget its throttle"), by_tool=True)

    asked = {"version": 1, "partitions": [{"topic": "orders", "partition": 2, "replicas": [1, 2, 0]}]}
    play.stage.create_znode("/admin/reassign_partitions", json.dumps(asked, separators=(",", ":")).encode())
    play.stage.wait_until(lambda tree: "/admin/reassign_partitions" not in tree, "nothing is asked for any more")
    play.end_step("by writing /admin/reassign_partitions: reorder 2 to 1,2,0")


def without_throttles(resource_type: int, name: str, *, asked: int) -> ConfigChange:
    of_topics = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
    of_brokers = (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
    return ConfigChange(resource_type, name, dict.fromkeys(of_topics if resource_type == TOPIC else of_brokers), asked)


SCENARIOS: Mapping[str, Callable[[Performance], None]] = {
    "startup": startup,
    "create-topic": create_topic,
    "broker-killed": broker_killed,
    "controller-killed": controller_killed,
    "controlled-shutdown": controlled_shutdown,
    "deletion": deletion,
    "offline-and-unclean": offline_and_unclean,
    "configs": configs,
    "reassignment": reassignment,
}


def brokers_of(scenario: str) -> tuple[int, ...]:
    return FOUR_BROKERS if scenario == "reassignment" else BROKERS


def perform(scenario: str, stage: Stage) -> Performance:
    play = Performance(scenario, stage)
    SCENARIOS[scenario](play)
    return play


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


def tree_of(stage: Stage) -> Tree:
    return tree_after(stage.transactions())
