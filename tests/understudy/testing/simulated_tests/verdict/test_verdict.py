"""For each way in which a run fails: a program that fails so, and one that nearly does."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from understudy.checks.facts import Partition
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.testing.simulated_tests.arguments import SimulatedArguments
from understudy.testing.simulated_tests.cluster import SimulatedTestCluster
from understudy.testing.simulated_tests.history.wire_records import FinalLog
from understudy.testing.simulated_tests.outcome import FailureKind, Outcome, Problem
from understudy.testing.simulated_tests.run import TestRun
from understudy.testing.simulated_tests.verdict import verdict, watch
from understudy.testing.simulated_tests.verdict.leader_logs import leader_logs
from understudy.testing.simulated_tests.verdict.verdict import violations
from understudy.trials.seeds.judgement import SeedJudgement

Cluster = SimulatedTestCluster
WITHOUT_FAULTS = SimulatedArguments(seconds=1.0)


def outcome_of(test: Callable[..., Any]) -> Outcome:
    return TestRun(test, (), {}, WITHOUT_FAULTS, 1).run()


def problem_of(test: Callable[..., Any], kind: FailureKind) -> Problem:
    """Run a test that fails, and return its first problem."""
    problems = outcome_of(test).problems
    assert [problem.kind for problem in problems] == [kind], problems
    return problems[0]


def assert_passes(test: Callable[..., Any]) -> None:
    assert outcome_of(test).problems == []


async def fails() -> None:
    await asyncio.sleep(0.5)
    raise ValueError("no such order")


# ---------------------------------------------------------------------- the test itself


def test_cancelled_test_is_reported_with_the_line_that_was_cancelled() -> None:
    async def test(cluster: Cluster) -> None:
        waiting = asyncio.create_task(asyncio.sleep(100))
        asyncio.get_running_loop().call_later(1, waiting.cancel)
        await waiting

    problem = problem_of(test, FailureKind.TEST)
    assert problem.text == "the test was cancelled"
    assert problem.details[0].endswith("in test: await waiting")


def test_error_of_a_service_is_reported_that_cannot_end() -> None:
    async def ignores() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(100)

    async def serves() -> None:
        ignoring = asyncio.create_task(ignores())
        await asyncio.sleep(0.1)
        raise ValueError(f"beside {ignoring.get_name()}")

    async def test(cluster: Cluster) -> None:
        cluster.start(serves, name="billing")
        await cluster.wait_until(lambda: False, "the order is billed", 5)

    (problem,) = outcome_of(test).problems
    assert any("the end of billing, which has raised ValueError('beside Task-" in line for line in problem.details)


def test_assertion_of_the_test_is_reported_with_its_line() -> None:
    async def test(cluster: Cluster) -> None:
        await asyncio.sleep(2)
        assert cluster.broker_ids == (), "there are brokers"

    problem = problem_of(test, FailureKind.TEST)
    assert problem.text.startswith("the test has raised AssertionError: there are brokers")
    assert "assert cluster.broker_ids == ()" in problem.details[-1]
    assert "test_verdict.py" in problem.place


def test_wait_that_takes_too_long_lists_what_the_services_wait_for() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    async def test(cluster: Cluster) -> None:
        cluster.start(waits, name="billing")
        await cluster.wait_until(lambda: False, "every order is billed", 1.0)

    problem = problem_of(test, FailureKind.TEST)
    assert "every order is billed" in problem.text
    assert any(line.startswith("billing: ") and "await asyncio.Event().wait()" in line for line in problem.details)


def test_cause_of_an_exception_is_reported_as_well() -> None:
    async def test(cluster: Cluster) -> None:
        try:
            await fails()
        except ValueError as error:
            raise LookupError("no bill") from error

    problem = problem_of(test, FailureKind.TEST)
    assert "LookupError: no bill" in problem.text
    assert "because of ValueError: no such order" in problem.details
    assert any("raise ValueError" in line for line in problem.details)


# ---------------------------------------------------------------------- exceptions of tasks


def test_exception_that_is_never_retrieved_is_reported_with_its_coroutine() -> None:
    async def test(cluster: Cluster) -> None:
        task = asyncio.create_task(fails())
        await asyncio.sleep(1)
        del task

    problem = problem_of(test, FailureKind.EXCEPTION)
    assert problem.text == "an exception of fails in test was never retrieved: ValueError: no such order"
    assert 'in fails: raise ValueError("no such order")' in problem.details[-1]


def test_exception_that_is_retrieved_late_is_no_failure() -> None:
    async def test(cluster: Cluster) -> None:
        task = asyncio.create_task(fails())
        await asyncio.sleep(1)
        assert isinstance(task.exception(), ValueError)

    assert_passes(test)


def test_exceptions_with_one_cause_are_one_problem() -> None:
    async def test(cluster: Cluster) -> None:
        for _ in range(3):
            asyncio.create_task(fails())  # noqa: RUF006  nothing keeps it
        await asyncio.sleep(1)

    assert problem_of(test, FailureKind.EXCEPTION).text.endswith("no such order, the first of 3")


# ---------------------------------------------------------------------- services


def test_service_that_ends_with_an_exception_is_reported() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start(fails, name="billing")
        await asyncio.sleep(1)

    problem = problem_of(test, FailureKind.SERVICE)
    assert problem.text == "the service billing has ended with ValueError: no such order"
    assert 'in fails: raise ValueError("no such order")' in problem.details[-1]


def test_service_whose_exception_the_test_has_awaited_is_no_failure() -> None:
    async def test(cluster: Cluster) -> None:
        with pytest.raises(ValueError, match="no such order"):
            await cluster.start(fails).wait()

    assert_passes(test)


def test_tasks_of_a_service_that_runs_at_the_end_are_no_failure() -> None:
    async def serves() -> None:
        await asyncio.gather(asyncio.sleep(1_000), asyncio.Event().wait())

    async def test(cluster: Cluster) -> None:
        cluster.start(serves)
        await asyncio.sleep(1)

    assert_passes(test)


# ---------------------------------------------------------------------- tasks left over


def test_task_that_outlives_the_test_is_reported_with_the_line_that_waits() -> None:
    async def refreshes() -> None:
        await asyncio.sleep(1_000)

    async def test(cluster: Cluster) -> None:
        asyncio.create_task(refreshes())  # noqa: RUF006  nothing awaits it
        await asyncio.sleep(0)

    problem = problem_of(test, FailureKind.TASKS)
    assert problem.text == "1 task is left over, which the test has not awaited"
    assert problem.details[0].startswith("test_task_that_outlives")
    assert "in refreshes: await asyncio.sleep(1_000)" in problem.details[0]


def test_task_that_ends_a_moment_after_the_test_is_no_failure() -> None:
    async def test(cluster: Cluster) -> None:
        asyncio.create_task(asyncio.sleep(0.5))  # noqa: RUF006  nothing awaits it

    assert_passes(test)


# ---------------------------------------------------------------------- deadlocks, limits and spins


def test_deadlock_lists_each_task_of_each_process() -> None:
    async def bills(orders: asyncio.Queue[int]) -> None:
        while True:
            await orders.get()

    async def test(cluster: Cluster) -> None:
        cluster.start(bills, asyncio.Queue(), name="billing")
        await asyncio.sleep(3)
        await asyncio.Event().wait()

    problem = problem_of(test, FailureKind.DEADLOCK)
    assert str(problem).startswith("at 3.")
    assert problem.text == "nothing can run; waiting are"
    waiting = "\n".join(problem.details)
    assert "test: test_deadlock" in waiting
    assert "await asyncio.Event().wait()" in waiting
    assert "billing: test_deadlock" in waiting
    assert "await orders.get()" in waiting


def test_main_function_that_blocks_is_listed_with_its_line() -> None:
    pytest.importorskip("greenlet")

    def bills() -> None:
        time.sleep(1_000)

    async def test(cluster: Cluster) -> None:
        cluster.start(bills, name="billing")
        await cluster.wait_until(lambda: False, "every order is billed", 1.0)

    problem = problem_of(test, FailureKind.TEST)
    assert any(
        line.startswith("billing: blocks at ") and line.endswith("in bills: time.sleep(1_000)")
        for line in problem.details
    )


def test_generator_that_waits_is_named_by_its_own_line() -> None:
    async def orders() -> Any:
        yield 1
        await asyncio.Event().wait()

    async def test(cluster: Cluster) -> None:
        async for _ in orders():
            pass

    assert "in orders: await asyncio.Event().wait()" in problem_of(test, FailureKind.DEADLOCK).details[0]


def test_test_that_waits_for_a_restart_or_a_call_of_the_admin_client_is_no_deadlock() -> None:
    starts: list[asyncio.Event] = []

    async def serves() -> None:
        if len(starts) > 1:
            starts[0].set()
        await asyncio.Event().wait()

    async def test(cluster: Cluster) -> None:
        starts.append(asyncio.Event())
        service = cluster.start(serves)
        starts.append(asyncio.Event())
        service.restart(after_s=60)
        await starts[0].wait()
        await cluster.create_topic("orders", partitions=3)

    assert_passes(test)


def test_test_that_waits_too_long_lists_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.testing.simulated_tests.run.GRACE_S", 20.0)

    async def polls() -> None:
        while True:
            await asyncio.sleep(1)

    async def in_time(cluster: Cluster) -> None:
        await asyncio.sleep(20)

    problem = problem_of(lambda _: polls(), FailureKind.LIMIT)
    assert str(problem).startswith("at 21.")
    assert "in polls: await asyncio.sleep(1)" in problem.details[0]
    assert_passes(in_time)


def test_service_that_spins_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MOST_CALLBACKS", 5_000)

    async def spins(times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(0)

    async def test(cluster: Cluster) -> None:
        cluster.start(spins, 1_000_000, name="billing")
        await asyncio.sleep(5)

    async def nearly(cluster: Cluster) -> None:
        await cluster.start(spins, 4_000).wait()

    problem = problem_of(test, FailureKind.SPIN)
    assert problem.text.startswith(
        "billing does not wait: more than 5,000 callbacks have run within 0.1 virtual seconds"
    )
    assert "in spins: await asyncio.sleep(0)" in problem.details[0]
    assert_passes(nearly)


# ---------------------------------------------------------------------- the cluster


def test_cluster_that_does_not_settle_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker has just been registered again at the end of the test, and follows: it takes longer than the limit."""

    async def test(cluster: Cluster) -> None:
        await cluster.create_topic("orders", partitions=3)
        cluster.broker(1).kill(for_s=10)
        await asyncio.sleep(10)
        while 1 not in cluster.simulated.znodes.brokers():
            await asyncio.sleep(0.001)

    assert_passes(test)
    monkeypatch.setattr(verdict, "SETTLE_TIMEOUT_S", 0.0)
    problem = problem_of(test, FailureKind.UNSETTLED)
    assert problem.text.startswith("the cluster does not settle: seed 1, not settled within 0 s")


