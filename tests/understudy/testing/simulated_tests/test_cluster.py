"""The cluster of a test in virtual time has the names of `ClusterUnderTest`, and the same conditions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from understudy.clusters.cluster import ClusterError, WaitTimedOut
from understudy.foundation.eventlog.records import FenceHit
from understudy.testing import controller_change, isr, leader_change, point_reached
from understudy.testing.simulated_tests.arguments import BadArguments, checked_arguments
from understudy.testing.simulated_tests.cluster import SimulatedTestCluster
from understudy.testing.simulated_tests.outcome import Outcome
from understudy.testing.simulated_tests.run import TestRun

Test = Callable[[SimulatedTestCluster], Awaitable[None]]


def run(test: Test, **given: object) -> tuple[TestRun, Outcome]:
    run = TestRun(test, (), {}, checked_arguments({"faults": "none", **given}), 1)
    outcome = run.run()
    if run.error is not None:
        raise run.error
    return run, outcome


def test_a_killed_controller_and_a_killed_leader_are_replaced() -> None:
    async def test(cluster: SimulatedTestCluster) -> None:
        await cluster.create_topic("orders", partitions=1)
        killed = cluster.controller()
        killed.kill()
        controller = await cluster.wait_for(controller_change())
        assert controller != killed
        assert controller.role == "controller"
        await killed.start()
        leader = cluster.leader("orders", 0)
        leader.pause(for_s=9)
        assert (await cluster.wait_for(leader_change("orders", 0))).id != leader.id
        in_sync = await cluster.wait_for(isr("orders", 0, size=3))
        assert sorted(in_sync) == [1, 2, 3]
        cluster.assert_injected("kill", role="controller", broker=killed.id)
        cluster.assert_injected("pause", role="leader")
        with pytest.raises(AssertionError, match="no fault 'stop' was injected; recorded in this test"):
            cluster.assert_injected("stop")
        assert [fault.fault for fault in cluster.faults()] == ["kill", "start", "pause", "resume"]

    assert run(test)[1].has_passed


def test_a_topic_is_created_when_each_live_broker_has_its_leaders() -> None:
    async def test(cluster: SimulatedTestCluster) -> None:
        controller = cluster.controller()
        slow, paused = (broker for broker in cluster.brokers if broker.id != controller.id)
        cluster.simulated.network.delay([controller.name], [slow.name], 2_000)
        paused.pause(for_s=3)
        began_ms = cluster.simulated.now_ms
        await cluster.create_topic("orders", partitions=4, replication_factor=1)
        assert cluster.simulated.now_ms - began_ms > 3_000
        for broker in (slow, paused):
            memory = cluster.simulated.broker(broker.id).memory()
            assert memory is not None
            assert set(memory.metadata.topics["orders"]) == {0, 1, 2, 3}
        cluster.broker(paused.id).kill()
        await cluster.create_topic("bills", replication_factor=1)

    assert run(test)[1].has_passed


def test_a_controller_is_crashed_at_a_named_point() -> None:
    async def test(cluster: SimulatedTestCluster) -> None:
        armed = cluster.crash_at("partition.after_write")
        await cluster.create_topic("orders", partitions=1)
        assert await cluster.wait_for(point_reached("partition.after_write")) == armed
        await cluster.calm()
        assert armed.is_running

    assert run(test)[1].has_passed


def test_an_armed_answer_is_awaited_and_one_that_is_not_given_fails_the_test() -> None:
    async def given(cluster: SimulatedTestCluster) -> None:
        answer = cluster.answer("Metadata", "LEADER_NOT_AVAILABLE", client_id="no-client")
        with pytest.raises(WaitTimedOut, match="Metadata"):
            await cluster.given(answer, timeout_s=2)

    _, outcome = run(given)
    (problem,) = outcome.problems
    assert "what the test has armed has not happened: answer: broker-1, broker-2, broker-3" in problem.text


def test_an_isolated_broker_is_not_reached_by_the_test_until_the_time_is_over() -> None:
    async def test(cluster: SimulatedTestCluster) -> None:
        broker = cluster.broker(2)
        broker.isolate(for_s=7)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.open_connection("broker-2", 9092)
        _, writer = await asyncio.open_connection("broker-2", 9092)
        writer.close()
        await writer.wait_closed()
        with pytest.raises(ClusterError, match="there is no broker 7"):
            cluster.broker(7)

    assert run(test)[1].has_passed


def test_racks_settings_and_switches_reach_the_brokers() -> None:
    async def test(cluster: SimulatedTestCluster) -> None:
        assert [broker.rack for broker in cluster.simulated.brokers] == ["a", "b", "a"]
        # Without the fence an old controller's requests are taken.
        controller = cluster.controller()
        controller.pause(for_s=9)
        await cluster.wait_for(controller_change())
        await cluster.calm()

    fence = "broker.controller-epoch"
    done, _ = run(test, racks=["a", "b"], settings={"num.partitions": 2}, without=[fence])
    assert done.cluster.brokers[0].node.switched_off[0].value == fence
    assert not any(
        isinstance(record.data, FenceHit) and record.data.fence == fence for record in done.cluster.records()
    )
    with pytest.raises(BadArguments, match="without has the unknown fence or fix 'kip-38'; did you mean 'kip-380'"):
        checked_arguments({"without": ["kip-38"]})
    with pytest.raises(BadArguments, match="crash_points is the name of a service"):
        checked_arguments({"crash_points": 5})


def test_calm_starts_what_faults_have_ended() -> None:
    async def main() -> None:
        await asyncio.sleep(1_000)

    async def test(cluster: SimulatedTestCluster) -> None:
        service = cluster.start(main)
        service.kill(for_s=1_000)
        cluster.broker(1).kill()
        await cluster.calm()
        assert service.is_running
        assert cluster.broker(1).is_running
        assert cluster.services == {"main": service}

    assert run(test)[1].has_passed
