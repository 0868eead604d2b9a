"""Admin requests about topics: metadata, creation, deletion, elections and reassignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from understudy.clusters.clients.cluster_requests import ClusterRequests
from understudy.foundation.cluster.errors import ApiError, Errors, error_for_code
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
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
from understudy.foundation.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    TopicPartitions,
)
from understudy.foundation.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)
from understudy.foundation.wire.messages.metadata import MetadataResponseTopic
from understudy.foundation.wire.nested_topics import by_partition, by_topic, nested

PREFERRED, UNCLEAN = 0, 1
LAST_WITH_TOPIC_NAMES: Final = 5
"""The last version of DeleteTopics whose list has names alone."""


class TopicRequests(ClusterRequests):
    """Reads and changes topics, their partitions and replicas."""

    async def topics(self, *, with_internal: bool = True) -> dict[str, MetadataResponseTopic]:
        """Return all topics by name, sorted; raises as `metadata`."""
        metadata = await self.metadata()
        found = {topic.name: topic for topic in metadata.topics if topic.name is not None}
        return {name: found[name] for name in sorted(found) if with_internal or not found[name].is_internal}

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
        placed = tuple(
            CreatableReplicaAssignment(partition_index=partition, broker_ids=tuple(brokers))
            for partition, brokers in sorted((assignment or {}).items())
        )
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if placed else partitions,
            replication_factor=-1 if placed else replication_factor,
            assignments=placed,
            configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()),
        )
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=self._request_timeout_ms)
        for result in (await self.ask_controller(request, CreateTopicsResponse)).topics:
            self._check(result.error_code, result.error_message, result.name)

    async def create_partitions(
        self, topic: str, count: int, assignment: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Increase `topic` to `count` partitions; `assignment` lists the brokers of each new one.

        Raises the errors of `create_topic`.
        """
        await self.create_partitions_of({topic: assignment}, count)

    async def create_partitions_of(self, assignments: Mapping[str, Sequence[Sequence[int]] | None], count: int) -> None:
        """Increase several topics to `count` partitions, as `create_partitions` does."""
        topics = tuple(
            CreatePartitionsTopic(
                name=topic,
                count=count,
                assignments=None
                if placed is None
                else tuple(CreatePartitionsAssignment(broker_ids=tuple(brokers)) for brokers in placed),
            )
            for topic, placed in assignments.items()
        )
        request = CreatePartitionsRequest(topics=topics, timeout_ms=self._request_timeout_ms)
        for result in (await self.ask_controller(request, CreatePartitionsResponse)).results:
            self._check(result.error_code, result.error_message, result.name)

    async def delete_topics(self, *topics: str) -> None:
        """Delete `topics`, and return when they are no longer in the metadata of the controller's broker.

        Their znodes and data may be deleted later.

        Raises:
            ApiError: a topic was refused; REQUEST_TIMED_OUT if it is marked for deletion, but still exists.
            NoBrokerAnswers: no controller could be reached in time.
        """
        if self.negotiates:
            request = DeleteTopicsRequest(topic_names=topics, timeout_ms=self._request_timeout_ms)
            answer = await self.ask_controller(request, DeleteTopicsResponse, max_version=LAST_WITH_TOPIC_NAMES)
        else:
            states = tuple(DeleteTopicState(name=topic) for topic in topics)
            request = DeleteTopicsRequest(topics=states, timeout_ms=self._request_timeout_ms)
            answer = await self.ask_controller(request, DeleteTopicsResponse)
        for result in answer.responses:
            self._check(result.error_code, result.error_message, result.name or "")

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, election_type: int = PREFERRED
    ) -> dict[TopicPartition, Errors]:
        """Elect preferred (or unclean) leaders of `partitions` (None: of all), and return the error code of each."""
        results = await self.elect(partitions, election_type)
        return {each: error_for_code(result.error_code) for each, result in results.items()}

    async def elect(
        self, partitions: Iterable[TopicPartition] | None, election_type: int, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, PartitionResult]:
        """Elect leaders as `elect_leaders`, and return the controller's answer about each."""
        asked = None
        if partitions is not None:
            topics = by_topic(sorted(partitions))
            asked = tuple(TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items())
        request = ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=asked,
            timeout_ms=self._request_timeout_ms if timeout_ms is None else timeout_ms,
        )
        answer = await self.ask_controller(request, ElectLeadersResponse)
        self._check(answer.error_code, None, "the election")
        return {
            TopicPartition(result.topic, partition.partition_id): partition
            for result in answer.replica_election_results
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
        return {
            each: ApiError(error_for_code(result.error_code), result.error_message or "") if result.error_code else None
            for each, result in (await self.reassign(reassignments)).items()
        }

    async def reassign(
        self, reassignments: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ReassignablePartitionResponse]:
        """Reassign partitions as `alter_partition_reassignments`, and return the controller's answer about each."""
        asked = {
            each: ReassignablePartition(
                partition_index=each.partition, replicas=None if replicas is None else tuple(replicas)
            )
            for each, replicas in sorted(reassignments.items(), key=lambda item: item[0])
        }
        request = AlterPartitionReassignmentsRequest(topics=nested(ReassignableTopic, asked))
        answer = await self.ask_controller(request, AlterPartitionReassignmentsResponse)
        self._check(answer.error_code, answer.error_message, "the reassignment")
        return by_partition(answer.responses)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OngoingPartitionReassignment]:
        """Return the reassignments in progress of `partitions` (None: of all).

        Raises the errors of `alter_partition_reassignments`.
        """
        asked = None
        if partitions is not None:
            asked = tuple(
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(sorted(partitions)).items()
            )
        request = ListPartitionReassignmentsRequest(topics=asked)
        answer = await self.ask_controller(request, ListPartitionReassignmentsResponse)
        self._check(answer.error_code, answer.error_message, "the list of reassignments")
        return by_partition(answer.topics)
