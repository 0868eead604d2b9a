"""A stage for the controller: simulated ZooKeeper, simulated network, brokers that listen, write down and answer.

Everything of the controller and below is the product's own; only the brokers' other half is missing. A `Member` is a
broker process that registers in ZooKeeper and answers control requests; one that stands for election carries a
`KafkaController`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from brokers.membership.finalized_features import FinalizedFeatureChangeListener
from brokers.world import World
from controller.feature_cache import FinalizedFeatureCache
from controller.kafka_controller import KafkaController
from controller.settings import ControllerSettings
from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.broker import Broker, EndPoint, SecurityProtocol
from foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition, random_topic_id
from foundation.cluster.leadership import LeaderIsrAndControllerEpoch
from foundation.eventlog.log import causing
from foundation.eventlog.records import PAYLOAD_BY_TYPE, Payload, WatchFiredRecord
from foundation.wire.framing import FrameReader
from foundation.wire.headers import decode_request, encode_response
from foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from foundation.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from foundation.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from foundation.wire.network import Connection, ConnectionLost
from foundation.wire.registry import api_of
from foundation.wire.schema import Message
from foundation.zk.client import Create, Notification, SessionExpired, SetData, WatchFired
from foundation.zk.kafka_zk_client import KafkaZkClient
from understudy.checkers.history import tree_after
from understudy.simulator.loop import Process, new_loop
from understudy.simulator.network import SimulatedNetwork
from understudy.simulator.randomness import derived
from understudy.simulator.world import Node
from understudy.simulator.zookeeper import SimulatedZooKeeper

PORT = 9092
SESSION_TIMEOUT_MS = 6_000
SETTINGS = ControllerSettings(
    request_timeout_ms=5_000, controller_socket_timeout_ms=3_000, auto_leader_rebalance_enable=False
)
"""As the recordings of Kafka were made: no leadership moves because time has passed."""

T = TypeVar("T")
P = TypeVar("P", bound=Payload)


class Heard(NamedTuple):
    """A control request as a broker received it."""

    at_ms: float
    version: int
    client_id: str | None
    correlation_id: int
    message: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


class Stage:
    """
    Args:
        standing: brokers that may become controller; the first to start wins.
        brokers: further brokers.
    """

    def __init__(
        self,
        standing: Sequence[int] = (0,),
        brokers: Sequence[int] = (1, 2),
        *,
        seed: int = 1,
        settings: ControllerSettings | None = None,
    ) -> None:
        self.loop = new_loop()
        self.zookeeper = SimulatedZooKeeper(self.loop, random=derived(seed, "zookeeper"))
        self.network = SimulatedNetwork(self.loop, seed=seed)
        self.seed = seed
        self.settings = settings or SETTINGS
        self.chronicle: list[bytes] = []
        self.members = {n: Member(self, BrokerId(n), stands=n in standing) for n in (*standing, *brokers)}
        self.operator = Member(self, BrokerId(99), stands=False)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.close()
        assert self.loop.failures == []
        assert [member.broken for member in self.members.values() if member.broken] == []

    def start(self) -> None:
        """Start everybody, one after the other, until all is quiet."""
        self.operator.boot()
        self.operator.run(self.operator.open_session())
        for member in self.members.values():
            member.start()
        self.settle()

    def settle(self, ms: float = 500) -> None:
        self.loop.run_for(ms / 1000)

    def member(self, broker_id: int) -> Member:
        return self.members[broker_id]

    # -- what an operator does

    def create_topic(
        self, topic: str, assignment: Mapping[int, Sequence[int]], *, topic_id: TopicId | None = None
    ) -> TopicId:
        """Write the znode, as the handler of CreateTopics does."""
        replicas = {p: ReplicaAssignment(tuple(BrokerId(n) for n in ids)) for p, ids in assignment.items()}
        given = topic_id or random_topic_id(derived(self.seed, topic))
        self.operator.run(self.operator.zk.topics.create(topic, given, replicas))
        self.settle()
        return given

    def add_partitions(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """Rewrite the znode, as the handler of CreatePartitions does."""
        zk = self.operator.zk
        topic_id = self.operator.run(zk.topics.assignments([topic]))[topic].topic_id
        full = {
            TopicPartition(topic, p): ReplicaAssignment(tuple(BrokerId(n) for n in ids))
            for p, ids in assignment.items()
        }
        self.operator.run(zk.topics.add_partitions(topic, topic_id, full))
        self.settle()

    def rewrite_state(self, topic: str, partition: int) -> None:
        """Write a state's bytes again: nothing changes but its version."""
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        self.operator.run(self.operator.client.write(SetData(path, self.znodes()[path] or b"")))
        self.settle()

    def depose(self) -> None:
        """Raise the controller epoch behind everybody's back, as a successor's election does."""
        self.operator.run(self.operator.client.write(SetData("/controller_epoch", b"77")))

    def write_znode(self, path: str, data: bytes) -> None:
        self.operator.run(self.operator.client.write(Create(path, data)))
        self.settle()

    def state(self, topic: str, partition: int) -> LeaderIsrAndControllerEpoch | object:
        tp = TopicPartition(topic, partition)
        return self.operator.run(self.operator.zk.states.read([tp]))[tp]

    def znodes(self) -> dict[str, bytes | None]:
        return {path: node.data for path, node in tree_after(self.zookeeper.transactions).items()}

    def forget(self) -> None:
        """Begin a new chapter: what brokers heard so far is past."""
        for member in self.members.values():
            member.heard.clear()
            if member.node.incarnation:
                member.node.lines[member.node.incarnation].clear()


