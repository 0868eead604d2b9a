"""`AdminClient` sends admin requests over Kafka's protocol: topics, configurations, elections, reassignments.

It uses the `Network` port, so that the demo, the golden scenarios and the simulator share it. `ClusterRequests` sends
what is for the controller to the broker that Metadata names as controller, and again to its successor after a
failover; in ZooKeeper mode brokers forward none of it (KIP-590). Mirrors the part of
`org.apache.kafka.clients.admin.KafkaAdminClient` that is needed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from understudy.clusters.clients.cluster_requests import ClusterRequests, metadata_request
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.errors import ApiError, Errors, error_for_code, error_name
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from understudy.foundation.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from understudy.foundation.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from understudy.foundation.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from understudy.foundation.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from understudy.foundation.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from understudy.foundation.wire.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from understudy.foundation.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from understudy.foundation.wire.messages.metadata import MetadataResponse
from understudy.foundation.wire.network import Network
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.request_channel import RequestChannel
from understudy.foundation.wire.schema import Message

R = TypeVar("R", bound=Message)

PREFERRED, UNCLEAN = 0, 1
TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE = 0, 1


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
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._requests = ClusterRequests(self._send, bootstrap, timeout_ms=timeout_ms)

    def with_bootstrap(self, *bootstrap: str, timeout_ms: int | None = None) -> AdminClient:
        """Return a client of the same cluster with other bootstrap servers and, if given, another timeout."""
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return AdminClient(self._network, bootstrap, client_id=self._client_id, timeout_ms=timeout_ms)

    async def metadata(self, topics: Iterable[str] | None = None) -> MetadataResponse:
        """Return the metadata of `topics` (None: of all topics) from the first broker that answers."""
        request = metadata_request(topics)
        return await self._requests.retried(lambda: self._requests.ask_any(request, MetadataResponse))

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
        response = await self._ask_controller(request, CreateTopicsResponse)
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
        response = await self._ask_controller(request, CreatePartitionsResponse)
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
        response = await self._ask_controller(request, DeleteTopicsResponse)
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
        response = await self._ask_about(resource_type, name, request, IncrementalAlterConfigsResponse)
        for result in response.responses:
            _raise_for(result.error_code, result.error_message, result.resource_name)

    async def describe_config(self, resource_type: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
        """Return the config of a topic, a broker or a broker's loggers by key, with the synonyms of each value.

        Raises the errors of `alter_config`.
        """
        resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name)
        request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
        response = await self._ask_about(resource_type, name, request, DescribeConfigsResponse)
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
        response = await self._ask_controller(request, ElectLeadersResponse)
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
        response = await self._ask_controller(request, AlterPartitionReassignmentsResponse)
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
        response = await self._ask_controller(request, ListPartitionReassignmentsResponse)
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

    async def _send(self, host: str, port: int, request: Message, *, max_version: int | None = None) -> Message:
        return await self.ask(host, port, request, version=max_version)

    async def _ask_about(self, resource_type: int, name: str, request: Message, response: type[R]) -> R:
        """Send `request` to the broker that is responsible for a resource, and return the response."""
        if resource_type not in (BROKER, BROKER_LOGGER) or not name:
            return await self._requests.retried(lambda: self._requests.ask_any(request, response))
        return await self._requests.retried(lambda: self._requests.ask_broker(name, request, response))

    async def _ask_controller(self, request: Message, response: type[R]) -> R:
        return await self._requests.retried(lambda: self._requests.ask_controller(request, response, _errors_of))


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
