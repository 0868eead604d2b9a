"""A harness for reassignments: a term with five brokers whose procedures a test calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tests.controller.harness import TermHarness, answer_none
from tests.controller.requests import RequestSent, partitions_of
from tests.controller.values import ids, tp
from understudy.checks.history import OpKind
from understudy.controller.broker_lifecycle import on_broker_startup, on_replicas_become_offline
from understudy.controller.events import (
    ApiPartitionReassignment,
    ListPartitionReassignments,
    OngoingReassignments,
    ReassignmentResults,
    Reply,
)
from understudy.controller.reassignment import partition_reassignment
from understudy.controller.settings import ControllerSettings
from understudy.controller.topic_changes import on_new_partition_creation
from understudy.controller.transitions import ReplicaState
from understudy.foundation.cluster.errors import ApiError
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr
from understudy.foundation.eventlog.records import InvalidTransition
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.client import Failure

ZNODE = "/admin/reassign_partitions"
ONLINE, OFFLINE, NEW = ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.NEW

Moves = Mapping[str, Sequence[int] | None]


class ReassignmentHarness(TermHarness):
    """Brokers 0 to 4; `orders` has partition 0 on 0, 1, 2 and partition 1 on 1, 2, 0; all replicas are online."""

    def __init__(
        self,
        topics: Mapping[str, Mapping[int, Sequence[int]]] | None = None,
        *,
        settings: ControllerSettings | None = None,
    ) -> None:
        topics = topics or {"orders": {0: [0, 1, 2], 1: [1, 2, 0]}}
        super().__init__(topics, settings=settings, brokers=(0, 1, 2, 3, 4))
        for broker in self.brokers.values():
            broker.answer = respond_without_partitions

    def __enter__(self) -> ReassignmentHarness:
        super().__enter__()
        self.run(on_new_partition_creation(self.term, list(self.term.context.assignments)))
        self.start_recording()
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.controller.records(InvalidTransition) == []
        super().__exit__(*exception)

    # -- actions

    def start_recording(self) -> None:
        self.settle()
        self.clear_history()
        self.put.clear()
        self.first = len(self.zookeeper.transactions)

    def reassign(self, moves: Moves) -> dict[str, str]:
        """Request these reassignments; return the error of each partition."""
        asked = {tp(name): None if target is None else ids(*target) for name, target in moves.items()}

        async def ask() -> ReassignmentResults:
            reply: Reply[ReassignmentResults] = Reply()
            await partition_reassignment.process_api_partition_reassignment(
                self.term, ApiPartitionReassignment(asked, reply)
            )
            return await reply.wait()

        results = self.run(ask())
        assert not isinstance(results, ApiError)
        self.settle()
        return {str(partition): "NONE" if error is None else error.error.name for partition, error in results.items()}

    def list_moves(self, *names: str) -> OngoingReassignments:
        async def ask() -> OngoingReassignments:
            reply: Reply[OngoingReassignments] = Reply()
            asked = tuple(map(tp, names)) if names else None
            event = ListPartitionReassignments(asked, reply)
            await partition_reassignment.process_list_partition_reassignments(self.term, event)
            return await reply.wait()

        return self.run(ask())

    def request_by_znode(self, moves: Moves) -> None:
        listed = [
            {"topic": tp(name).topic, "partition": tp(name).partition, "replicas": target}
            for name, target in moves.items()
        ]
        self.write_znode(ZNODE, json.dumps({"version": 1, "partitions": listed}).encode())

    def process_znode(self) -> frozenset[TopicPartition]:
        begun = self.run(partition_reassignment.process_zk_partition_reassignment(self.term))
        self.settle()
        return begun

    def sync(self, name: str, *isr: int) -> None:
        """Write this ISR, as its leader does, and look whether the reassignment is complete."""
        self.write_isr(name, *isr)
        self.run(partition_reassignment.maybe_complete(self.term, [tp(name)]))
        self.settle()

    def write_isr(self, name: str, *isr: int) -> None:
        known = self.known(name)
        assert known is not None
        wanted = replace(known.leader_and_isr, isr=ids(*isr))
        finished: dict[TopicPartition, LeaderAndIsr | Failure] = {}
        version = self.term.context.epoch_zk_version
        self.run(self.term.zk.states.update({tp(name): wanted}, 1, version, finished.update))
        accepted = finished[tp(name)]
        assert isinstance(accepted, LeaderAndIsr)
        self.term.accept({tp(name): accepted}, "alter-partition")

    def fail_broker(self, broker: int) -> None:
        """Remove the broker, as BrokerChange does."""
        context = self.term.context
        self.away = self.run(self.term.zk.brokers.all())
        context.remove_live_brokers(ids(broker))
        self.run(on_replicas_become_offline(self.term, context.partitions_by_replica(only=ids(broker))))
        self.start_recording()

    def restart_broker(self, broker: int) -> None:
        """Add the broker again, as BrokerChange does."""
        self.term.context.add_live_brokers({BrokerId(broker): self.away[BrokerId(broker)]})
        self.run(on_broker_startup(self.term, ids(broker)))
        self.settle()

    # -- observations

    def steps(self) -> list[str]:
        """The writes to ZooKeeper since `start_recording`, in order, each in one line."""
        found = []
        for transaction in self.zookeeper.transactions[self.first :]:
            for op in transaction.writes:
                if op.kind is OpKind.DELETE:
                    found.append(f"delete {op.path}")
                elif op.path.endswith("/state"):
                    data = json.loads(op.data or b"")
                    found.append(f"state {op.path.split('/')[5]} {data['leader']}@{data['leader_epoch']} {data['isr']}")
                elif op.path.startswith("/brokers/topics/"):
                    found.append(f"assignment {self.shown(json.loads(op.data or b''))}")
                else:
                    found.append(f"write {op.path}")
        return found

    @staticmethod
    def shown(topic: Mapping[str, Mapping[str, Sequence[int]]]) -> str:
        adding, removing = topic["adding_replicas"], topic["removing_replicas"]
        return " ".join(
            f"{number}:{list(of)}"
            + (f"+{adding[number]}" if number in adding else "")
            + (f"-{removing[number]}" if number in removing else "")
            for number, of in topic["partitions"].items()
        )

    def requests_about(self, broker: int, name: str) -> list[type[RequestSent]]:
        """The kinds of the requests that a broker received about a partition."""
        return [type(request) for request in self.broker(broker).requests() if name in partitions_of(request)]

    def assignment(self, name: str) -> object:
        return self.term.context.partition_assignment(tp(name))


def respond_without_partitions(message: Message) -> Message:
    """Respond without an error; a response to LeaderAndIsr names no partitions, whatever its version."""
    return LeaderAndIsrResponse() if isinstance(message, LeaderAndIsrRequest) else answer_none(message)