def test_violated_invariant_is_a_problem_of_the_brokers() -> None:
    judgement = SeedJudgement(
        problems=("E1 violated at broker-1/1#17: two controllers",),
        elections=1,
        records=9,
        fence_hits=Counter(),
        times_tested=Counter(),
        log_digest="",
    )
    (problem,) = violations(judgement, 1_500.0)
    assert str(problem) == "at 1.500 s the brokers have failed a check: E1 violated at broker-1/1#17: two controllers"
    assert problem.way == (FailureKind.INVARIANT, "E1")


@pytest.mark.parametrize(("acks", "is_judged"), [("all", True), (1, False)])
def test_acknowledged_record_that_is_in_no_log_is_lost(
    monkeypatch: pytest.MonkeyPatch, acks: Any, is_judged: bool
) -> None:
    """The last record of each log is removed before the logs are read."""

    def without_last_records(cluster: SimulatedCluster) -> dict[Partition, FinalLog]:
        logs = leader_logs(cluster)
        return {each: log._replace(records=log.records[:-1]) for each, log in logs.items()}

    async def test(cluster: Cluster) -> None:
        await cluster.create_topic("orders", partitions=1)
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks=acks) as producer:
            await producer.send_and_wait("orders", b"kept")
            await producer.send_and_wait("orders", b"lost")

    assert_passes(test)
    monkeypatch.setattr(verdict, "leader_logs", without_last_records)
    if is_judged:
        problem = problem_of(test, FailureKind.LOST)
        assert problem.text == "a record is lost, which brokers have acknowledged with acks=all"
        assert "b'lost'" in problem.details[0]
    else:
        assert_passes(test)


