"""`AdminClient` sends admin requests over Kafka's protocol: topics, configurations, elections, reassignments.

It uses the `Network` port, so that the demo, the golden scenarios and the simulator share it. Requests for the
controller are sent to the broker that Metadata names as controller, and again to its successor after a failover; in
ZooKeeper mode brokers forward none of them (KIP-590). Mirrors the part of
`org.apache.kafka.clients.admin.KafkaAdminClient` that is needed here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.errors import ApiError, Errors, error_for_code, error_name
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from foundation.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from foundation.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from foundation.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from foundation.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from foundation.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from foundation.wire.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from foundation.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from foundation.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from foundation.wire.network import ConnectionFailed, ConnectionLost, Network
from foundation.wire.registry import api_of
from foundation.wire.request_channel import RequestChannel, RequestTimedOut
from foundation.wire.schema import Message

RETRY_BACKOFF_MS, RETRY_BACKOFF_MAX_MS = 100, 1_000
"""The first pause before a request is sent again, and the longest: each is twice the one before, as in KIP-580."""
PREFERRED, UNCLEAN = 0, 1
TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE = 0, 1

_Call: TypeAlias = Callable[[], Awaitable[Message]]


class NoBrokerAnswers(Exception):
    """No broker answered the request in time. The message names the brokers and the last error."""


class AdminClient:
    """A client of one cluster. It opens a connection for each request and closes it after the response.

    Args:
        bootstrap: `host:port` pairs, tried in order until one answers; the next request begins with that one.
        timeout_ms: the time that one call may take, its retries included.
    """

    def __init__(
        self,
        network: Network,
        bootstrap: Sequence[str],
        *,
        client_id: str = "understudy-admin",
        timeout_ms: int = 30_000,
    ) -> None:
        self._network = network
        self._bootstrap = deque(bootstrap)
        self._client_id = client_id
        self._timeout_ms = timeout_ms

    def with_bootstrap(self, *bootstrap: str, timeout_ms: int | None = None) -> AdminClient:
        """Return a client of the same cluster with other bootstrap servers and, if given, another timeout."""
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return AdminClient(self._network, bootstrap, client_id=self._client_id, timeout_ms=timeout_ms)

    async def metadata(self, topics: Iterable[str] | None = None) -> MetadataResponse:
        """Return the metadata of `topics` (None: of all topics) from the first broker that answers."""
        wanted = None if topics is None else tuple(MetadataRequestTopic(name=topic) for topic in topics)
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = await self._retried(lambda: self._ask_any(request))
        assert isinstance(response, MetadataResponse)
        return response

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        assignment: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create topic `name`, with the replicas of `assignment` (partition to brokers) or as the controller assigns.

        Raises:
            ApiError: the controller refused it.
            NoBrokerAnswers: no controller could be reached in time.
        """
        placed = (
            ()
            if assignment is None
            else tuple(
                CreatableReplicaAssignment(partition_index=partition, broker_ids=tuple(brokers))
                for partition, brokers in sorted(assignment.items())
            )
        )
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if placed else partitions,
            replication_factor=-1 if placed else replication_factor,
            assignments=placed,
            configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()),
        )
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=self._timeout_ms)
        response = await self._retried(lambda: self._ask_controller(request))
        assert isinstance(response, CreateTopicsResponse)
        for result in response.topics:
            _raise_for(result.error_code, result.error_message, result.name)

    async def create_partitions(
        self, topic: str, count: int, assignment: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Increase `topic` to `count` partitions; `assignment` lists the brokers of each new one.

        Raises the errors of `create_topic`.
        """
        placed = (
            None if assignment is None else tuple(CreatePartitionsAssignment(broker_ids=tuple(b)) for b in assignment)
        )
        request = CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name=topic, count=count, assignments=placed),), timeout_ms=self._timeout_ms
        )
        response = await self._retried(lambda: self._ask_controller(request))
        assert isinstance(response, CreatePartitionsResponse)
        for result in response.results:
            _raise_for(result.error_code, result.error_message, result.name)

    async def delete_topics(self, *topics: str) -> None:
        """Delete `topics`, and return when they are no longer in the metadata of the controller's broker.

        Their znodes and data may be deleted later.

        Raises:
            ApiError: a topic was refused; REQUEST_TIMED_OUT where it is marked for deletion, but still exists.
            NoBrokerAnswers: no controller could be reached in time.
        """
        asked = tuple(DeleteTopicState(name=topic) for topic in topics)
        request = DeleteTopicsRequest(topics=asked, timeout_ms=self._timeout_ms)
        response = await self._retried(lambda: self._ask_controller(request))
        assert isinstance(response, DeleteTopicsResponse)
        for result in response.responses:
            _raise_for(result.error_code, result.error_message, result.name or "")

    async def alter_config(
        self, resource_type: int, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set or delete keys in the config of a topic (2), a broker (4) or a broker's loggers (8).

        Requests about one broker's config or loggers are sent to that broker, others to the first that answers (TC-1).

        Args:
            changes: the value of each key; None deletes the key.

        Raises:
            ApiError: the change was refused.
            NoBrokerAnswers: no broker could be reached in time.
        """
        configs = tuple(
            IncrementalAlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
            for key, value in changes.items()
        )
        resource = IncrementalAlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
        response = await self._retried(lambda: self._ask_about(resource_type, name, request))
        assert isinstance(response, IncrementalAlterConfigsResponse)
        for result in response.responses:
            _raise_for(result.error_code, result.error_message, result.resource_name)

    async def describe_config(self, resource_type: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
        """Return the config of a topic, a broker or a broker's loggers by key, with the synonyms of each value.

        Raises the errors of `alter_config`.
        """
        resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name)
        request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
        response = await self._retried(lambda: self._ask_about(resource_type, name, request))
        assert isinstance(response, DescribeConfigsResponse)
        [result] = response.results
        _raise_for(result.error_code, result.error_message, result.resource_name)
        return {config.name: config for config in result.configs}

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, election_type: int = PREFERRED
    ) -> dict[TopicPartition, Errors]:
        """Elect preferred (or unclean) leaders of `partitions` (None: of all), and return the error code of each."""
        asked: tuple[TopicPartitions, ...] | None = None
        if partitions is not None:
            by_topic = _by_topic(partitions)
            asked = tuple(TopicPartitions(topic=topic, partitions=tuple(ids)) for topic, ids in by_topic.items())
        request = ElectLeadersRequest(election_type=election_type, topic_partitions=asked, timeout_ms=self._timeout_ms)
        response = await self._retried(lambda: self._ask_controller(request))
        assert isinstance(response, ElectLeadersResponse)
        return {
            TopicPartition(result.topic, partition.partition_id): error_for_code(partition.error_code)
            for result in response.replica_election_results
            for partition in result.partition_result
        }

    async def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        """Reassign partitions to brokers (None: cancel the reassignment), and return why each has not begun, or None.

        Raises:
            ApiError: the whole request was refused.
            NoBrokerAnswers: no controller could be reached in time.
        """
        topics = tuple(
            ReassignableTopic(
                name=topic,
                partitions=tuple(
                    ReassignablePartition(partition_index=index, replicas=None if replicas is None else tuple(replicas))
                    for index, replicas in ((index, reassignments[TopicPartition(topic, index)]) for index in indexes)
                ),
            )
            for topic, indexes in _by_topic(reassignments).items()
        )
        request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=self._timeout_ms)
        response = await self._retried(lambda: self._ask_controller(request))
        assert isinstance(response, AlterPartitionReassignmentsResponse)
        _raise_for(response.error_code, response.error_message, "the reassignment")
        return {
            TopicPartition(topic.name, partition.partition_index): (
                ApiError(error_for_code(partition.error_code), partition.error_message or "")
                if partition.error_code
                else None
            )
            for topic in response.responses
            for partition in topic.partitions
        }

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the reassignments in progress of `partitions` (None: of all).

        Raises the errors of `alter_partition_reassignments`.
        """
        asked = None
        if partitions is not None:
            by_topic = _by_topic(partitions)
            asked = tuple(
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=tuple(indexes))
                for topic, indexes in by_topic.items()
            )
        request = ListPartitionReassignmentsRequest(topics=asked, timeout_ms=self._timeout_ms)
        response = await self._retried(lambda: self._ask_controller(request))
        assert isinstance(response, ListPartitionReassignmentsResponse)
        _raise_for(response.error_code, response.error_message, "the list of reassignments")
        return {
            TopicPartition(topic.name, moving.partition_index): ReplicaAssignment(
                *(
                    tuple(map(BrokerId, replicas))
                    for replicas in (moving.replicas, moving.adding_replicas, moving.removing_replicas)
                )
            )
            for topic in response.topics
            for moving in topic.partitions
        }

    async def ask(self, host: str, port: int, request: Message, *, version: int | None = None) -> Message:
        """Send one request to one broker over a new connection, and return the response.

        Args:
            version: the version of the request; None for the newest.

        Raises:
            ConnectionFailed, ConnectionLost, RequestTimedOut: no response came.
        """
        connection = await self._network.connect(host, port, timeout_ms=self._timeout_ms)
        channel = RequestChannel(connection, client_id=self._client_id)
        try:
            api_version = api_of(request).max_version if version is None else version
            return await channel.request(request, api_version, timeout_ms=self._timeout_ms)
        finally:
            channel.close()

    async def _ask_any(self, request: Message) -> Message:
        failure: Exception = NoBrokerAnswers("no bootstrap server was given")
        for address in tuple(self._bootstrap):
            host, _, port = address.rpartition(":")
            try:
                response = await self.ask(host, int(port), request)
            except (ConnectionFailed, ConnectionLost, RequestTimedOut) as error:
                failure = error
            else:
                self._bootstrap.rotate(-self._bootstrap.index(address))
                return response
        raise ConnectionFailed(f"none of {', '.join(self._bootstrap)} answers; the last one: {failure}")

    async def _ask_about(self, resource_type: int, name: str, request: Message) -> Message:
        """Send `request` to the broker that is responsible for a resource, and return the response."""
        if resource_type not in (BROKER, BROKER_LOGGER) or not name:
            return await self._ask_any(request)
        metadata = await self._ask_any(MetadataRequest(topics=(), allow_auto_topic_creation=False))
        assert isinstance(metadata, MetadataResponse)
        broker = next((broker for broker in metadata.brokers if str(broker.node_id) == name), None)
        if broker is None:
            raise ConnectionFailed(f"broker {name} is not in the metadata")
        return await self.ask(broker.host, broker.port, request)

    async def _ask_controller(self, request: Message) -> Message:
        """Send `request` to the controller; raise ConnectionFailed while there is none, so that the caller retries."""
        metadata = await self._ask_any(MetadataRequest(topics=(), allow_auto_topic_creation=False))
        assert isinstance(metadata, MetadataResponse)
        controller = next((broker for broker in metadata.brokers if broker.node_id == metadata.controller_id), None)
        if controller is None:
            raise ConnectionFailed("there is no controller in the metadata")
        response = await self.ask(controller.host, controller.port, request)
        if Errors.NOT_CONTROLLER in _errors_of(response):
            raise ConnectionFailed(f"broker {controller.node_id} is no longer the controller")
        return response

    async def _retried(self, call: _Call) -> Message:
        """Repeat `call` until it returns a response or the timeout passes, as during a controller failover."""
        reason, backoff_ms = "no request was sent", RETRY_BACKOFF_MS
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                while True:
                    try:
                        return await call()
                    except (ConnectionFailed, ConnectionLost, RequestTimedOut) as error:
                        reason = str(error)
                    # The metadata of a broker may be old: another one may know the controller.
                    self._bootstrap.rotate(-1)
                    await asyncio.sleep(backoff_ms / 1000)
                    backoff_ms = min(2 * backoff_ms, RETRY_BACKOFF_MAX_MS)
        except TimeoutError:
            raise NoBrokerAnswers(
                f"no answer from {', '.join(self._bootstrap)} within {self._timeout_ms} ms: {reason}"
            ) from None


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic, sorted."""
    found: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        found.setdefault(partition.topic, []).append(partition.partition)
    return found


def _errors_of(response: Message) -> set[int]:
    """Return every error code in the response to a request for the controller."""
    match response:
        case CreateTopicsResponse():
            return {topic.error_code for topic in response.topics}
        case CreatePartitionsResponse():
            return {result.error_code for result in response.results}
        case DeleteTopicsResponse():
            return {result.error_code for result in response.responses}
        case AlterPartitionReassignmentsResponse() | ListPartitionReassignmentsResponse():
            return {response.error_code}
        case ElectLeadersResponse():
            partitions = (
                partition for result in response.replica_election_results for partition in result.partition_result
            )
            return {response.error_code, *(partition.error_code for partition in partitions)}
        case _:
            return set()


def _raise_for(code: int, message: str | None, what: str) -> None:
    if code != Errors.NONE:
        error = error_for_code(code)
        reason = message or ("no reason given" if error == code else error_name(code))
        raise ApiError(error, f"{what}: {reason}")
