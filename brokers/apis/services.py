"""The parts of one broker that request handlers use."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from understudy.brokers.config.dynamic_broker_config import DynamicBrokerConfig
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.logger_levels import LoggerLevels
from understudy.brokers.coordinator.group.group_coordinator import GroupCoordinator
from understudy.brokers.coordinator.producer_id_manager import ProducerIdManager
from understudy.brokers.log.log_manager import LogManager
from understudy.brokers.log.topic_configs import TopicConfigs
from understudy.brokers.metadata.metadata_cache import MetadataCache
from understudy.brokers.replication.fetch_session_cache import FetchSessionCache
from understudy.brokers.replication.isr_manager import IsrManager
from understudy.brokers.replication.replica_manager import ReplicaManager
from understudy.brokers.world import Disk, Offload, at_once
from understudy.controller.feature_cache import FinalizedFeatureCache
from understudy.controller.kafka_controller import KafkaController
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.wire.armed_answers import AnswerList, ArmedAnswers
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient

MOST_LONG_CHECKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerServices:
    """The parts of one broker.

    Attributes:
        broker_epoch: returns the epoch of this broker's current registration; it changes with the session.
        zk: returns the client of the current session; to be called again after every wait.
        coordinator_partitions: by coordinators' topic, the number of partitions it had when this broker started, or is
            to have.
        answers: the answers that an experiment or a test has armed; none by default.
        topics_being_created: the topics whose automatic creation is in progress.
        long_checks: bounds the checks of producers' batches that run on other threads, each with up to 128 MB.
    """

    broker_id: BrokerId
    cluster_id: str
    dynamic: DynamicBrokerConfig
    loggers: LoggerLevels
    clock: Clock
    random: random.Random
    disk: Disk
    events: EventLog
    fences: Fences
    metadata: MetadataCache
    features: FinalizedFeatureCache
    logs: LogManager
    topic_configs: TopicConfigs
    replicas: ReplicaManager
    isr: IsrManager
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIdManager
    groups: GroupCoordinator
    controller: KafkaController
    broker_epoch: Callable[[], int]
    zk: Callable[[], KafkaZkClient]
    coordinator_partitions: Mapping[str, int]
    offload: Offload = at_once
    answers: ArmedAnswers = field(default_factory=AnswerList)
    topics_being_created: set[str] = field(default_factory=set)
    long_checks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_LONG_CHECKS))

    @property
    def config(self) -> KafkaConfig:
        """This broker's current configuration."""
        return self.dynamic.current


class RequestContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The header of a request, and the connection it came over."""

    api_version: int
    correlation_id: int
    client_id: str | None
    listener: str
    peer: str
