"""Finds the leaders of partitions and keeps a connection to each broker that a client uses."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from understudy.clusters.clients.client_events import NO_EVENTS, NOT_ANSWERED, ClientEvents, node
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.errors import MalformedMessage
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from understudy.foundation.wire.nested_topics import by_partition
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost, Network
from understudy.foundation.wire.request_channel import RequestChannel, RequestTimedOut
from understudy.foundation.wire.schema import Message

R = TypeVar("R", bound=Message)

METADATA_VERSION = 12

NOT_SENT = (ConnectionFailed,)
"""Exceptions after which a request has not reached a broker."""
NO_ANSWER = (ConnectionLost, RequestTimedOut, MalformedMessage)
"""Exceptions after which the broker may have received and served the request."""


def metadata_request(topics: Iterable[str] | None) -> MetadataRequest:
    """Return the request for the metadata of `topics` (None: of all topics), which creates none of them."""
    wanted = None if topics is None else tuple(MetadataRequestTopic(name=topic) for topic in topics)
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


class NoLeader(Exception):
    """The metadata has no leader of a partition, or not its address. The message names the partition."""


class TopicsDescribed(NamedTuple):
    """The partitions of topics in the metadata.

    Attributes:
        counts: the number of partitions of each topic; a topic that does not exist is missing.
        racks: the racks of each partition's replicas.
    """

    counts: dict[str, int]
    racks: dict[TopicPartition, frozenset[str]]


class Connections:
    """The connections of one client. Each carries one request at a time: its users take turns.

    Args:
        bootstrap: `host:port` of brokers, tried in order for metadata; the next request begins with the last that had
            some.
        timeout_ms: the time to open a connection, and to get an answer beyond the time that a request asks the broker
            to wait.
        events: records what the client does.
    """

    def __init__(
        self,
        network: Network,
        bootstrap: Sequence[str],
        *,
        client_id: str,
        timeout_ms: int = 5_000,
        events: ClientEvents = NO_EVENTS,
    ) -> None:
        self.events = events
        self._network = network
        self._bootstrap = deque(bootstrap)
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._addresses: dict[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._channels: dict[int, RequestChannel] = {}

    def close(self) -> None:
        for broker in sorted(self._channels):
            self._channels[broker].close()
        self._channels.clear()

    def forget_leader(self, topic_partition: TopicPartition) -> None:
        """Forget the leader of a partition: the next request for it reads the metadata first."""
        self._leaders.pop(topic_partition, None)

    def known_leader(self, topic_partition: TopicPartition) -> int | None:
        """Return the leader of a partition in the last metadata; None if it has to be found."""
        return self._leaders.get(topic_partition)

    async def find_leaders(self, topics: Iterable[str]) -> None:
        """Read the leaders of all partitions of `topics`; raises NoLeader if no broker answers."""
        for each, state in by_partition((await self._read_metadata(topics)).topics).items():
            if state.error_code == Errors.NONE:
                self._leaders[each] = state.leader_id

    async def ask_leader(
        self, topic_partition: TopicPartition, request: Message, version: int, response: type[R], *, wait_ms: int = 0
    ) -> R:
        """Send a request to the leader of a partition.

        Args:
            wait_ms: the time that the request asks the broker to wait.

        Raises:
            NoLeader: no broker answers with the leader.
            ConnectionFailed: the leader does not accept a connection; nothing was sent.
            ConnectionLost, RequestTimedOut, MalformedMessage: there is no answer that can be read.
        """
        leader = await self.leader_of(topic_partition)
        return await self.ask(leader, request, version, response, wait_ms=wait_ms)

    async def leader_of(self, topic_partition: TopicPartition) -> int:
        """Return the leader of a partition; read the metadata if it is not known. Raises NoLeader."""
        if topic_partition not in self._leaders:
            await self.find_leaders((topic_partition.topic,))
        if topic_partition not in self._leaders:
            raise NoLeader(f"{topic_partition} has no leader that is alive")
        return self._leaders[topic_partition]

    async def ask(self, broker: int, request: Message, version: int, response: type[R], *, wait_ms: int = 0) -> R:
        """Send a request to a broker whose address the metadata has; raises as `ask_leader`."""
        channel = await self._channel_to(broker)
        try:
            answer = await channel.request(request, version, timeout_ms=self._timeout_ms + wait_ms)
        except NO_ANSWER:
            self._channels.pop(broker, None)
            raise
        assert isinstance(answer, response)
        return answer

    async def send(self, broker: int, request: Message, version: int) -> None:
        """Send a request that has no answer to a broker whose address the metadata has; raises as `ask_leader`."""
        channel = await self._channel_to(broker)
        try:
            await channel.send(request, version, timeout_ms=self._timeout_ms)
        except NO_ANSWER:
            self._channels.pop(broker, None)
            raise

    async def _channel_to(self, broker: int) -> RequestChannel:
        if broker not in self._channels:
            if broker not in self._addresses:
                raise ConnectionFailed(f"the metadata has no address of broker {broker}")
            self._channels[broker] = await self._connect_to(broker)
        return self._channels[broker]

    async def any_broker(self) -> int:
        """Return a broker that answers; raises NoLeader if none does."""
        metadata = await self._read_metadata(())
        return min(broker.node_id for broker in metadata.brokers)

    def know_address(self, broker: int, host: str, port: int) -> None:
        """Take over the address of a broker from an answer other than metadata."""
        if self._addresses.get(broker) != (host, port):
            self._addresses[broker] = host, port
            if (channel := self._channels.pop(broker, None)) is not None:
                channel.close()

    async def describe_topics(self, topics: Iterable[str]) -> TopicsDescribed:
        """Return the partitions of the topics that exist; raises NoLeader if no broker answers."""
        metadata = await self._read_metadata(topics)
        rack_of = {broker.node_id: broker.rack for broker in metadata.brokers}
        known = [topic for topic in metadata.topics if topic.error_code == Errors.NONE]
        racks = {
            partition: frozenset(rack for each in state.replica_nodes if (rack := rack_of.get(each)))
            for partition, state in by_partition(known).items()
        }
        return TopicsDescribed({topic.name or "": len(topic.partitions) for topic in known}, racks)

    async def topic_names(self) -> list[str]:
        """Return the topics that are not internal, sorted; raises NoLeader if no broker answers."""
        metadata = await self._read_metadata(None)
        return sorted(topic.name for topic in metadata.topics if topic.name is not None and not topic.is_internal)

    async def in_sync_replicas(self, topic_partition: TopicPartition) -> tuple[int, ...]:
        """Return the ISR of a partition in the metadata; empty if it has no leader.

        Raises:
            NoLeader: no broker answers.
        """
        metadata = await self._read_metadata((topic_partition.topic,))
        state = by_partition(metadata.topics).get(topic_partition)
        return state.isr_nodes if state is not None and state.error_code == Errors.NONE else ()

    async def _read_metadata(self, topics: Iterable[str] | None) -> MetadataResponse:
        """Return the metadata of topics, None for all; raises NoLeader if no broker answers."""
        request = metadata_request(topics)
        failure = "no bootstrap server is given"
        for address in tuple(self._bootstrap):
            host, _, port = address.rpartition(":")
            self.events.asks(asked := self._name_of(host, int(port)))
            try:
                with contextlib.closing(await self._connect(host, int(port))) as channel:
                    answer = await channel.request(request, METADATA_VERSION, timeout_ms=self._timeout_ms)
            except (*NOT_SENT, *NO_ANSWER) as failed:
                failure = str(failed)
                self.events.asked(asked, NOT_ANSWERED)
                continue
            assert isinstance(answer, MetadataResponse)
            self.events.asked(asked)
            if answer.brokers:
                self._addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
                self._bootstrap.rotate(-self._bootstrap.index(address))
                return answer
            failure = f"{address} has no metadata yet"
        raise NoLeader(f"no metadata: {failure}")

    def _name_of(self, host: str, port: int) -> str:
        """Return the name of the node with an address; the address itself if the metadata has not named it."""
        found = (broker for broker, address in self._addresses.items() if address == (host, port))
        broker = next(found, None)
        return f"{host}:{port}" if broker is None else node(broker)

    async def _connect_to(self, broker: int) -> RequestChannel:
        """Connect to a broker whose address is known; raises ConnectionFailed."""
        self.events.connecting(broker)
        try:
            channel = await self._connect(*self._addresses[broker])
        except ConnectionFailed as failure:
            self.events.connected(broker, str(failure) or type(failure).__name__)
            raise
        self.events.connected(broker)
        return channel

    async def _connect(self, host: str, port: int) -> RequestChannel:
        connection = await self._network.connect(host, port, timeout_ms=self._timeout_ms)
        return RequestChannel(connection, client_id=self._client_id)
