"""Tests of the controller's metrics: event states, timers and counts."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.controller.harness import ControllerHarness, HarnessBroker, TermHarness, answer_none
from tests.controller.test_event_manager import QueueHarness, run
from tests.controller.values import tp
from understudy.controller.controller_metrics import (
    COUNT_WAIT_MS,
    COUNTS,
    MBEANS,
    TIMERS,
    ClusterCounts,
    Counts,
    counted,
)
from understudy.controller.controller_state import ControllerState
from understudy.controller.event_manager import EVENT_QUEUE_TIME_TIMEOUT_MS
from understudy.controller.events import (
    BrokerChange,
    ControllerEvent,
    ElectionType,
    TopicChange,
)
from understudy.controller.settings import ControllerSettings
from understudy.controller.transitions import ReplicaState
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.metrics.instruments import Meter, Timer
from understudy.foundation.metrics.mbeans import MetricKind, MetricReading
from understudy.foundation.zk.client import WatchFired, WatchKind

ORDERS = {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1]}


def readings(broker: HarnessBroker) -> dict[str, MetricReading]:
    """The values of metrics by name, and by tag if there is one."""
    found = broker.run(broker.controller.metrics())
    return {reading.mbean.name + (f" {reading.tag}" if reading.tag else ""): reading for reading in found}


def gauges(broker: HarnessBroker) -> dict[str, float]:
    return {name: value for name, (_, value, _) in readings(broker).items() if isinstance(value, int | float)}


def calls(broker: HarnessBroker, timer: str) -> int:
    value = readings(broker)[timer].value
    assert isinstance(value, Timer)
    return value.calls.count


# ------------------------------------------------------------------ states and timers


@pytest.mark.spec("MT-1")
def test_controller_state_of_every_event() -> None:
    states = {event: event.state for event in get_args(ControllerEvent)}
    assert set(map(type, states.values())) == {ControllerState}
    assert [(state.value, state.label) for state in ControllerState] == [
        (0, "Idle"),
        (1, "ControllerChange"),
        (2, "BrokerChange"),
        (3, "TopicChange"),
        (4, "TopicDeletion"),
        (5, "AlterPartitionReassignment"),
        (6, "AutoLeaderBalance"),
        (7, "ManualLeaderBalance"),
        (8, "ControlledShutdown"),
        (9, "IsrChange"),
        (10, "LeaderAndIsrResponseReceived"),
        (11, "LogDirChange"),
        (12, "ControllerShutdown"),
        (13, "UncleanLeaderElectionEnable"),
        (14, "TopicUncleanLeaderElectionEnable"),
        (15, "ListPartitionReassignment"),
        (16, "UpdateMetadataResponseReceived"),
        (17, "UpdateFeatures"),
    ]
    events: dict[str, set[str]] = {}
    for event, state in states.items():
        events.setdefault(state.label, set()).add(event.__name__)
    assert events == {
        "Idle": {"AllocateProducerIds"},
        "ControllerChange": {
            "Startup",
            "ControllerChange",
            "Reelect",
            "RegisterBrokerAndReelect",
            "Expire",
            "ForcedResignation",
        },
        "ControllerShutdown": {"ShutdownEventThread"},
        "BrokerChange": {"BrokerChange", "BrokerModifications"},
        "LogDirChange": {"LogDirEventNotification"},
        "TopicChange": {"TopicChange", "PartitionModifications"},
        "TopicDeletion": {"TopicDeletion", "TopicDeletionStopReplicaResponseReceived"},
        "IsrChange": {"IsrChangeNotification", "AlterPartitionReceived"},
        "AlterPartitionReassignment": {
            "ZkPartitionReassignment",
            "ApiPartitionReassignment",
            "PartitionReassignmentIsrChange",
        },
        "ListPartitionReassignment": {"ListPartitionReassignments"},
        "AutoLeaderBalance": {"AutoPreferredReplicaLeaderElection"},
        "ManualLeaderBalance": {"ReplicaLeaderElection"},
        "ControlledShutdown": {"ControlledShutdown"},
        "UncleanLeaderElectionEnable": {"UncleanLeaderElectionEnable"},
        "TopicUncleanLeaderElectionEnable": {"TopicUncleanLeaderElectionEnable"},
        "LeaderAndIsrResponseReceived": {"LeaderAndIsrResponseReceived"},
        "UpdateMetadataResponseReceived": {"UpdateMetadataResponseReceived"},
        "UpdateFeatures": {"UpdateFeatures"},
    }


@pytest.mark.spec("MT-2")
def test_timer_names_of_controller_states() -> None:
    assert {state: mbean.name for state, mbean in TIMERS.items()} == {
        state: {
            ControllerState.BROKER_CHANGE: "LeaderElectionRateAndTimeMs",
            ControllerState.ALTER_PARTITION_REASSIGNMENT: "PartitionReassignmentRateAndTimeMs",
        }.get(state, f"{state.label}RateAndTimeMs")
        for state in ControllerState
        if state not in (ControllerState.IDLE, ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED)
    }
    assert {mbean.kind for mbean in TIMERS.values()} == {MetricKind.TIMER}


@pytest.mark.spec("EQ-4")
def test_event_sets_the_state_and_is_timed() -> None:
    async def scenario() -> None:
        harness = QueueHarness()
        timers = {ControllerState.BROKER_CHANGE: Timer(harness.log.clock)}
        harness.manager._timers = timers
        seen = []

        async def look() -> None:
            seen.append((harness.manager.state, harness.manager.is_busy))
            harness.log.clock.now_ms += 25

        harness.doing[BrokerChange] = look
        harness.doing[TopicChange] = look
        harness.manager.put(BrokerChange())
        harness.manager.put(TopicChange())
        harness.log.clock.now_ms += 40
        harness.manager.start()
        await harness.manager._queue[-1].over()
        assert seen == [(ControllerState.BROKER_CHANGE, True), (ControllerState.TOPIC_CHANGE, True)]
        assert (harness.manager.state, harness.manager.is_busy) == (ControllerState.IDLE, False)
        assert timers[ControllerState.BROKER_CHANGE].durations.distribution()[:4] == (1, 25.0, 25.0, 25.0)
        assert harness.manager.queue_time.distribution()[:4] == (2, 40.0, 65.0, 52.5)
        await harness.manager.close(timeout_ms=1_000)

    run(scenario())


@pytest.mark.spec("EQ-5")
def test_event_queue_time_is_cleared_after_five_idle_minutes() -> None:
    async def scenario() -> None:
        harness = QueueHarness()
        harness.manager.start()
        harness.manager.put(BrokerChange())
        await harness.manager._queue[0].over()
        harness.log.clock.now_ms += EVENT_QUEUE_TIME_TIMEOUT_MS - 1
        assert harness.manager.queue_time.count == 1
        harness.log.clock.now_ms += 1
        assert harness.manager.queue_time.count == 0
        # Also if it was read in between.
        for _ in range(2):
            harness.log.clock.now_ms += EVENT_QUEUE_TIME_TIMEOUT_MS
            harness.manager.put(TopicChange())
            await harness.manager._queue[0].over()
        assert harness.manager.queue_time.count == 1
        await harness.manager.close(timeout_ms=1_000)

    run(scenario())


# ------------------------------------------------------------------ counts


@pytest.mark.spec("MT-3")
def test_only_the_active_controller_counts() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.create_topic("orders", ORDERS)
        harness.create_topic("payments", {0: [2, 1]})
        harness.broker(2).crash()
        active, other = gauges(harness.broker(0)), gauges(harness.broker(1))
    assert {mbean.name: active[mbean.name] for mbean in MBEANS if mbean.type == "KafkaController"} == {
        "ActiveControllerCount": 1,
        "ControllerState": 0,
        "OfflinePartitionsCount": 0,
        "PreferredReplicaImbalanceCount": 2,
        "GlobalTopicCount": 2,
        "GlobalPartitionCount": 4,
        "TopicsToDeleteCount": 0,
        "ReplicasToDeleteCount": 0,
        "TopicsIneligibleToDeleteCount": 0,
        "ReplicasIneligibleToDeleteCount": 0,
        "ActiveBrokerCount": 2,
        "FencedBrokerCount": 0,
        "ZkMigrationState": 4,
    }
    assert active["CurrentControllerId"] == other["CurrentControllerId"] == 0
    assert [name for name, value in other.items() if value] == ["ZkMigrationState"]


@pytest.mark.spec("MT-3", "CX-2")
def test_offline_partitions_count() -> None:
    with ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [2], 1: [1, 2], 2: [2, 1]})
        harness.broker(2).crash()
        found = gauges(harness.broker(0))
        assert (found["OfflinePartitionsCount"], found["PreferredReplicaImbalanceCount"]) == (1, 2)
        harness.broker(2).start()
        assert gauges(harness.broker(0))["OfflinePartitionsCount"] == 0


@pytest.mark.spec("MT-3")
def test_topics_and_replicas_to_delete_counts() -> None:
    with TermHarness({"orders": ORDERS, "payments": {0: [0, 1]}}) as harness:
        context = harness.term.context
        context.topics_to_be_deleted = {"orders"}
        context.topics_ineligible_for_deletion = {"orders"}
        context.replica_states = {
            BrokerId(0): {
                tp("orders-0"): ReplicaState.DELETION_SUCCESSFUL,
                tp("orders-1"): ReplicaState.DELETION_STARTED,
            },
            BrokerId(1): {tp("orders-0"): ReplicaState.DELETION_INELIGIBLE, tp("payments-0"): ReplicaState.ONLINE},
        }
        found = counted(context)
    assert found._replace(topics=0, partitions=0, active_brokers=0) == Counts(
        topics_to_delete=1, replicas_to_delete=8, topics_ineligible_to_delete=1, replicas_ineligible_to_delete=1
    )


def test_every_count_has_an_mbean() -> None:
    assert tuple(COUNTS) == Counts._fields


@pytest.mark.spec("MT-2")
@pytest.mark.parametrize("allowed", [True, False])
def test_unclean_leader_elections_meter(allowed: bool) -> None:
    settings = ControllerSettings(unclean_leader_election_enabled=lambda: allowed)
    with ControllerHarness(electable=(0,), brokers=(1, 2), settings=settings) as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2]})
        controller = harness.broker(0)
        harness.broker(2).crash()
        harness.broker(1).crash()
        harness.broker(2).start()
        meter = readings(controller)["UncleanLeaderElectionsPerSec"].value
        assert isinstance(meter, Meter)
        assert (meter.count, gauges(controller)["OfflinePartitionsCount"]) == ((1, 0) if allowed else (0, 1))


# ------------------------------------------------------------------ when they are counted


@pytest.mark.spec("EQ-4")
def test_counts_are_cached_until_the_next_event() -> None:
    with TermHarness({"orders": ORDERS}) as harness:
        context = harness.term.context

        async def count() -> list[int]:
            counts = ClusterCounts()
            counts.event_over(context)
            found = [(await counts.counts(context, busy=False)).topics]
            context.all_topics.add("unknown")
            found.append((await counts.counts(context, busy=False)).topics)
            counts.event_over(context)
            found.append((await counts.counts(context, busy=False)).topics)
            return found

        assert harness.run(count()) == [1, 1, 2]


@pytest.mark.spec("EQ-4")
def test_counts_during_an_event_wait_for_its_end() -> None:
    with ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [2], 1: [1]})
        broker = harness.broker(0)
        assert gauges(broker)["OfflinePartitionsCount"] == 0
        harness.broker(2).process.kill()
        harness.zookeeper.expire(harness.broker(2).client.session_id)
        while not broker.controller._event_manager.is_busy:
            harness.settle(0.1)
        asked_ms = harness.loop.time() * 1000
        found = gauges(broker)
        assert (found["OfflinePartitionsCount"], found["ActiveBrokerCount"]) == (1, 2)
        assert 0 < harness.loop.time() * 1000 - asked_ms < 500


@pytest.mark.spec("EQ-4")
def test_counts_do_not_wait_for_a_long_event() -> None:
    with ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [2], 1: [1]})
        broker = harness.broker(0)
        before = gauges(broker)
        harness.zookeeper.hold("broker-0", requests=False)
        harness.broker(2).crash()
        broker.controller.notified(WatchFired("/brokers/ids", WatchKind.CHILDREN))
        harness.settle(1)
        asked_ms = harness.loop.time() * 1000
        during = gauges(broker)
        assert harness.loop.time() * 1000 - asked_ms == pytest.approx(COUNT_WAIT_MS)
        assert during == {**before, "ControllerState": ControllerState.BROKER_CHANGE.value}
        harness.zookeeper.heal("broker-0")
        harness.settle(4_000)
        assert gauges(broker)["OfflinePartitionsCount"] == 1


@pytest.mark.spec("MT-4")
def test_channel_queue_metrics() -> None:
    with ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        harness.start()
        controller, silent = harness.broker(0), harness.broker(2)
        silent.answer = lambda message: None
        harness.create_topic("orders", ORDERS)
        harness.create_topic("payments", ORDERS)
        found = gauges(controller)
        assert found["QueueSize 1"] == 0
        assert found["QueueSize 2"] == found["TotalQueueSize"] > 0
        waited = readings(controller)["RequestRateAndQueueTimeMs 1"].value
        assert isinstance(waited, Timer)
        assert waited.calls.count == len(harness.broker(1).received)
        silent.answer = answer_none
        harness.settle(5_000)
        assert gauges(controller)["TotalQueueSize"] == 0


@pytest.mark.spec("MT-2", "MT-4")
def test_events_update_their_timers() -> None:
    with ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        harness.start()
        harness.create_topic("orders", ORDERS)
        broker = harness.broker(0)
        assert calls(broker, "ControllerChangeRateAndTimeMs") >= 1
        assert calls(broker, "TopicChangeRateAndTimeMs") >= 1
        before = calls(broker, "LeaderElectionRateAndTimeMs")
        harness.broker(2).crash()
        assert calls(broker, "LeaderElectionRateAndTimeMs") == before + 1
        broker.run(broker.controller.elect_leaders(None, ElectionType.PREFERRED))
        assert calls(broker, "ManualLeaderBalanceRateAndTimeMs") >= 1
        assert gauges(broker)["EventQueueSize"] == 0


def test_stats_are_kept_across_terms() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.broker(0).expire()
        assert gauges(harness.broker(1))["ActiveControllerCount"] == 1
        assert gauges(harness.broker(0))["ActiveControllerCount"] == 0
        assert calls(harness.broker(0), "ControllerChangeRateAndTimeMs") >= 3
        assert all(gauges(harness.broker(0))[mbean.name] == 0 for mbean in COUNTS.values())
