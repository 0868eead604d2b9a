"""A term of office without its event loop: the procedures of a controller, run by hand on broker 0's machine."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from controller.channels.channel_manager import ControllerChannelManager
from controller.context import ControllerContext
from controller.controller_metrics import ControllerStats
from controller.events import ControllerEvent
from controller.failover import initialize_controller_context
from controller.settings import ControllerSettings
from controller.term import Term
from controller.transitions import PartitionState, ReplicaState
from foundation.cluster.identifiers import BrokerId, random_topic_id
from foundation.cluster.leadership import LeaderIsrAndControllerEpoch
from tests.controller.stage import Member, Stage
from tests.controller.values import tp

T = TypeVar("T")


class Office(Stage):
    """Brokers 0, 1, 2 listen; broker 0 has won the election and its term is in `term`.

    Args:
        topics: made before the term begins; without states, as a client leaves them.
        brokers: others than these three; the first is 0.
    """

    def __init__(
        self,
        topics: Mapping[str, Mapping[int, Sequence[int]]] | None = None,
        *,
        settings: ControllerSettings | None = None,
        brokers: Sequence[int] = (0, 1, 2),
    ) -> None:
        super().__init__(standing=(), brokers=brokers, settings=settings)
        self.topics = topics or {}
        self.put: list[ControllerEvent] = []

    def __enter__(self) -> Office:
        super().__enter__()
        self.start()
        for topic, assignment in self.topics.items():
            self.create_topic(topic, assignment)
        member = self.member(0)
        world = member.world
        elected = member.run(member.zk.controller.register_and_increment_epoch(BrokerId(0), timestamp_ms=1))
        channels = self.on_the_machine(
            lambda: ControllerChannelManager(
                controller_id=BrokerId(0),
                controller_epoch=elected.epoch,
                settings=self.settings,
                network=world.network,
                clock=world.clock,
                events=world.events,
                put=self.put.append,
            )
        )
        self.term = Term(
            broker_id=BrokerId(0),
            zk=member.zk,
            features=member.features,
            context=ControllerContext(epoch=elected.epoch, epoch_zk_version=elected.epoch_zk_version),
            channels=channels,
            settings=self.settings,
            clock=world.clock,
            events=world.events,
            fences=world.fences,
            points=world.points,
            put=self.put.append,
            stats=ControllerStats(world.clock),
            new_topic_id=lambda: random_topic_id(world.random),
        )
        self.run(initialize_controller_context(self.term))
        self.settle()
        self.forget()
        return self

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.member(0).run(coroutine)

    def on_the_machine(self, what: Any) -> Any:
        async def act() -> Any:
            return what()

        return self.member(0).run(act())

    @property
    def controller(self) -> Member:
        return self.member(0)

    # -- what memory says

    def partition_states(self, *names: str) -> list[PartitionState | None]:
        return [self.term.context.partition_states.get(tp(name)) for name in names]

    def replica_state(self, name: str, broker: int) -> ReplicaState | None:
        return self.term.context.replica_states.get(BrokerId(broker), {}).get(tp(name))

    def known(self, name: str) -> LeaderIsrAndControllerEpoch | None:
        return self.term.context.leadership.get(tp(name))
