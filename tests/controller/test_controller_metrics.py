"""The controller's numbers: what each event is called, what is timed, what is counted and when."""

from __future__ import annotations

from typing import get_args

import pytest

from controller.controller_metrics import COUNT_WAIT_MS, COUNTS, MBEANS, TIMERS, ClusterCounts, Counts, counted
from controller.controller_state import STATE_BY_EVENT, ControllerState
from controller.event_manager import EVENT_QUEUE_TIME_TIMEOUT_MS
from controller.events import (
    AlterPartitionReceived,
    BrokerChange,
    ControllerEvent,
    ElectionType,
    Expire,
    Startup,
    TopicChange,
)
from controller.settings import ControllerSettings
from controller.transitions import ReplicaState
from foundation.cluster.identifiers import BrokerId
from foundation.metrics.instruments import Meter, Timer
from foundation.metrics.mbeans import Kind, Reading
from foundation.zk.client import WatchFired, WatchKind
from tests.controller.harness import ControllerHarness, HarnessBroker, TermHarness, answer_none
from tests.controller.test_event_manager import Desk, play
from tests.controller.values import tp

ORDERS = {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1]}


def readings(member: HarnessBroker) -> dict[str, Reading]:
    """By name, and tag where there is one."""
    found = member.run(member.controller.metrics())
    return {reading.mbean.name + (f" {reading.tag}" if reading.tag else ""): reading for reading in found}


def gauges(member: HarnessBroker) -> dict[str, float]:
    return {name: value for name, (_, value, _) in readings(member).items() if isinstance(value, int | float)}


def calls(member: HarnessBroker, timer: str) -> int:
    value = readings(member)[timer].value
    assert isinstance(value, Timer)
    return value.calls.count


# ------------------------------------------------------------------ states and timers


@pytest.mark.spec("MT-1")
def test_every_event_has_a_state_and_states_have_kafkas_numbers() -> None:
    assert set(STATE_BY_EVENT) == set(get_args(ControllerEvent))
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
    assert STATE_BY_EVENT[Startup] is STATE_BY_EVENT[Expire] is ControllerState.CONTROLLER_CHANGE
    assert STATE_BY_EVENT[AlterPartitionReceived] is ControllerState.ISR_CHANGE


@pytest.mark.spec("MT-2")
def test_states_have_a_timer_of_their_name_but_for_two_older_names_and_two_without() -> None:
    assert {state: mbean.name for state, mbean in TIMERS.items()} == {
        state: {
            ControllerState.BROKER_CHANGE: "LeaderElectionRateAndTimeMs",
            ControllerState.ALTER_PARTITION_REASSIGNMENT: "PartitionReassignmentRateAndTimeMs",
        }.get(state, f"{state.label}RateAndTimeMs")
        for state in ControllerState
        if state not in (ControllerState.IDLE, ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED)
    }
    assert {mbean.kind for mbean in TIMERS.values()} == {Kind.TIMER}


@pytest.mark.spec("EQ-4")
def test_an_event_is_its_state_and_is_timed_while_it_lasts() -> None:
    async def harness() -> None:
        desk = Desk()
        timers = {ControllerState.BROKER_CHANGE: Timer(desk.log.clock)}
        desk.manager._timers = timers
        seen = []

        async def look() -> None:
            seen.append((desk.manager.state, desk.manager.is_busy))
            desk.log.clock.now_ms += 25

        desk.doing[BrokerChange] = look
        desk.doing[TopicChange] = look
        desk.manager.put(BrokerChange())
        desk.manager.put(TopicChange())
        desk.log.clock.now_ms += 40
        desk.manager.start()
        await desk.manager._queue[-1].over()
        assert seen == [(ControllerState.BROKER_CHANGE, True), (ControllerState.TOPIC_CHANGE, True)]
        assert (desk.manager.state, desk.manager.is_busy) == (ControllerState.IDLE, False)
        assert timers[ControllerState.BROKER_CHANGE].durations.distribution()[:4] == (1, 25.0, 25.0, 25.0)
        assert desk.manager.queue_time.distribution()[:4] == (2, 40.0, 65.0, 52.5)
        await desk.manager.close(timeout_ms=1_000)

    play(harness())


@pytest.mark.spec("EQ-5")
def test_how_long_events_have_waited_is_forgotten_after_five_idle_minutes_and_not_before() -> None:
    async def harness() -> None:
        desk = Desk()
        desk.manager.start()
        desk.manager.put(BrokerChange())
        await desk.manager._queue[0].over()
        desk.log.clock.now_ms += EVENT_QUEUE_TIME_TIMEOUT_MS - 1
        assert desk.manager.queue_time.count == 1
        desk.log.clock.now_ms += 1
        assert desk.manager.queue_time.count == 0
        # Whether or not anybody looked in between.
        for _ in range(2):
            desk.log.clock.now_ms += EVENT_QUEUE_TIME_TIMEOUT_MS
            desk.manager.put(TopicChange())
            await desk.manager._queue[0].over()
        assert desk.manager.queue_time.count == 1
        await desk.manager.close(timeout_ms=1_000)

    play(harness())


