"""`ClusterUnderTest` without pytest's fixture: roles, faults, conditions, and the messages of waits that time out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.clusters.cluster import ClusterError, Unsupported, WaitTimedOut
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.testing.run_faults import TEST_BEGUN
from understudy.foundation.cluster.errors import ApiError
from understudy.foundation.eventlog.records import StepReached
from understudy.history.reading.reader import read
from understudy.testing import ClusterUnderTest, controller_change, isr, leader_change, point_reached

pytestmark = pytest.mark.xdist_group("cluster_under_test")


@pytest.fixture(scope="module")
def shared(zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterUnderTest]:
    with ClusterUnderTest(
        3, topics={"orders": 2}, zookeeper=zookeeper, directory=tmp_path_factory.mktemp("run")
    ) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: ClusterUnderTest) -> ClusterUnderTest:
    shared.begin_test()
    return shared


def test_a_test_begins_without_the_faults_of_the_one_before(cluster: ClusterUnderTest) -> None:
    paused, killed = cluster.follower("orders"), cluster.leader("orders")
    cluster.broker(paused.id).arm("partition.after_write", "crash")
    paused.pause()
    killed.kill()
    cluster.begin_test("the next")
    assert [broker.is_running and not broker.is_paused for broker in cluster.brokers] == [True] * 3
    assert cluster.broker(paused.id).process.armed() == {}
    assert cluster.faults() == ()
    assert cluster.wait_for(isr("orders", 0, size=3))
    steps = [record.data for record in read([cluster.directory]).records if isinstance(record.data, StepReached)]
    assert StepReached(step=TEST_BEGUN, note="the next") in steps


def test_an_answer_that_was_never_given_fails_the_test(cluster: ClusterUnderTest) -> None:
    answer = cluster.controller.answer("CreateTopics", "POLICY_VIOLATION")
    cluster.answer("CreateTopics", "NOT_CONTROLLER", client_id="none")
    with pytest.raises(AssertionError) as failed:
        cluster.assert_answers_given()
    assert str(failed.value).count("received no request for") == 2
    with pytest.raises(ApiError, match="POLICY_VIOLATION"):
        cluster.create_topic("refused")
    answer.wait()
    cluster.assert_injected("answer", broker=cluster.controller.id)
    assert str(cluster.faults()[-1]) == f"answer {cluster.controller.name}: CreateTopics with POLICY_VIOLATION"
    with pytest.raises(AssertionError, match="broker-1, broker-2, broker-3 received no request for"):
        cluster.assert_answers_given()
    cluster.begin_test("the next")
    cluster.assert_answers_given()
    assert not cluster.controller.process.answers.exists()


def test_a_controller_change_is_found_after_the_fault_and_after_it_has_happened(cluster: ClusterUnderTest) -> None:
    killed = cluster.controller
    killed.kill()
    successor = cluster.wait_for(controller_change())
    assert successor.id != killed.id
    assert cluster.wait_for(controller_change(), timeout_s=1).id == successor.id
    cluster.assert_injected("kill", role="controller", broker=killed.id)
    successor.depose()
    again = cluster.wait_for(controller_change())
    assert again.id == cluster.controller.id
    cluster.assert_injected("depose", role="controller", broker=successor.id)


def test_a_leader_change_and_the_isr_are_found(cluster: ClusterUnderTest) -> None:
    leader, follower = cluster.leader("orders", 1), cluster.follower("orders", 1)
    assert leader.id != follower.id
    leader.kill()
    assert cluster.wait_for(leader_change("orders", 1)).id != leader.id
    assert leader.id not in cluster.wait_for(isr("orders", 1, size=2))
    leader.start()
    cluster.settle()
    assert len(cluster.wait_for(isr("orders", 1, size=3))) == 3
    cluster.assert_injected("kill", role="leader of orders-1")
    cluster.assert_injected("start", broker=leader.id)


def test_an_assertion_about_a_fault_that_was_not_injected_fails(cluster: ClusterUnderTest) -> None:
    with pytest.raises(AssertionError, match="no fault 'kill', role='controller' was injected; none is recorded"):
        cluster.assert_injected("kill", role="controller")
    cluster.broker(2).pause()
    cluster.broker(2).resume()
    with pytest.raises(
        AssertionError, match=r"(?s)no fault 'kill' was injected; recorded in this test:.*pause broker-2"
    ):
        cluster.assert_injected("kill")


def test_a_wait_that_times_out_names_the_condition_and_the_state(cluster: ClusterUnderTest) -> None:
    cluster.broker(3).pause()
    with pytest.raises(WaitTimedOut) as timed_out:
        cluster.wait_for(isr("orders", 0, size=9), timeout_s=0.1)
    message = str(timed_out.value)
    assert message.startswith("not within 0.1 s: the ISR of orders-0 has size 9; the cluster:\n  controller: ")
    assert "broker-3: paused" in message
    assert "orders-0: leader " in message
    assert "s: pause broker-3" in message
    assert str(cluster.directory) in message


def test_the_controller_crashes_at_a_named_point(cluster: ClusterUnderTest) -> None:
    armed = cluster.crash_at("partition.after_write")
    assert armed.role == "controller"
    # The successor may refuse the repeated request: the topic exists, or too few brokers are left.
    with contextlib.suppress(ApiError):
        cluster.create_topic("crashes-a-controller", 1)
    assert cluster.wait_for(point_reached("partition.after_write")).id == armed.id
    assert cluster.wait_for(controller_change()).id != armed.id
    cluster.assert_injected("crash", role="controller", point="partition.after_write")


def test_what_cannot_be_done_is_refused(cluster: ClusterUnderTest) -> None:
    with pytest.raises(ClusterError, match="there is no point 'nowhere'"):
        cluster.crash_at("nowhere")
    with pytest.raises(ClusterError, match="there is no broker 9"):
        cluster.broker(9)
    with pytest.raises(ClusterError, match="no broker is leader of nothing-0"):
        cluster.leader("nothing")
    with pytest.raises(ClusterError, match="the ISR of nothing-0 has no follower"):
        cluster.follower("nothing")
    with pytest.raises(Unsupported):
        cluster.broker(1).isolate()


def test_an_isolated_broker_loses_its_leaderships_until_it_is_healed(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    with ClusterUnderTest(3, topics={"orders": 1}, proxied=True, zookeeper=zookeeper, directory=tmp_path) as cluster:
        isolated = cluster.leader("orders")
        isolated.isolate()
        assert cluster.wait_for(leader_change("orders")).id != isolated.id
        assert cluster.wait_for(isr("orders", 0, size=2))
        cluster.assert_injected("isolate", role="leader of orders-0", broker=isolated.id)
        isolated.heal()
        assert isolated.id in cluster.wait_for(isr("orders", 0, size=3))
        cluster.assert_injected("heal", broker=isolated.id)
        cluster.broker(2).isolate()
        cluster.begin_test("the next")
        assert cluster.wait_for(isr("orders", 0, size=3))
        assert cluster.faults() == ()


def test_a_topic_can_be_created_inside_an_event_loop(cluster: ClusterUnderTest) -> None:
    async def create() -> None:
        cluster.create_topic("from-a-loop", 2)

    asyncio.run(create())
    assert cluster.leader("from-a-loop", 1).is_running
