"""Starts and stops one broker, in a process or in the simulator. Mirrors `kafka.server.KafkaServer`.

The order of the start matters (BR-1):

1. a ZooKeeper session, the cluster's id, the broker's id, the stored configs; the logs are opened
2. listeners of port 0 are bound, because their ports have to be registered
3. the addresses are compared with the addresses of other brokers, and the broker registers
4. listeners of fixed ports are bound
5. the controller election, and the first answers to requests

A controller that connects before step 4 is refused and tries again; before step 5 it waits in the backlog.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from understudy.brokers.apis.services import BrokerServices
from understudy.brokers.config.changes import ConfigChangeListener, stored_broker_configs
from understudy.brokers.config.dynamic_broker_config import DynamicBrokerConfig
from understudy.brokers.config.handlers import (
    BrokerConfigHandler,
    ConfigHandler,
    QuotaConfigHandler,
    TopicConfigHandler,
)
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.coordinator.coordinators import read_partition_counts
from understudy.brokers.coordinator.group.group_coordinator import GroupCoordinator
from understudy.brokers.coordinator.group.group_events import GroupEvents
from understudy.brokers.coordinator.group.group_metrics import group_readings
from understudy.brokers.coordinator.producer_id_manager import (
    ProducerIdManager,
    RPCProducerIdManager,
    ZkProducerIdManager,
)
from understudy.brokers.log.log_manager import LogManager
from understudy.brokers.log.topic_configs import TopicConfigs
from understudy.brokers.membership.broker_identity import identify
from understudy.brokers.membership.controlled_shutdown import move_leaderships_away
from understudy.brokers.membership.controller_channel import ControllerChannel
from understudy.brokers.membership.finalized_features import FinalizedFeatureChangeListener
from understudy.brokers.membership.registration import Registration
from understudy.brokers.membership.session import BrokerSession
from understudy.brokers.metadata.metadata_cache import MetadataCache
from understudy.brokers.metadata.topic_names import GROUP_METADATA_TOPIC
from understudy.brokers.metrics.broker_state import BROKER_STATE, BrokerState
from understudy.brokers.metrics.metered_zookeeper import MeteredZooKeeper
from understudy.brokers.metrics.metrics_server import ADDRESS_FILE, MetricsServer
from understudy.brokers.network.kafka_apis import KafkaApis
from understudy.brokers.network.socket_server import SocketServer
from understudy.brokers.replication.fetch_session_cache import FetchSessionCache
from understudy.brokers.replication.fetch_session_metrics import fetch_session_readings
from understudy.brokers.replication.isr_manager import IsrManager
from understudy.brokers.replication.log_events import LogEvents
from understudy.brokers.replication.partition import Partition
from understudy.brokers.replication.replica_fetcher import FetcherSurroundings
from understudy.brokers.replication.replica_fetcher_manager import ReplicaFetcherManager
from understudy.brokers.replication.replica_manager import ReplicaManager
from understudy.brokers.replication.replica_metrics import replica_readings
from understudy.brokers.supervisor import Supervisor
from understudy.brokers.world import World
from understudy.controller.feature_cache import FinalizedFeatureCache
from understudy.controller.kafka_controller import KafkaController
from understudy.foundation.cluster.broker import Broker as BrokerInfo
from understudy.foundation.cluster.broker import EndPoint
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition, random_topic_id
from understudy.foundation.eventlog.records import ProcessExiting
from understudy.foundation.metrics.mbeans import MetricReading
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataEndpoint
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.KafkaServer")


class KafkaBroker:
    """A broker over a world: `start`, then `wait_closed` until it fails or `shutdown` is called. It is started once."""

    def __init__(self, config: KafkaConfig, world: World) -> None:
        self.dynamic = DynamicBrokerConfig(config)
        self.world = world
        self.metadata = MetadataCache()
        self.features = FinalizedFeatureCache()
        self.state = BrokerState.NOT_RUNNING
        self._zookeeper = MeteredZooKeeper(world.zookeeper, world.clock)
        self._metrics_server = MetricsServer(network=world.network, collect=self.metrics)
        self._supervisor: Supervisor | None = None
        self._session: BrokerSession | None = None
        self._server: SocketServer | None = None
        self._registration: Registration | None = None
        self._fetchers: ReplicaFetcherManager | None = None
        self._logs: LogManager | None = None
        self._services: BrokerServices | None = None
        self._channels: list[ControllerChannel] = []
        self._started = False
        self._is_shutting_down = False
        self._closing = asyncio.Lock()
        self._closed = asyncio.Event()

    @property
    def config(self) -> KafkaConfig:
        """The current configuration, with what was configured since the start (CF-6)."""
        return self.dynamic.current

    @property
    def controller(self) -> KafkaController:
        assert self._services is not None, "a broker has a controller once it has started"
        return self._services.controller

    @property
    def broker_epoch(self) -> int:
        """The epoch of the current registration; −1 before the first."""
        return -1 if self._registration is None else self._registration.broker_epoch

    @property
    def hosted(self) -> Mapping[TopicPartition, Partition]:
        """The partitions this broker has a replica of."""
        return {} if self._services is None else self._services.replicas.partitions

    @property
    def topic_ids_on_disk(self) -> Mapping[TopicPartition, TopicId]:
        """The topic id of every log in the directory."""
        return {} if self._logs is None else {partition: log.topic_id for partition, log in self._logs.logs.items()}

    @property
    def fetched(self) -> Mapping[TopicPartition, int]:
        """The partitions this broker fetches, and the broker it fetches each from."""
        return {} if self._fetchers is None else self._fetchers.leader_of

    async def start(self) -> None:
        """Join the cluster, and answer requests from then on.

        Raises:
            ZooKeeperUnreachable: no ZooKeeper within `zookeeper.connection.timeout.ms`.
            InconsistentMetaProperties: the directory belongs to another broker or cluster.
            DirectoryLocked: another process uses the directory.
            RegistrationRefused: another broker has the id or an address.
            ConnectionFailed: a listener cannot be bound.
            IncompatibleFeatures: the cluster has finalized a feature that this broker does not support.
            MalformedZNode: a znode that this broker needs cannot be read.
            LogUnusable: a log in its directory is damaged.
        """
        try:
            await self._start()
        except (Exception, asyncio.CancelledError):
            # A broker whose start fails must not stay registered, or keep a port.
            await self._close()
            raise

    async def _start(self) -> None:
        self.state = BrokerState.STARTING
        supervisor = self._supervisor = Supervisor(self.world.events)
        self.world.events.when_lost = supervisor.event_log_lost
        session = self._session = BrokerSession(
            zookeeper=self._zookeeper,
            events=self.world.events,
            fences=self.world.fences,
            supervisor=supervisor,
            owner=lambda: None if self._services is None else self._services.controller,
        )
        zk = await session.open()
        await zk.create_top_level_paths()
        proposed = self.config.understudy_cluster_id or random_topic_id(self.world.random)
        cluster_id = await zk.create_or_get_cluster_id(proposed)
        broker_id = await identify(zk, self.world.disk, self.config, cluster_id)
        self.world.on_identified(broker_id)
        feature_listener = FinalizedFeatureChangeListener(self.features, lambda: session.zk)
        features_count = self.config.metadata_version.is_feature_versioning_supported
        if features_count:
            session.add_listener(feature_listener)
            await feature_listener.refresh(zk)
        self.dynamic.start_with(*await stored_broker_configs(zk, broker_id))
        await self._open_logs(zk)
        server = self._server = SocketServer(
            config=lambda: self.dynamic.current,
            network=self.world.network,
            events=self.world.events,
            clock=self.world.clock,
        )
        ports = await server.bind_wildcard_ports()
        await self._serve_metrics()
        registration = self._registration = self._registration_at(broker_id, ports)
        await registration.check_endpoints(zk, self._advertised_endpoints())
        coordinator_partitions = await read_partition_counts(zk, self.config)
        services = self._services = self._assemble(
            broker_id, cluster_id, registration, session, supervisor, coordinator_partitions
        )
        await registration.register(zk)
        await server.bind()
        services.controller.startup(zk)
        config_listener = self._config_listener(services, server, registration)
        session.add_listener(config_listener)
        server.start(KafkaApis(services, supervisor))
        supervisor.spawn(config_listener.run(), "config-changes-event-process-thread")
        if features_count:
            supervisor.spawn(feature_listener.run(), "feature-zk-node-event-process-thread")
        supervisor.spawn(services.isr.alter_partitions.run(), "alter-partition")
        supervisor.spawn(services.isr.run_checks(), "isr-expiration")
        supervisor.spawn(services.producer_ids.run(), "producer-ids")
        supervisor.spawn(services.groups.run(), "group-coordinator")
        supervisor.spawn(services.topic_configs.run(), "topic-configs")
        supervisor.spawn(services.logs.run_retention(), "kafka-log-retention")
        supervisor.spawn(services.logs.run_checkpoints(), "kafka-recovery-point-checkpoint")
        supervisor.spawn(services.logs.run_deletions(), "kafka-delete-logs")
        if services.logs.cleaner is not None:
            supervisor.spawn(services.logs.cleaner.run(), "kafka-log-cleaner-thread-0")
        supervisor.spawn(services.logs.run_high_watermark_checkpoints(), "highwatermark-checkpoint")
        self._started = True
        self.state = BrokerState.RUNNING
        log.info("started", broker=broker_id, cluster_id=cluster_id)

    async def metrics(self) -> list[MetricReading]:
        """The readings of `understudy.brokers.mbeans.MBEANS`, of those parts of the broker that have been started."""
        states = (partition.state for partition in self.hosted.values())
        replicas = list(replica_readings(states, self._min_insync_replicas))
        services = self._services
        readings = [] if services is None else await services.controller.metrics()
        readings += [MetricReading(BROKER_STATE, self.state.value), *replicas]
        if services is not None:
            groups = services.groups.manager
            readings += services.isr.meters.readings()
            readings += fetch_session_readings(services.fetch_sessions)
            readings += group_readings(groups.groups.values(), groups.meters)
        if self._logs is not None and self._logs.cleaner is not None:
            readings += self._logs.cleaner.metrics.readings()
        return [*readings, *self._zookeeper.readings()]

    async def shutdown(self) -> None:
        """Ask the controller to move this broker's leaderships, then end the session and close everything.

        Bounded by the configured retries and timeouts. A second call waits for the first; after a failed start there is
        nothing left to do.
        """
        if self._is_shutting_down:
            await self._closed.wait()
        if self._closed.is_set():
            return
        self._is_shutting_down = True
        if self._started and self.config.controlled_shutdown_enable:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            await self._controlled_shutdown()
        self._record_exit("shutdown")
        await self._close()
        log.info("shut down completed")

    async def wait_closed(self) -> None:
        """Wait until the broker has shut down.

        Raises:
            BrokerFailed: one of its tasks failed; it has been closed without a controlled shutdown.
        """
        assert self._supervisor is not None, "start comes first"
        closed = asyncio.ensure_future(self._closed.wait())
        failed = self._supervisor.failed
        await asyncio.wait((closed, failed), return_when=asyncio.FIRST_COMPLETED)
        closed.cancel()
        if failed.done():
            self._record_exit(str(failed.result()))
            await self._close()
            raise failed.result()

    # ------------------------------------------------------------------ starting

    async def _open_logs(self, zk: KafkaZkClient) -> None:
        """Open the logs in this broker's directory; recover them if it was not shut down in order."""
        world = self.world
        logs = LogManager(
            disk=world.disk, config=lambda: self.config, clock=world.clock, random=world.random, offload=world.offload
        )
        topics = logs.topics_on_disk()
        await logs.load(await zk.configs.of_topics(topics) if topics else {})
        self._logs = logs

    async def _serve_metrics(self) -> None:
        # A broker that was killed has left the address of its metrics server.
        self.world.disk.delete(ADDRESS_FILE)
        host, port = self.config.metrics_host, self.config.metrics_port
        if port is not None:
            bound = await self._metrics_server.start(host, port)
            self.world.disk.write(ADDRESS_FILE, f"{host}:{bound}\n".encode())

    def _advertised_endpoints(self) -> tuple[EndPoint, ...]:
        return tuple(
            endpoint if endpoint.host else endpoint._replace(host=self.world.host_name())
            for endpoint in self.config.advertised_endpoints()
        )

    def _info(self, broker_id: BrokerId, ports: Mapping[str, int]) -> BrokerInfo:
        """Return the registration of this broker, without listeners that are not bound. Port 0 is the bound port."""
        endpoints = (
            endpoint._replace(port=endpoint.port or ports[endpoint.listener])
            for endpoint in self._advertised_endpoints()
            if endpoint.listener in ports
        )
        return BrokerInfo(id=broker_id, endpoints=tuple(endpoints), rack=self.config.broker_rack)

    def _config_listener(
        self, services: BrokerServices, server: SocketServer, registration: Registration
    ) -> ConfigChangeListener:
        assert self._supervisor is not None, "made before the parts it watches over"

        async def apply_listeners() -> None:
            await registration.change(self._info(services.broker_id, await server.rebind()), services.zk())

        handlers: dict[str, ConfigHandler] = {
            "topics": TopicConfigHandler(services.controller, services.logs.update_topic_config),
            "brokers": BrokerConfigHandler(
                services.broker_id, self.dynamic, services.controller, apply_listeners, services.logs.reconfigure
            ),
            **{kind: QuotaConfigHandler(kind) for kind in ("users", "clients", "ips")},
        }
        return ConfigChangeListener(services.broker_id, handlers, services.zk, self._supervisor.record)

    def _registration_at(self, broker_id: BrokerId, ports: Mapping[str, int]) -> Registration:
        broker = self._info(broker_id, ports)
        version = self.config.metadata_version.broker_registration_version
        return Registration(broker, znode_version=version, clock=self.world.clock, events=self.world.events)

    def _assemble(
        self,
        broker_id: BrokerId,
        cluster_id: str,
        registration: Registration,
        session: BrokerSession,
        supervisor: Supervisor,
        coordinator_partitions: Mapping[str, int],
    ) -> BrokerServices:
        world, config = self.world, self.config
        logs = self._logs
        assert logs is not None, "opened before the parts that use it"

        def broker_epoch() -> int:
            return registration.broker_epoch

        controller = self._candidate(broker_id, registration, supervisor)
        replicas = self._replica_manager(broker_id, logs, supervisor, broker_epoch)
        fetch_sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots,
            purgatory=replicas.delayed_fetches,
            clock=world.clock,
            random=world.random,
        )
        isr = IsrManager(
            config=config,
            clock=world.clock,
            events=world.events,
            metadata=self.metadata,
            replicas=replicas,
            channel=self._controller_channel(broker_id),
            broker_epoch=broker_epoch,
            zk=lambda: session.zk,
            rules=world.fences.rules,
        )
        return BrokerServices(
            broker_id=broker_id,
            cluster_id=cluster_id,
            dynamic=self.dynamic,
            loggers=world.loggers,
            clock=world.clock,
            random=world.random,
            offload=world.offload,
            answers=world.answers,
            disk=world.disk,
            events=world.events,
            fences=world.fences,
            metadata=self.metadata,
            features=self.features,
            logs=logs,
            topic_configs=TopicConfigs(logs, lambda: session.zk),
            replicas=replicas,
            isr=isr,
            fetch_sessions=fetch_sessions,
            producer_ids=self._producer_id_manager(broker_id, registration, session),
            groups=self._group_coordinator(replicas, supervisor, coordinator_partitions),
            controller=controller,
            broker_epoch=broker_epoch,
            zk=lambda: session.zk,
            coordinator_partitions=coordinator_partitions,
        )

    def _replica_manager(
        self, broker_id: BrokerId, logs: LogManager, supervisor: Supervisor, broker_epoch: Callable[[], int]
    ) -> ReplicaManager:
        """The replica manager, and the fetchers that append to its partitions."""
        log_events = LogEvents(self.world.events if self.config.understudy_events_logs else None)
        self._fetchers = ReplicaFetcherManager(
            FetcherSurroundings(
                broker_id=broker_id,
                config=self.config,
                network=self.world.network,
                clock=self.world.clock,
                append=lambda *fetched: replicas.append_as_follower(*fetched),
                address=self._inter_broker_address,
                broker_epoch=broker_epoch,
                spawn=supervisor.spawn,
                rules=self.world.fences.rules,
                log_events=log_events,
            )
        )
        replicas = ReplicaManager(
            broker_id,
            fences=self.world.fences,
            fetchers=self._fetchers,
            logs=logs,
            clock=self.world.clock,
            is_alive=lambda broker: self.metadata.snapshot.is_alive(broker),
            max_lag_ms=self.config.replica_lag_time_max_ms,
            on_disk_failure=lambda error: supervisor.fail("log directory", error),
            log_events=log_events,
        )
        logs.on_log_start_raised = replicas.log_start_offset_raised
        if logs.cleaner is not None:
            logs.cleaner.on_cleaned = log_events.cleaned
        return replicas

    def _candidate(self, broker_id: BrokerId, registration: Registration, supervisor: Supervisor) -> KafkaController:
        """The controller that this broker runs when it wins the election."""
        world = self.world
        return KafkaController(
            broker_id,
            replace(
                self.config.controller_settings(),
                unclean_leader_election_enabled=lambda: self.config.unclean_leader_election_enable,
            ),
            registration.register,
            world.network,
            world.clock,
            world.random,
            world.events,
            world.fences,
            world.points,
            lambda failure: supervisor.fail("controller-event-thread", failure),
            self.features,
        )

    def _producer_id_manager(
        self, broker_id: BrokerId, registration: Registration, session: BrokerSession
    ) -> ProducerIdManager:
        timeout_ms = self.config.request_timeout_ms
        if not self.config.metadata_version.is_allocate_producer_ids_supported:
            return ZkProducerIdManager(broker_id, zk=lambda: session.zk, timeout_ms=timeout_ms)
        return RPCProducerIdManager(
            broker_id,
            channel=self._controller_channel(broker_id),
            clock=self.world.clock,
            broker_epoch=lambda: registration.broker_epoch,
            timeout_ms=timeout_ms,
        )

    def _group_coordinator(
        self, replicas: ReplicaManager, supervisor: Supervisor, partitions: Mapping[str, int]
    ) -> GroupCoordinator:
        return GroupCoordinator(
            partitions=partitions[GROUP_METADATA_TOPIC],
            config=lambda: self.config,
            replicas=replicas,
            clock=self.world.clock,
            random=self.world.random,
            events=GroupEvents(self.world.events, has_offsets=self.config.understudy_events_logs),
            spawn=supervisor.spawn,
            offload=self.world.offload,
        )

    def _controller_channel(self, broker_id: BrokerId) -> ControllerChannel:
        """A connection to the controller of its own: no request waits for the answer to another kind of request."""
        channel = ControllerChannel(
            client_id=str(broker_id),
            network=self.world.network,
            controller=self._controller_address,
            timeout_ms=self.config.controller_socket_timeout_ms,
        )
        self._channels.append(channel)
        return channel

    def _min_insync_replicas(self, topic: str) -> int:
        return (
            self.config.min_insync_replicas if self._logs is None else self._logs.log_config(topic).min_insync_replicas
        )

    def _inter_broker_address(self, broker: int) -> UpdateMetadataEndpoint | None:
        return self.metadata.snapshot.endpoint(broker, self.config.inter_broker_listener)

    def _controller_address(self) -> UpdateMetadataEndpoint | None:
        controller_id = self.metadata.snapshot.controller_id
        listener = self.config.control_plane_listener or self.config.inter_broker_listener
        return None if controller_id is None else self.metadata.snapshot.endpoint(controller_id, listener)

    # ------------------------------------------------------------------ leaving

    async def _close_logs(self) -> None:
        """Close the logs in order, unless the broker failed: then the next start recovers them."""
        failed = self._supervisor is not None and self._supervisor.failed.done()
        if self._logs is None or failed:
            return
        try:
            await self._logs.close(self.broker_epoch)
        except OSError as error:
            log.error("logs were not closed in order", why=str(error))

    def _record_exit(self, reason: str) -> None:
        # If the event log cannot be written, that is the reason of the exit, which then is not recorded.
        with contextlib.suppress(OSError):
            self.world.events.append(ProcessExiting(reason=reason))

    async def _controlled_shutdown(self) -> None:
        assert self._registration is not None, "only a started broker moves its leaderships away"
        assert self._session is not None, "only a started broker moves its leaderships away"
        await move_leaderships_away(
            self._registration, self._session, config=self.config, metadata=self.metadata, network=self.world.network
        )

    async def _close(self) -> None:
        """Close everything, once: a broker may fail while it is being shut down (CS-4).

        Fetchers and tasks come first, then the controller, then the session, with which the registration vanishes. The
        sockets come last.
        """
        async with self._closing:
            if not self._closed.is_set():
                await self._close_parts()
                self._closed.set()

    async def _close_parts(self) -> None:
        self.state = BrokerState.SHUTTING_DOWN
        if self._fetchers is not None:
            self._fetchers.close()
        for channel in self._channels:
            channel.forget_controller()
        if self._services is not None and self._started:
            try:
                await self._services.controller.shutdown()
            except OSError as error:
                # Its last records cannot be written. The session has to end all the same, with its registration.
                log.error("the controller was not shut down in order", why=str(error))
        if self._supervisor is not None:
            await self._supervisor.close()
        await self._close_logs()
        if self._session is not None:
            await self._session.close()
        if self._server is not None:
            await self._server.close()
        self.state = BrokerState.NOT_RUNNING
        if await self._metrics_server.close():
            self.world.disk.delete(ADDRESS_FILE)
