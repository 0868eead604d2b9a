"""Tests of controlled shutdown: attempts, success, a controller that does not respond."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

import pytest

from tests.brokers.peers import ScriptedPeer
from tests.operators_log import operators_log
from understudy.brokers.config.reading import read_config
from understudy.brokers.membership.controlled_shutdown import controlled_shutdown
from understudy.brokers.metadata.metadata_cache import MetadataCache
from understudy.brokers.metrics.broker_state import BrokerState
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.loop import new_loop
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import EventStarted
from understudy.foundation.wire.messages.controlled_shutdown import ControlledShutdownResponse
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from understudy.foundation.wire.network import Network
from understudy.history.reading.lines import decode_record


@pytest.mark.spec("CS-1")
@pytest.mark.parametrize(
    ("settings", "attempts_at_s"),
    [
        ({}, [0, 5, 10]),
        ({"controlled.shutdown.max.retries": "1"}, [0]),
        ({"controlled.shutdown.max.retries": "4", "controlled.shutdown.retry.backoff.ms": "500"}, [0, 0.5, 1, 1.5]),
    ],
    ids=["Kafka's defaults", "once", "more, and sooner"],
)
def test_controlled_shutdown_is_attempted_up_to_its_limit(settings: dict[str, str], attempts_at_s: list[float]) -> None:
    loop = new_loop()
    attempts: list[float] = []

    async def others() -> Collection[BrokerId]:
        attempts.append(loop.time())
        return [BrokerId(2)]

    leaving = controlled_shutdown(
        BrokerId(1),
        7,
        config=read_config({"zookeeper.connect": "z", **settings}),
        metadata=MetadataCache(),  # without a controller
        network=cast(Network, None),
        others=others,
    )
    assert loop.run_until_complete(leaving) is False
    assert attempts == attempts_at_s
    assert loop.time() == attempts_at_s[-1]
    loop.close()


@pytest.mark.parametrize(
    ("code", "name"), [(Errors.STALE_BROKER_EPOCH, "STALE_BROKER_EPOCH"), (999, "UNKNOWN_ERROR_CODE_999")]
)
def test_error_of_the_controller_fails_the_attempt_and_is_logged_by_name(code: int, name: str) -> None:
    endpoint = UpdateMetadataEndpoint(host="h2", port=9092, listener="PLAINTEXT")
    metadata = MetadataCache()
    metadata.update(
        UpdateMetadataRequest(controller_id=2, live_brokers=(UpdateMetadataBroker(id=2, endpoints=(endpoint,)),))
    )

    async def others() -> Collection[BrokerId]:
        return [BrokerId(2)]

    leaving = controlled_shutdown(
        BrokerId(1),
        7,
        config=read_config({"zookeeper.connect": "z", "controlled.shutdown.max.retries": "1"}),
        metadata=metadata,
        network=ScriptedPeer(lambda header, request: ControlledShutdownResponse(error_code=code)),
        others=others,
    )
    loop = new_loop()
    with operators_log() as lines:
        assert loop.run_until_complete(leaving) is False
    loop.close()
    assert [line.fields["why"] for line in lines if "why" in line.fields] == [f"controller 2 answered {name}"]


def controlled_shutdowns(cluster: SimulatedCluster) -> int:
    """Stop a broker other than the controller, and count the controlled shutdown requests to the controller."""
    cluster.start()
    cluster.settle()
    leaver = cluster.broker(next(broker for broker in cluster.broker_ids if broker != cluster.controller_id()))
    leaver.begin_stop()
    cluster.run_for(1_000)
    assert not leaver.is_running
    events = [record.data for record in map(decode_record, cluster.log_lines) if isinstance(record.data, EventStarted)]
    return [event.event for event in events].count("ControlledShutdown")


@pytest.mark.spec("CS-1")
@pytest.mark.parametrize(("enabled", "asked"), [("true", 1), ("false", 0)])
def test_controlled_shutdown_is_requested_once_if_enabled(enabled: str, asked: int) -> None:
    with SimulatedCluster(2, brokers=3, settings={"controlled.shutdown.enable": enabled}) as cluster:
        assert controlled_shutdowns(cluster) == asked


@pytest.mark.spec("CS-1")
def test_broker_stops_although_the_controller_does_not_respond() -> None:
    with SimulatedCluster(2, brokers=3) as cluster:
        cluster.start()
        cluster.settle()
        controller = cluster.controller()
        leaver = next(broker for broker in cluster.brokers if broker != controller)
        cluster.cut(leaver.id, [controller.id])
        leaver.begin_stop()
        cluster.run_for(2_000)
        assert leaver.instance is not None
        assert leaver.instance.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        cluster.run_for(20_000)
        assert not leaver.is_running


def test_broker_stops_although_another_registration_is_malformed() -> None:
    with SimulatedCluster(2, brokers=3) as cluster:
        cluster.start()
        cluster.settle()
        leaver = cluster.broker(next(broker for broker in cluster.broker_ids if broker != cluster.controller_id()))
        cluster.write("/brokers/ids/9", b"by hand")
        leaver.begin_stop()
        cluster.run_for(5_000)
        assert not leaver.is_running
