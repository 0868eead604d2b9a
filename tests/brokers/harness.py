"""`BrokerHarness`: the services of a broker for tests of request handlers.

Caches and managers are the real ones; there is no ZooKeeper, and the controller is scripted.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import cast

from tests.brokers.parts import (
    ME,
    ORDERS,
    OTHER,
    LogsInMemory,
    StillClock,
    apply_leader_and_isr,
    leader_and_isr,
    replica_manager,
    state,
)
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.config.dynamic_broker_config import DynamicBrokerConfig
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.logger_levels import LoggerLevels
from understudy.brokers.coordinator.coordinators import partition_counts
from understudy.brokers.coordinator.group.group_coordinator import GroupCoordinator
from understudy.brokers.coordinator.group.group_events import GroupEvents
from understudy.brokers.coordinator.producer_id_manager import ProducerIdManager, RPCProducerIdManager
from understudy.brokers.log.log_manager import LogManager
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.log.topic_configs import TopicConfigs
from understudy.brokers.membership.controller_channel import ControllerChannel
from understudy.brokers.metadata.metadata_cache import MetadataCache
from understudy.brokers.metadata.topic_names import GROUP_METADATA_TOPIC
from understudy.brokers.replication.fetch_session_cache import FetchSessionCache
from understudy.brokers.replication.isr_manager import IsrManager
from understudy.brokers.supervisor import Supervisor
from understudy.brokers.world import at_once
from understudy.clusters.simulated.disk import SimulatedDisk
from understudy.controller.events import ElectionType, FeatureUpdate, OngoingReassignments, ReassignmentResults
from understudy.controller.feature_cache import FinalizedFeatureCache
from understudy.controller.kafka_controller import KafkaController
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from understudy.foundation.wire.network import Network
from understudy.foundation.zk.admin_znodes import ProducerIdBlock
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient

BROKER_EPOCH = 40


class ScriptedController:
    """Stands for `KafkaController`: returns the results that a test has set, and keeps the arguments in `asked`."""

    def __init__(self) -> None:
        self.is_active = True
        self.asked: list[object] = []
        self.elections: dict[TopicPartition, BrokerId | ApiError] = {}
        self.producer_ids: ProducerIdBlock | ApiError = ProducerIdBlock(BrokerId(2), 5_000, 5_999)
        self.feature_results: dict[str, ApiError] | ApiError = {}
        self.reassignments: ReassignmentResults = {}
        self.moving: OngoingReassignments = {}
        self.topic_names: dict[TopicId, str] = {}

    def topic_name(self, topic_id: TopicId) -> str | None:
        return self.topic_names.get(topic_id)

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        self.asked.append((request, version))
        return AlterPartitionResponse()

    async def controlled_shutdown(
        self, broker_id: BrokerId, broker_epoch: int
    ) -> tuple[Errors, tuple[TopicPartition, ...]]:
        self.asked.append((broker_id, broker_epoch))
        return Errors.NONE, (TopicPartition("orders", 3),)

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, election_type: ElectionType
    ) -> dict[TopicPartition, BrokerId | ApiError]:
        self.asked.append((partitions, election_type))
        return self.elections

    async def allocate_producer_ids(self, broker_id: BrokerId, broker_epoch: int) -> ProducerIdBlock | ApiError:
        self.asked.append((broker_id, broker_epoch))
        return self.producer_ids

    async def update_features(self, updates: Sequence[FeatureUpdate]) -> dict[str, ApiError] | ApiError:
        self.asked.append(tuple(updates))
        return self.feature_results

    async def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> ReassignmentResults:
        self.asked.append(reassignments)
        return self.reassignments

    async def list_partition_reassignments(self, partitions: Sequence[TopicPartition] | None) -> OngoingReassignments:
        self.asked.append(partitions)
        return self.moving


class BrokerHarness:
    """The services of broker 1, in whose metadata cache brokers 1 to 3 are alive.

    It has to be created inside a running event loop.
    """

    def __init__(
        self,
        config: KafkaConfig | None = None,
        *,
        detail: bool = False,
        producer_ids: ProducerIdManager | None = None,
        log: PartitionLog | None = None,
    ) -> None:
        self.clock = StillClock()
        self._producer_ids = producer_ids
        self.logs = LogsInMemory(log)
        self.replicas, self.fetchers, self.recorder = replica_manager(logs=self.logs, clock=self.clock)
        self.recorder.log.detail = detail
        self.metadata = MetadataCache()
        self.features = FinalizedFeatureCache()
        self.supervisor = Supervisor(self.recorder.log)
        self.controller = ScriptedController()
        self.config = config or KafkaConfig()
        self.services = self._services()
        self.update_metadata()

    def update_metadata(
        self, states: dict[str, dict[int, int]] | None = None, *, live: Sequence[int] = (1, 2, 3)
    ) -> None:
        """Apply an UpdateMetadata request with the `live` brokers and `states`: topic → partition → leader."""
        self.metadata.update(
            UpdateMetadataRequest(
                controller_id=1,
                live_brokers=tuple(
                    UpdateMetadataBroker(
                        id=number,
                        endpoints=(UpdateMetadataEndpoint(host=f"h{number}", port=9092, listener="PLAINTEXT"),),
                        rack=f"r{number}",
                    )
                    for number in live
                ),
                topic_states=tuple(
                    UpdateMetadataTopicState(
                        topic_name=topic,
                        topic_id=ORDERS,
                        partition_states=tuple(
                            UpdateMetadataPartitionState(
                                partition_index=index,
                                leader=leader,
                                leader_epoch=5,
                                isr=(ME, OTHER),
                                replicas=(ME, OTHER, 3),
                            )
                            for index, leader in leaders.items()
                        ),
                    )
                    for topic, leaders in (states or {}).items()
                ),
            )
        )

    def become_leader(self, topic: str, partition: int, *, leader_epoch: int = 5) -> None:
        """Make this broker the leader of `topic`-`partition`, in its replica manager and in its metadata cache."""
        apply_leader_and_isr(self.replicas, leader_and_isr(state(partition, leader_epoch=leader_epoch), topic=topic))
        self.update_metadata({topic: {partition: ME}})

    def context(self, version: int = 0) -> RequestContext:
        return RequestContext(api_version=version, correlation_id=1, client_id="test", listener="PLAINTEXT", peer="p:1")

    def _services(self) -> BrokerServices:
        channel = ControllerChannel(client_id="t", network=cast(Network, None), controller=lambda: None, timeout_ms=1)
        isr = IsrManager(
            config=self.config,
            clock=self.clock,
            events=self.recorder.log,
            metadata=self.metadata,
            replicas=self.replicas,
            channel=channel,
            broker_epoch=lambda: BROKER_EPOCH,
            zk=_no_zookeeper,
            rules=Fences(self.recorder.log).rules,
        )
        return BrokerServices(
            broker_id=BrokerId(ME),
            cluster_id="cluster",
            dynamic=DynamicBrokerConfig(self.config),
            loggers=LoggerLevels(),
            clock=self.clock,
            random=random.Random(7),
            disk=SimulatedDisk(),
            events=self.recorder.log,
            fences=Fences(self.recorder.log),
            metadata=self.metadata,
            features=self.features,
            logs=cast(LogManager, self.logs),
            topic_configs=TopicConfigs(cast(LogManager, self.logs), _no_zookeeper),
            replicas=self.replicas,
            isr=isr,
            fetch_sessions=FetchSessionCache(
                self.config.max_incremental_fetch_session_cache_slots,
                purgatory=self.replicas.delayed_fetches,
                clock=self.clock,
                random=random.Random(7),
            ),
            producer_ids=self._producer_ids or _unconnected_producer_id_manager(channel, self.clock),
            groups=GroupCoordinator(
                partitions=partition_counts({}, self.config)[GROUP_METADATA_TOPIC],
                config=lambda: self.config,
                replicas=self.replicas,
                clock=self.clock,
                random=random.Random(7),
                events=GroupEvents(self.recorder.log, has_offsets=True),
                spawn=self.supervisor.spawn,
                offload=at_once,
            ),
            controller=cast(KafkaController, self.controller),
            broker_epoch=lambda: BROKER_EPOCH,
            zk=_no_zookeeper,
            coordinator_partitions=partition_counts({}, self.config),
        )


def _unconnected_producer_id_manager(channel: ControllerChannel, clock: StillClock) -> ProducerIdManager:
    return RPCProducerIdManager(
        BrokerId(ME), channel=channel, clock=clock, broker_epoch=lambda: BROKER_EPOCH, timeout_ms=1
    )


class _NoConfigs:
    """Stands for a ZooKeeper in which no topic has a config; everything else that is read there is a mistake."""

    @property
    def configs(self) -> _NoConfigs:
        return self

    async def of_topics(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        return {topic: {} for topic in topics}


def _no_zookeeper() -> KafkaZkClient:
    return cast(KafkaZkClient, _NoConfigs())