class PassedPoints:
    """Remembers which points were passed."""

    def __init__(self) -> None:
        self.passed: list[str] = []

    async def reach(self, name: str) -> None:
        self.passed.append(name)


class Member:
    def __init__(self, stage: Stage, broker_id: BrokerId, *, stands: bool) -> None:
        self.stage = stage
        self.id = broker_id
        self.stands = stands
        self.node = Node(
            f"broker-{broker_id}", run="stage", seed=stage.seed, loop=stage.loop, chronicle=stage.chronicle
        )
        self.heard: list[Heard] = []
        self.deaf = False
        """Connections are refused."""
        self.answer: Callable[[Message], Message | None] = answer_none
        """None: the request is swallowed and its connection closed."""
        self.points = PassedPoints()
        self.features = FinalizedFeatureCache()
        self.feature_listener: FinalizedFeatureChangeListener | None = None
        self.broken: list[BaseException] = []
        self._controller: KafkaController | None = None
        self._world: World | None = None

    # -- life

    def start(self) -> None:
        self.boot()
        self.process.spawn(self.live())
        self.stage.settle(200)

    def boot(self) -> None:
        self._world = self.node.start(
            self.stage.zookeeper, self.stage.network, session_timeout_ms=SESSION_TIMEOUT_MS, connection_timeout_ms=6_000
        )

    async def live(self) -> None:
        await self.open_session()
        self.server = await self.world.network.bind(self.node.name, PORT, self.serve)
        if not self.deaf:
            self.server.start()
        await self.register(self.zk)
        if self.stands:
            self.feature_listener = FinalizedFeatureChangeListener(self.features, lambda: self.zk)
            await self.feature_listener.refresh(self.zk)
            self.process.spawn(self.feature_listener.run())
            self._controller = KafkaController(
                self.id,
                self.stage.settings,
                self.register,
                self.world.network,
                self.world.clock,
                self.world.random,
                self.world.events,
                self.world.fences,
                self.points,
                self.broken.append,
                self.features,
            )
            self._controller.startup(self.zk)

    async def open_session(self) -> None:
        self.client = await self.world.zookeeper.connect(self.listen)
        self.zk = KafkaZkClient(self.client, events=self.world.events, fences=self.world.fences)
        if not self.stage.zookeeper.transactions:
            await self.zk.create_top_level_paths()

    async def register(self, zk: KafkaZkClient) -> int:
        endpoint = EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, self.node.name, PORT)
        broker = Broker(id=self.id, endpoints=(endpoint,))
        self.epoch = await zk.brokers.register(broker, timestamp_ms=1, previous_session_id=None)
        return self.epoch

    def listen(self, notification: Notification) -> None:
        match notification:
            case WatchFired() if self._controller is not None:
                seq = self.world.events.append(WatchFiredRecord(path=notification.path, kind=notification.kind.value))
                with causing(seq):
                    if self.feature_listener is not None:
                        self.feature_listener.notified(notification)
                    self._controller.notified(notification)
            case SessionExpired() if self._controller is not None:
                self.process.spawn(self.renew(self._controller))
            case _:
                pass

    async def renew(self, controller: KafkaController) -> None:
        await controller.expire()
        await self.open_session()
        controller.session_opened(self.zk)
        if self.feature_listener is not None:
            self.feature_listener.session_opened()

    def crash(self) -> None:
        """SIGKILL, and the session ends at once rather than after its timeout."""
        session = self.client.session_id
        self.process.kill()
        self._controller = None
        self.stage.zookeeper.expire(session)
        self.stage.settle()

    def expire(self) -> None:
        """The session ends; the process lives on."""
        self.stage.zookeeper.expire(self.client.session_id)
        self.stage.settle(8_000)

    # -- as a broker

    async def serve(self, connection: Connection) -> None:
        frames = FrameReader()
        try:
            while data := await connection.receive():
                for frame in frames.feed(data):
                    header, message = decode_request(frame)
                    assert isinstance(message, LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest)
                    now = self.stage.loop.time() * 1000
                    heard = Heard(now, header.api_version, header.client_id, header.correlation_id, message)
                    self.heard.append(heard)
                    response = self.answer(message)
                    if response is None:
                        connection.close()
                        return
                    api = api_of(message)
                    await connection.send(encode_response(api, header.api_version, header.correlation_id, response))
        except ConnectionLost:
            pass

    def told(self) -> list[str]:
        """What it heard, one line per request."""
        return [line_of(heard.message) for heard in self.heard]

    # -- as a controller

    @property
    def controller(self) -> KafkaController:
        assert self._controller is not None, f"broker {self.id} does not stand"
        return self._controller

    @property
    def process(self) -> Process:
        assert self.node.process is not None
        return self.node.process

    @property
    def world(self) -> World:
        assert self._world is not None
        return self._world

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run something on this process to its end."""
        result: T = self.stage.loop.run_until_complete(self.process.spawn(coroutine))
        return result

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self.process.spawn(coroutine)

    def records(self, kind: type[P]) -> list[P]:
        """Its records of one type, in order."""
        return [payload for payload in self.all_records() if isinstance(payload, kind)]

    def all_records(self) -> list[Payload]:
        found = []
        for line in self.node.lines[self.node.incarnation]:
            envelope = msgspec.json.decode(line)
            found.append(msgspec.convert(envelope["data"], PAYLOAD_BY_TYPE[envelope["type"]]))
        return found

    def envelopes(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.node.lines[self.node.incarnation]]


def answer_none(message: Message) -> Message:
    """NONE to everything."""
    match message:
        case LeaderAndIsrRequest():
            return answer_leader_and_isr(message, 0)
        case UpdateMetadataRequest():
            return UpdateMetadataResponse()
        case StopReplicaRequest():
            return answer_stop_replica(message, 0)
        case _:
            raise AssertionError(message)


def answer_stop_replica(message: StopReplicaRequest, error_code: int) -> StopReplicaResponse:
    return StopReplicaResponse(
        partition_errors=tuple(
            StopReplicaPartitionError(
                topic_name=topic.topic_name, partition_index=state.partition_index, error_code=error_code
            )
            for topic in message.topic_states
            for state in topic.partition_states
        )
    )


def answer_leader_and_isr(message: LeaderAndIsrRequest, error_code: int) -> LeaderAndIsrResponse:
    return LeaderAndIsrResponse(
        topics=tuple(
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=tuple(
                    LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=error_code)
                    for state in topic.partition_states
                ),
            )
            for topic in message.topic_states
        )
    )


def line_of(message: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest) -> str:
    """A request in one line: kind, controller epoch, partitions with leader, epochs and ISR, and who is named."""
    match message:
        case LeaderAndIsrRequest():
            partitions = [
                f"{topic.topic_name}-{s.partition_index}{'*' if s.is_new else ''} "
                f"{s.leader}@{s.leader_epoch}.{s.partition_epoch}/{s.controller_epoch} {list(s.isr)}"
                for topic in message.topic_states
                for s in topic.partition_states
            ]
            leaders = [leader.broker_id for leader in message.live_leaders]
            return f"LISR E{message.controller_epoch} {'; '.join(sorted(partitions))} leaders {leaders}"
        case UpdateMetadataRequest():
            partitions = [
                f"{topic.topic_name}-{s.partition_index} {s.leader}@{s.leader_epoch}.{s.zk_version}/{s.controller_epoch} "
                f"{list(s.isr)} offline {list(s.offline_replicas)}"
                for topic in message.topic_states
                for s in topic.partition_states
            ]
            live = [broker.id for broker in message.live_brokers]
            return f"UMR E{message.controller_epoch} {'; '.join(sorted(partitions))} live {live}"
        case StopReplicaRequest():
            partitions = [
                f"{topic.topic_name}-{s.partition_index} @{s.leader_epoch}{' delete' if s.delete_partition else ''}"
                for topic in message.topic_states
                for s in topic.partition_states
            ]
            return f"SR E{message.controller_epoch} {'; '.join(sorted(partitions))}"
