"""Tests with random znodes written by hand: events may fail, but in the end there is one active controller.

An unexpected exception in an event makes the controller resign, and one in a takeover would do so again and again: one
such znode would leave the cluster without a controller.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from tests.controller.harness import ControllerHarness, HarnessBroker
from tests.controller.values import tp
from tests.shares import share_of
from understudy.controller.events import ElectionType
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import EventEnded
from understudy.foundation.zk.client import Create, Delete, SetData

TOPICS = ("a", "b", "c")
TOPIC_IDS = ("AAECAwQFBgcICQoLDA0ODw", "AAECAwQFBgcICQoLDA0OEA")
GARBAGE = (b"{", b"", b"[]", b'{"partitions":[{"topic":1}]}')
ELECTABLE, NOT_ELECTABLE = (0, 1), (2, 3)

FAILURES = {"moved", "MalformedZNode", "ZooKeeperFailure", "ApiError", "SessionLost"}
"""The allowed outcomes of a failed event; any other is a bug."""


class Operator:
    """An operator who writes random znodes; each write is drawn from the seed."""

    def __init__(self, harness: ControllerHarness, seed: int) -> None:
        self.harness = harness
        self.random = random.Random(seed)
        self.stopped: set[int] = set()

    def act_once(self) -> None:
        actions: tuple[Callable[[], object], ...] = (
            self.create_topic,
            self.create_topic,
            self.rewrite_topic,
            self.delete_topic,
            self.rewrite_state,
            self.delete_state,
            self.request_reassignments,
            self.request_elections,
            self.send_request,
            self.announce,
            self.register_without_an_id,
            self.depose,
            self.crash_or_start,
        )
        self.random.choice(actions)()

    def create_topic(self) -> None:
        self.write(Create(self.topic_path(), self.topic()))

    def rewrite_topic(self) -> None:
        self.write(SetData(self.topic_path(), self.topic()))

    def delete_topic(self) -> None:
        path = self.topic_path()
        if self.random.random() < 0.5:
            self.write(Create(f"/admin/delete_topics/{path.rpartition('/')[2]}"))
        else:
            for znode in sorted(self.harness.znodes(), reverse=True):
                if f"{znode}/".startswith(f"{path}/"):
                    self.write(Delete(znode))

    def rewrite_state(self) -> None:
        state = {
            "controller_epoch": self.random.choice((0, 1, 2, 50)),
            "leader": self.random.choice((-1, 0, 1, 2, 3, 9)),
            "version": 1,
            "leader_epoch": self.random.randrange(9),
            "isr": self.brokers(),
        }
        self.write(SetData(f"{self.topic_path()}/partitions/0/state", self.json(state)))

    def delete_state(self) -> None:
        self.write(Delete(f"{self.topic_path()}/partitions/{self.random.randrange(2)}/state"))

    def request_reassignments(self) -> None:
        moves = [{"topic": t, "partition": self.random.randrange(3), "replicas": self.brokers()} for t in TOPICS]
        self.write(Create("/admin/reassign_partitions", self.json({"version": 1, "partitions": moves})))

    def request_elections(self) -> None:
        partitions = [{"topic": topic, "partition": 0} for topic in TOPICS]
        self.write(Create("/admin/preferred_replica_election", self.json({"version": 1, "partitions": partitions})))

    def send_request(self) -> None:
        moves = {
            tp(f"{self.random.choice(TOPICS)}-0"): self.random.choice((None, tuple(map(BrokerId, self.brokers()))))
        }
        for broker in self.active_controllers():
            if self.random.random() < 0.5:
                broker.spawn(broker.controller.alter_partition_reassignments(moves))
            else:
                broker.spawn(broker.controller.elect_leaders(None, self.random.choice(tuple(ElectionType))))

    def announce(self) -> None:
        number, partitions = self.random.randrange(99), [{"topic": self.random.choice(TOPICS), "partition": 0}]
        changes = self.json({"version": 1, "partitions": partitions})
        self.write(Create(f"/isr_change_notification/isr_change_{number:010}", changes))
        self.write(
            Create(f"/log_dir_event_notification/log_dir_event_{number:010}", self.json({"broker": 2, "event": 1}))
        )

    def register_without_an_id(self) -> None:
        self.write(Create("/brokers/ids/unknown"))
        self.write(Create("/brokers/ids/5", b'{"version":1,"host":"nowhere","port":1,"jmx_port":1}'))

    def depose(self) -> None:
        self.write(Delete("/controller"))

    def crash_or_start(self) -> None:
        broker = self.random.choice(NOT_ELECTABLE)
        if broker in self.stopped:
            self.harness.broker(broker).start()
        else:
            self.harness.broker(broker).crash()
        self.stopped ^= {broker}

    # -- what it writes

    def write(self, op: Create | SetData | Delete) -> None:
        """Apply a write; an error of ZooKeeper is ignored."""
        self.harness.zookeeper.operate([op])

    def topic_path(self) -> str:
        return f"/brokers/topics/{self.random.choice(TOPICS)}"

    def topic(self) -> bytes:
        node: dict[str, object] = {
            "version": 3,
            "partitions": {str(p): self.brokers() for p in range(self.random.randrange(4))},
        }
        if self.random.random() < 0.5:
            node["topic_id"] = self.random.choice(TOPIC_IDS)
        for moving in ("adding_replicas", "removing_replicas"):
            if self.random.random() < 0.3:
                node[moving] = {"0": self.brokers()}
        return self.json(node)

    def brokers(self) -> list[int]:
        """Random broker ids: some do not exist, some are repeated, and there may be none."""
        return [self.random.choice((0, 1, 2, 3, 3, 2, 7, -1)) for _ in range(self.random.choice((0, 1, 2, 2, 3, 3, 3)))]

    def json(self, value: object) -> bytes:
        return self.random.choice(GARBAGE) if self.random.random() < 0.1 else json.dumps(value).encode()

    def active_controllers(self) -> list[HarnessBroker]:
        return [broker for broker in map(self.harness.broker, ELECTABLE) if broker.controller.is_active]


def check_random_writes(seed: int) -> None:
    with ControllerHarness(ELECTABLE, NOT_ELECTABLE, seed=seed) as harness:
        harness.start()
        operator = Operator(harness, seed)
        for _ in range(60):
            operator.act_once()
            harness.settle(operator.random.choice((0, 20, 200, 1_500)))
        harness.settle(8_000)
        ended = [record for broker in ELECTABLE for record in harness.broker(broker).records(EventEnded)]
        assert {record.outcome for record in ended} - {"done", "inactive"} <= FAILURES, f"seed {seed}"
        assert len(operator.active_controllers()) == 1, f"seed {seed}"


@pytest.mark.spec("EQ-4", "EL-8")
@pytest.mark.parametrize("seed", range(10))
def test_znodes_written_by_hand_do_not_break_the_controller(seed: int) -> None:
    check_random_writes(seed)


@pytest.mark.parametrize("first", range(100, 100 + share_of("hand-made-znodes"), 50))
def test_many_znodes_written_by_hand_do_not_break_the_controller(first: int) -> None:
    for seed in range(first, first + 50):
        check_random_writes(seed)
