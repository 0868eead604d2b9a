"""A stage on which partitions move."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from controller.broker_lifecycle import on_broker_startup, on_replicas_become_offline
from controller.events import (
    ApiPartitionReassignment,
    ListPartitionReassignments,
    OngoingReassignments,
    ReassignmentResults,
    Reply,
)
from controller.reassignment import partition_reassignment
from controller.settings import ControllerSettings
from controller.topic_changes import on_new_partition_creation
from controller.transitions import ReplicaState
from foundation.cluster.errors import ApiError
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.cluster.leadership import LeaderAndIsr
from foundation.eventlog.records import InvalidTransition
from foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from foundation.wire.schema import Message
from foundation.zk.client import Failure
from tests.controller.office import Office
from tests.controller.stage import answer_none
from tests.controller.values import ids, tp
from understudy.checkers.history import OpKind

ZNODE = "/admin/reassign_partitions"
ONLINE, OFFLINE, NEW = ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.NEW

Moves = Mapping[str, Sequence[int] | None]


class Orders(Office):
    """Brokers 0 to 4; `orders` has partition 0 on 0, 1, 2 and partition 1 on 1, 2, 0; all replicas are online."""

    def __init__(
        self,
        topics: Mapping[str, Mapping[int, Sequence[int]]] | None = None,
        *,
        settings: ControllerSettings | None = None,
    ) -> None:
        topics = topics or {"orders": {0: [0, 1, 2], 1: [1, 2, 0]}}
        super().__init__(topics, settings=settings, brokers=(0, 1, 2, 3, 4))
        for member in self.members.values():
            member.answer = answer_in_every_version

    def __enter__(self) -> Orders:
        super().__enter__()
        self.run(on_new_partition_creation(self.term, list(self.term.context.assignments)))
        self.start_chapter()
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.controller.records(InvalidTransition) == []
        super().__exit__(*exception)

    # -- what happens

    def start_chapter(self) -> None:
        self.settle()
        self.forget()
        self.put.clear()
        self.first = len(self.zookeeper.transactions)

    def reassign(self, moves: Moves) -> dict[str, str]:
        """What AlterPartitionReassignments answers, by partition."""
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

    def ask_by_znode(self, moves: Moves) -> None:
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
        """The leader has had this ISR written, and it is looked whether a move is over."""
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

    def lose(self, broker: int) -> None:
        """What BrokerChange does to a dead broker."""
        context = self.term.context
        self.away = self.run(self.term.zk.brokers.all())
        context.remove_live_brokers(ids(broker))
        self.run(on_replicas_become_offline(self.term, context.partitions_by_replica(only=ids(broker))))
        self.start_chapter()

    def bring_back(self, broker: int) -> None:
        """What BrokerChange does to a new one."""
        self.term.context.add_live_brokers({BrokerId(broker): self.away[BrokerId(broker)]})
        self.run(on_broker_startup(self.term, ids(broker)))
        self.settle()

    # -- what is to be seen

    def steps(self) -> list[str]:
        """Writes in ZooKeeper and requests of this chapter, by whether they concern the assignment or the state; in
        order."""
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

    def told_of(self, broker: int, name: str) -> list[str]:
        """The kinds of request about a partition a broker has heard."""
        return [line.split(" ")[0] for line in self.member(broker).told() if f"{name} " in line or f"{name}*" in line]

    def assignment(self, name: str) -> object:
        return self.term.context.partition_assignment(tp(name))


def answer_in_every_version(message: Message) -> Message:
    """What it says of each partition is nothing to a reassignment."""
    return LeaderAndIsrResponse() if isinstance(message, LeaderAndIsrRequest) else answer_none(message)
