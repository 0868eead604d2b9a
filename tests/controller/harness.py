"""Harnesses for the controller: simulated ZooKeeper, simulated network, and brokers that record and answer requests.

The controller and everything below it is the product's; only the rest of the broker is replaced. In `ControllerHarness`
brokers run a `KafkaController`, with its event queue; in `TermHarness` a test calls the procedures of one term
directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog

from tests.controller.requests import RequestSent, sent
from tests.controller.values import tp
from understudy.brokers.membership.finalized_features import FinalizedFeatureChangeListener
from understudy.brokers.world import World
from understudy.checks.history import tree_after
from understudy.clusters.simulated.loop import Process, new_loop
from understudy.clusters.simulated.network import SimulatedNetwork
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.simulated.world import Node
from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper
from understudy.controller.channels.channel_manager import ControllerChannelManager
from understudy.controller.context import ControllerContext
from understudy.controller.controller_metrics import ControllerStats
from understudy.controller.events import ControllerEvent
from understudy.controller.failover import initialize_controller_context
from understudy.controller.feature_cache import FinalizedFeatureCache
from understudy.controller.kafka_controller import KafkaController
from understudy.controller.settings import ControllerSettings
from understudy.controller.term import Term
from understudy.controller.transitions import PartitionState, ReplicaState
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.broker import Broker, EndPoint, SecurityProtocol
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition, random_topic_id
from understudy.foundation.cluster.leadership import LeaderIsrAndControllerEpoch
from understudy.foundation.eventlog.log import causing
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, Payload, WatchFiredRecord
from understudy.foundation.wire.framing import FrameReader
from understudy.foundation.wire.headers import decode_request, encode_response
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from understudy.foundation.wire.network import Connection, ConnectionLost
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.client import Create, Notification, SessionExpired, SetData, WatchFired
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient

PORT = 9092
SESSION_TIMEOUT_MS = 6_000
SETTINGS = ControllerSettings(
    request_timeout_ms=5_000, controller_socket_timeout_ms=3_000, auto_leader_rebalance_enable=False
)
"""The settings with which Kafka was recorded: no automatic leader rebalance."""

T = TypeVar("T")
P = TypeVar("P", bound=Payload)


class ReceivedRequest(NamedTuple):
    """A control request as a broker received it."""

    at_ms: float
    version: int
    client_id: str | None
    correlation_id: int
    message: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


class ControllerHarness:
    """A cluster whose brokers answer control requests, and of which some run a `KafkaController`.

    Args:
        electable: brokers that may become controller; the first to start is elected.
        brokers: further brokers.
    """

    def __init__(
        self,
        electable: Sequence[int] = (0,),
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
        self.brokers = {n: HarnessBroker(self, BrokerId(n), electable=n in electable) for n in (*electable, *brokers)}
        self.operator = HarnessBroker(self, BrokerId(99), electable=False)

    def __enter__(self) -> ControllerHarness:
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.close()
        assert self.loop.failures == []
        assert [broker.broken for broker in self.brokers.values() if broker.broken] == []

    def start(self) -> None:
        """Start all brokers, one after the other, and wait until nothing happens any more."""
        self.operator.boot()
        self.operator.run(self.operator.open_session())
        for broker in self.brokers.values():
            broker.start()
        self.settle()

    def settle(self, ms: float = 500) -> None:
        self.loop.run_for(ms / 1000)

    def broker(self, broker_id: int) -> HarnessBroker:
        return self.brokers[broker_id]

    # -- an operator

    def create_topic(
        self, topic: str, assignment: Mapping[int, Sequence[int]], *, topic_id: TopicId | None = None
    ) -> TopicId:
        """Write the topic's znode, as the handler of CreateTopics does."""
        replicas = {p: ReplicaAssignment(tuple(BrokerId(n) for n in ids)) for p, ids in assignment.items()}
        given = topic_id or random_topic_id(derived(self.seed, topic))
        self.operator.run(self.operator.zk.topics.create(topic, given, replicas))
        self.settle()
        return given

    def add_partitions(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """Rewrite the topic's znode, as the handler of CreatePartitions does."""
        zk = self.operator.zk
        topic_id = self.operator.run(zk.topics.assignments([topic]))[topic].topic_id
        full = {
            TopicPartition(topic, p): ReplicaAssignment(tuple(BrokerId(n) for n in ids))
            for p, ids in assignment.items()
        }
        self.operator.run(zk.topics.add_partitions(topic, topic_id, full))
        self.settle()

    def rewrite_state(self, topic: str, partition: int) -> None:
        """Write a state's bytes again, so that only its version changes."""
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        self.operator.run(self.operator.client.write(SetData(path, self.znodes()[path] or b"")))
        self.settle()

    def depose(self) -> None:
        """Raise the controller epoch without a notification, as the election of a successor does."""
        self.operator.run(self.operator.client.write(SetData("/controller_epoch", b"77")))

    def write_znode(self, path: str, data: bytes) -> None:
        self.operator.run(self.operator.client.write(Create(path, data)))
        self.settle()

    def state(self, topic: str, partition: int) -> LeaderIsrAndControllerEpoch | object:
        tp = TopicPartition(topic, partition)
        return self.operator.run(self.operator.zk.states.read([tp]))[tp]

    def znodes(self) -> dict[str, bytes | None]:
        return {path: node.data for path, node in tree_after(self.zookeeper.transactions).items()}

    def clear_history(self) -> None:
        """Drop the requests and records so far."""
        for broker in self.brokers.values():
            broker.received.clear()
            if broker.node.incarnation:
                broker.node.log.lines[broker.node.incarnation].clear()


class TermHarness(ControllerHarness):
    """Brokers 0, 1 and 2; broker 0 is controller without an event loop, and its term is in `term`.

    Args:
        topics: created before the term begins, without states, as a client leaves them.
        brokers: in place of these three; the first is 0.
    """

    def __init__(
        self,
        topics: Mapping[str, Mapping[int, Sequence[int]]] | None = None,
        *,
        settings: ControllerSettings | None = None,
        brokers: Sequence[int] = (0, 1, 2),
    ) -> None:
        super().__init__(electable=(), brokers=brokers, settings=settings)
        self.topics = topics or {}
        self.put: list[ControllerEvent] = []

    def __enter__(self) -> TermHarness:
        super().__enter__()
        self.start()
        for topic, assignment in self.topics.items():
            self.create_topic(topic, assignment)
        broker = self.broker(0)
        world = broker.world
        elected = broker.run(broker.zk.controller.register_and_increment_epoch(BrokerId(0), timestamp_ms=1))
        channels = self.on_broker_0(
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
            zk=broker.zk,
            features=broker.features,
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
        # As `KafkaController` does when it takes over.
        broker.process.context.run(structlog.contextvars.bind_contextvars, controller_epoch=elected.epoch)
        self.run(initialize_controller_context(self.term))
        self.settle()
        self.clear_history()
        return self

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.broker(0).run(coroutine)

    def on_broker_0(self, what: Any) -> Any:
        """Call `what` in the process of broker 0, and return its result."""

        async def in_process() -> Any:
            return what()

        return self.broker(0).run(in_process())

    @property
    def controller(self) -> HarnessBroker:
        return self.broker(0)

    # -- the context

    def partition_states(self, *names: str) -> list[PartitionState | None]:
        return [self.term.context.partition_states.get(tp(name)) for name in names]

    def replica_state(self, name: str, broker: int) -> ReplicaState | None:
        return self.term.context.replica_states.get(BrokerId(broker), {}).get(tp(name))

    def known(self, name: str) -> LeaderIsrAndControllerEpoch | None:
        return self.term.context.leadership.get(tp(name))


class RecordedPoints:
    """Records which points were passed."""

    def __init__(self) -> None:
        self.passed: list[str] = []

    async def reach(self, name: str) -> None:
        self.passed.append(name)


class HarnessBroker:
    """A broker process that registers in ZooKeeper and answers control requests; an electable one runs a
    `KafkaController`."""

    def __init__(self, harness: ControllerHarness, broker_id: BrokerId, *, electable: bool) -> None:
        self.harness = harness
        self.id = broker_id
        self.is_electable = electable
        self.node = Node(
            f"broker-{broker_id}",
            run="harness",
            seed=harness.seed,
            loop=harness.loop,
            log_lines=harness.chronicle,
            broker_id=broker_id,
        )
        self.received: list[ReceivedRequest] = []
        self.refuses_connections = False
        """The port of the broker is not open."""
        self.answer: Callable[[Message], Message | None] = answer_none
        """Returns the response to a request; None closes the connection without one."""
        self.points = RecordedPoints()
        self.features = FinalizedFeatureCache()
        self.feature_listener: FinalizedFeatureChangeListener | None = None
        self.broken: list[BaseException] = []
        self._controller: KafkaController | None = None
        self._world: World | None = None

    # -- the process

    def start(self) -> None:
        self.boot()
        self.process.spawn(self.live())
        self.harness.settle(200)

    def boot(self) -> None:
        self._world = self.node.start(
            self.harness.zookeeper,
            self.harness.network,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            connection_timeout_ms=6_000,
        )

    async def live(self) -> None:
        await self.open_session()
        self.server = await self.world.network.bind(self.node.name, PORT, self.serve)
        if not self.refuses_connections:
            self.server.start()
        await self.register(self.zk)
        if self.is_electable:
            self.feature_listener = FinalizedFeatureChangeListener(self.features, lambda: self.zk)
            await self.feature_listener.refresh(self.zk)
            self.process.spawn(self.feature_listener.run())
            self._controller = KafkaController(
                self.id,
                self.harness.settings,
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
        if not self.harness.zookeeper.transactions:
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
        """Kill the process, and end its session at once rather than after its timeout."""
        session = self.client.session_id
        self.process.kill()
        self._controller = None
        self.harness.zookeeper.expire(session)
        self.harness.settle()

    def expire(self) -> None:
        """End the session; the process keeps running."""
        self.harness.zookeeper.expire(self.client.session_id)
        self.harness.settle(8_000)

    # -- as a broker

    async def serve(self, connection: Connection) -> None:
        frames = FrameReader()
        try:
            while data := await connection.receive():
                for frame in frames.feed(data):
                    header, message = decode_request(frame)
                    assert isinstance(message, LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest)
                    now = self.harness.loop.time() * 1000
                    self.received.append(
                        ReceivedRequest(now, header.api_version, header.client_id, header.correlation_id, message)
                    )
                    response = self.answer(message)
                    if response is None:
                        connection.close()
                        return
                    api = api_of(message)
                    await connection.send(encode_response(api, header.api_version, header.correlation_id, response))
        except ConnectionLost:
            pass

    def requests(self, *kinds: type[RequestSent]) -> list[RequestSent]:
        """The control requests it received, of these kinds or of all."""
        requests = [sent(received.message) for received in self.received]
        return [request for request in requests if not kinds or isinstance(request, kinds)]

    # -- as a controller

    @property
    def controller(self) -> KafkaController:
        assert self._controller is not None, f"broker {self.id} is not electable"
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
        """Run a coroutine in this process to its end."""
        result: T = self.harness.loop.run_until_complete(self.process.spawn(coroutine))
        return result

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self.process.spawn(coroutine)

    def records(self, kind: type[P]) -> list[P]:
        """The records of one type in its event log, in order."""
        return [payload for payload in self.all_records() if isinstance(payload, kind)]

    def all_records(self) -> list[Payload]:
        found = []
        for line in self.node.log.lines[self.node.incarnation]:
            envelope = msgspec.json.decode(line)
            found.append(msgspec.convert(envelope["data"], PAYLOAD_BY_TYPE[envelope["type"]]))
        return found

    def envelopes(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.node.log.lines[self.node.incarnation]]


def answer_none(message: Message) -> Message:
    """Respond to any control request without an error."""
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