# ------------------------------------------------------------------ counts


@pytest.mark.spec("MT-3")
def test_the_controller_counts_the_cluster_and_the_others_count_nothing() -> None:
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
def test_partitions_without_a_leader_are_offline() -> None:
    with ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [2], 1: [1, 2], 2: [2, 1]})
        harness.broker(2).crash()
        found = gauges(harness.broker(0))
        assert (found["OfflinePartitionsCount"], found["PreferredReplicaImbalanceCount"]) == (1, 2)
        harness.broker(2).start()
        assert gauges(harness.broker(0))["OfflinePartitionsCount"] == 0


@pytest.mark.spec("MT-3")
def test_topics_on_their_way_out_are_counted_with_their_replicas() -> None:
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


def test_every_count_has_a_name() -> None:
    assert tuple(COUNTS) == Counts._fields


@pytest.mark.spec("MT-2")
@pytest.mark.parametrize("allowed", [True, False])
def test_only_an_election_from_outside_the_isr_is_unclean(allowed: bool) -> None:
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
def test_at_rest_the_cluster_is_counted_once_for_all_who_ask_until_the_next_event() -> None:
    with TermHarness({"orders": ORDERS}) as harness:
        context = harness.term.context

        async def count() -> list[int]:
            counts = ClusterCounts()
            counts.event_over(context)
            found = [(await counts.counts(context, busy=False)).topics]
            context.all_topics.add("unheard-of")
            found.append((await counts.counts(context, busy=False)).topics)
            counts.event_over(context)
            found.append((await counts.counts(context, busy=False)).topics)
            return found

        assert harness.run(count()) == [1, 1, 2]


@pytest.mark.spec("EQ-4")
def test_who_asks_in_the_middle_of_an_event_hears_what_is_true_after_it() -> None:
    with ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [2], 1: [1]})
        member = harness.broker(0)
        assert gauges(member)["OfflinePartitionsCount"] == 0
        harness.broker(2).process.kill()
        harness.zookeeper.expire(harness.broker(2).client.session_id)
        while not member.controller._event_manager.is_busy:
            harness.settle(0.1)
        asked_ms = harness.loop.time() * 1000
        found = gauges(member)
        assert (found["OfflinePartitionsCount"], found["ActiveBrokerCount"]) == (1, 2)
        assert 0 < harness.loop.time() * 1000 - asked_ms < 500


@pytest.mark.spec("EQ-4")
def test_the_end_of_a_long_event_is_not_waited_for() -> None:
    with ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [2], 1: [1]})
        member = harness.broker(0)
        before = gauges(member)
        harness.zookeeper.hold("broker-0", requests=False)
        harness.broker(2).crash()
        member.controller.notified(WatchFired("/brokers/ids", WatchKind.CHILDREN))
        harness.settle(1)
        asked_ms = harness.loop.time() * 1000
        during = gauges(member)
        assert harness.loop.time() * 1000 - asked_ms == pytest.approx(COUNT_WAIT_MS)
        assert during == {**before, "ControllerState": ControllerState.BROKER_CHANGE.value}
        harness.zookeeper.heal("broker-0")
        harness.settle(4_000)
        assert gauges(member)["OfflinePartitionsCount"] == 1


@pytest.mark.spec("MT-4")
def test_channels_tell_what_waits_for_each_broker() -> None:
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
def test_what_happens_is_timed_under_its_name() -> None:
    with ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        harness.start()
        harness.create_topic("orders", ORDERS)
        member = harness.broker(0)
        assert calls(member, "ControllerChangeRateAndTimeMs") >= 1
        assert calls(member, "TopicChangeRateAndTimeMs") >= 1
        before = calls(member, "LeaderElectionRateAndTimeMs")
        harness.broker(2).crash()
        assert calls(member, "LeaderElectionRateAndTimeMs") == before + 1
        member.run(member.controller.elect_leaders(None, ElectionType.PREFERRED))
        assert calls(member, "ManualLeaderBalanceRateAndTimeMs") >= 1
        assert gauges(member)["EventQueueSize"] == 0


def test_numbers_are_kept_whoever_is_controller() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.broker(0).expire()
        assert gauges(harness.broker(1))["ActiveControllerCount"] == 1
        assert gauges(harness.broker(0))["ActiveControllerCount"] == 0
        assert calls(harness.broker(0), "ControllerChangeRateAndTimeMs") >= 3
        assert all(gauges(harness.broker(0))[mbean.name] == 0 for mbean in COUNTS.values())