def test_log_of_a_leader_is_read_from_its_broker() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create_topic("orders", partitions=2, configs={"cleanup.policy": "compact"})
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
            for number in range(3):
                await producer.send_and_wait("orders", b"%d" % number, key=b"order", partition=1)
        logs = leader_logs(cluster.simulated)
        assert {partition: len(log.records) for partition, log in logs.items()} == {("orders", 0): 0, ("orders", 1): 3}
        assert [record.value for record in logs["orders", 1].records] == [b"0", b"1", b"2"]
        assert all(log.is_compacted and not log.may_have_lost for log in logs.values())

    assert_passes(test)


def test_loss_of_power_excuses_all_partitions_unless_brokers_record_their_logs() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create_topic("orders", partitions=2)
        cluster.broker(1).lose_power(for_s=1)
        await cluster.calm()
        assert all(log.may_have_lost for log in leader_logs(cluster.simulated).values())

    assert_passes(test)


@pytest.mark.parametrize(("acks", "is_noted"), [(1, True), ("all", False)])
def test_a_failure_notes_records_that_a_leader_alone_had_acknowledged(acks: int | str, is_noted: bool) -> None:
    async def test(cluster: SimulatedTestCluster) -> None:
        await cluster.create_topic("orders")
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks=acks, client_id="shop") as producer:
            await producer.send_and_wait("orders", b"first")
            for follower in cluster.isr("orders"):
                if follower != cluster.leader_id("orders"):
                    cluster.broker(follower).isolate(for_s=1)
            sent = asyncio.ensure_future(producer.send_and_wait("orders", b"second"))
            await asyncio.sleep(0.5)
            cluster.leader("orders").kill(for_s=20)
            with contextlib.suppress(KafkaError):
                await sent
        await cluster.calm()
        raise AssertionError("it fails")

    outcome = TestRun(test, (), {}, SimulatedArguments(), 3).run()
    assert any("which the leader alone had acknowledged (acks=1)" in note for note in outcome.notes) == is_noted


def test_a_failure_notes_a_service_that_ends_again_and_again() -> None:
    async def bills() -> None:
        await asyncio.sleep(1)
        raise ValueError("no bill\nat all")

    async def serves() -> None:
        await asyncio.sleep(100)

    async def test(cluster: SimulatedTestCluster) -> None:
        cluster.start(bills, name="billing", restarts=True)
        cluster.start(serves, restarts=True)
        await asyncio.sleep(8)
        raise AssertionError("it fails")

    outcome = TestRun(test, (), {}, SimulatedArguments(), 3).run()
    (problem,) = outcome.problems
    (note,) = outcome.notes
    assert problem.kind is FailureKind.TEST
    assert note.startswith("note: the service billing has ended 4 times, the last time with ValueError: no bill, at ")
    assert note.endswith(' in bills: raise ValueError("no bill\\nat all")')
