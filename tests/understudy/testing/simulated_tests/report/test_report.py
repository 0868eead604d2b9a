"""The report of a seed that has failed: shrunk faults, story, and the text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from understudy.clusters.values import Span, Target
from understudy.clusters.virtual.world import LogLine
from understudy.testing.simulated_tests.arguments import SimulatedArguments
from understudy.testing.simulated_tests.cluster import SimulatedTestCluster
from understudy.testing.simulated_tests.faults.faults import Fault
from understudy.testing.simulated_tests.history.wire_history import WireHistory
from understudy.testing.simulated_tests.outcome import FailureKind, Outcome, Problem
from understudy.testing.simulated_tests.report.report import explained
from understudy.testing.simulated_tests.report.shrink import shrink
from understudy.testing.simulated_tests.report.story import Story, StoryLine, story_of
from understudy.testing.simulated_tests.run import TestRun
from understudy.testing.simulated_tests.workers.forks import Child
from understudy.trials.experiments.language.actions import Action

Cluster = SimulatedTestCluster
ARGUMENTS = SimulatedArguments(seconds=10.0)
SEED = 3
REPLAY = "pytest test_orders.py::test --understudy-seed 3"


def fault(at_ms: int, name: str, role: str) -> Fault:
    return Fault(at_ms=at_ms, action=Action(name=name, brokers=(Target(role),), lasts=Span(300, 300)))


SCHEDULE = (
    fault(500, "expire", "random"),
    fault(1_000, "depose", "controller"),
    fault(1_500, "pause", "service"),
    fault(3_000, "kill", "service"),
    fault(5_000, "expire", "controller"),
    fault(6_000, "pause", "leader"),
    fault(30_000, "kill", "leader"),
)
"""The last one comes after the end of the test."""


async def serves() -> None:
    await asyncio.sleep(1_000)


async def service_is_not_killed(cluster: Cluster) -> None:
    """Fail if the service was killed."""
    service = cluster.start(serves, name="billing")
    await asyncio.sleep(8)
    assert service.incarnation == 1, "billing was killed"


def runs_of(test: Callable[..., Any], taken: list[Sequence[Fault]] | None = None) -> Callable[..., Outcome]:
    """Return a function that runs a test with some faults, and adds these to `taken`."""

    def run(faults: Sequence[Fault], *, is_last: bool = False) -> Outcome:
        if taken is not None:
            taken.append(faults)
        return TestRun(test, (), {}, ARGUMENTS, SEED, faults=faults, with_story=is_last).run()

    return run


# ---------------------------------------------------------------------- shrinking


def test_shrinking_leaves_exactly_the_fault_that_matters() -> None:
    run = runs_of(service_is_not_killed)
    shrunk = shrink(SCHEDULE, run(SCHEDULE), run)
    assert shrunk.faults == (SCHEDULE[3],)
    assert shrunk.of == len(SCHEDULE) - 1
    assert shrunk.is_minimal


def test_failure_without_any_fault_is_shrunk_to_none() -> None:
    async def test(cluster: Cluster) -> None:
        await asyncio.sleep(8)
        raise ValueError("always")

    taken: list[Sequence[Fault]] = []
    run = runs_of(test, taken)
    assert shrink(SCHEDULE, run(SCHEDULE), run).faults == ()
    assert len(taken) == 3, "the whole, what was injected, and nothing"


def test_other_failure_does_not_count_as_the_same() -> None:
    """Without the kill the test fails in another line."""

    async def test(cluster: Cluster) -> None:
        service = cluster.start(serves, name="billing")
        await asyncio.sleep(8)
        if service.incarnation > 1:
            raise ValueError("killed")
        raise LookupError("not killed")

    run = runs_of(test)
    assert shrink(SCHEDULE, run(SCHEDULE), run).faults == (SCHEDULE[3],)


@pytest.mark.parametrize(("runs", "seconds"), [(1, 100.0), (100, 0.0)])
def test_search_ends_at_its_limit(runs: int, seconds: float) -> None:
    run = runs_of(service_is_not_killed)
    shrunk = shrink(SCHEDULE, run(SCHEDULE), run, runs=runs, seconds=seconds)
    assert not shrunk.is_minimal
    assert shrunk.runs <= 1
    assert SCHEDULE[3] in shrunk.faults


def test_run_whose_process_dies_does_not_count_as_the_same_failure() -> None:
    outcome = Outcome(SEED, [Problem(FailureKind.TEST, 0.0, "")], injected=(0, 1))
    assert shrink(SCHEDULE[:2], outcome, lambda *_, **__: None).faults == SCHEDULE[:2]


# ---------------------------------------------------------------------- the report


def test_report_tells_the_failure_the_command_the_fault_and_the_story() -> None:
    run = runs_of(service_is_not_killed)
    lines = explained(run(SCHEDULE), SCHEDULE, run, replay=REPLAY).splitlines()
    assert lines[0].startswith("seed 3 fails: at 8.")
    assert "the test has raised AssertionError: billing was killed" in lines[0]
    assert any('assert service.incarnation == 1, "billing was killed"' in line for line in lines[1:4])
    place = lines.index(f"replay it:  {REPLAY}")
    assert lines[place + 1] == "see it:     UNDERSTUDY_PAGE=DIR leaves a page of the run in DIR"
    (faults,) = (line for line in lines if line.startswith("faults: 1 of 6 are enough"))
    (words,) = lines[lines.index(faults) + 1 : lines.index("", lines.index(faults))]
    assert "kill service (SIGKILL) for 300ms: billing" in words
    at = words.split()[0]
    story = lines[next(place for place, line in enumerate(lines) if line.startswith("what happened")) :]
    assert any(line.split() == [at, "s", "fault", "kill", "billing"] for line in story)
    assert story[-1].split()[2] == "FAILURE"
    assert len(lines) <= 60


def test_report_names_the_faults_that_had_no_effect() -> None:
    async def test(cluster: Cluster) -> None:
        await asyncio.sleep(8)
        raise ValueError("always")

    run = runs_of(test)
    lines = explained(run(SCHEDULE), SCHEDULE, run, replay=REPLAY).splitlines()
    (headline,) = (line for line in lines if line.endswith("had no effect in the first run:"))
    assert headline.startswith("2 faults ")
    place = lines.index(headline)
    assert [line.split("  ", 2)[-1].strip() for line in lines[place + 1 : place + 3]] == [
        "pause service (SIGSTOP) for 300ms: no service was started",
        "kill service (SIGKILL) for 300ms: no service was started",
    ]
    assert lines[place + 3] == ""


def test_report_of_a_failure_without_faults_says_so() -> None:
    async def test(cluster: Cluster) -> None:
        raise ValueError("always")

    run = runs_of(test)
    assert "no fault was injected" in explained(run(()), (), run, replay=REPLAY).splitlines()


def test_run_that_passes_when_it_is_run_again_is_reported_so() -> None:
    outcome = runs_of(service_is_not_killed)(SCHEDULE)
    text = explained(outcome, SCHEDULE, lambda *_, **__: Outcome(SEED), replay=REPLAY)
    assert text.splitlines()[-1] == "when it was run again with these faults, it has passed"


def test_further_problems_are_named_in_a_line_each() -> None:
    async def fails() -> None:
        raise LookupError("no bill")

    async def test(cluster: Cluster) -> None:
        cluster.start(fails, name="billing")
        await asyncio.sleep(1)
        raise ValueError("first")

    run = runs_of(test)
    text = explained(run(()), (), run, replay=REPLAY)
    assert "the test has raised ValueError: first" in text.splitlines()[0]
    assert any(
        line.startswith("also at ") and line.endswith("the service billing has ended with LookupError: no bill")
        for line in text.splitlines()
    )


# ---------------------------------------------------------------------- the story


def test_story_has_brokers_and_clients_in_one_order() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create_topic("orders", partitions=1)
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            await producer.send_and_wait("orders", b"1")
            cluster.leader("orders").answer("Produce", "NOT_LEADER_OR_FOLLOWER")
            await producer.send_and_wait("orders", b"2")
        raise ValueError("the end")

    story = runs_of(test)((), is_last=True).story
    times = [float(line.split()[0]) for line in story]
    assert times == sorted(times)
    sentences = "\n".join(story)
    assert "sends a record to orders-0 at broker-" in sentences
    assert "attempt 1: NOT_LEADER_OR_FOLLOWER" in sentences
    assert "WARNING aiokafka.producer.sender: Got error produce response" in sentences
    assert "attempt 2: done" in sentences
    assert "wins the election" in sentences


def test_lines_that_differ_in_numbers_alone_are_told_once() -> None:
    logged = [LogLine(float(at), "billing", "ERROR", "client", f"attempt {at} has failed") for at in (0, 100, 250)]
    later = LogLine(60_000.0, "billing", "ERROR", "client", "attempt 9 has failed")
    (first, last) = story_of((), [*logged, later], WireHistory(), ()).lines
    assert str(first).endswith("ERROR client: attempt 0 has failed (and 2 more like it until 0.250 s)")
    assert str(last).endswith("attempt 9 has failed")


def test_cut_keeps_the_marks_and_what_is_near_to_them() -> None:
    marks = [StoryLine(10_000.0, "fault", "kill broker-1", 4), StoryLine(60_000.0, "FAILURE", "lost", 4)]
    others = [StoryLine(at * 1_000.0, "broker-2", f"does {at}", 2) for at in range(60)]
    story = Story(tuple(sorted([*marks, *others], key=lambda line: line.at_ms)))
    shown, left_out = story.cut(6)
    assert left_out == len(story.lines) - 6
    assert [line.split("s  ", 1)[1].split(None, 1)[1] for line in shown] == [
        "does 9", "kill broker-1", "does 10", "does 11", "does 59", "lost"
    ]  # fmt: skip


# ---------------------------------------------------------------------- the trace


def test_two_runs_of_a_seed_have_the_same_trace_and_digest() -> None:
    async def bills(bootstrap: str) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait("orders", b"1")

    async def test(cluster: Cluster) -> None:
        await cluster.create_topic("orders", partitions=1)
        await cluster.start(bills, cluster.bootstrap, name="billing").wait()

    def run() -> Outcome:
        outcome = Child(lambda: TestRun(test, (), {}, ARGUMENTS, SEED, with_trace=True).run()).result()
        assert isinstance(outcome, Outcome)
        return outcome

    first, second = run(), run()
    assert first.has_passed
    assert (first.trace, first.digest) == (second.trace, second.digest)
    assert any(" billing AIOKafkaClient" in line and "aiokafka/client.py:" in line for line in first.trace)
