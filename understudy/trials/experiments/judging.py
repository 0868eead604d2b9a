"""Reaches the verdict: compares what a run recorded with what its experiment expects."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from understudy.checks.client_history import ClientHistory, SendOutcome, check_clients
from understudy.checks.groups import check_groups
from understudy.checks.invariant_checker import InvariantChecker
from understudy.clusters.software import software_version
from understudy.foundation.eventlog.records import TaskFailed
from understudy.foundation.times import after
from understudy.history.metrics.metrics import measure
from understudy.history.reading.completeness import Completeness, judge_completeness
from understudy.history.witness import link_to_problem
from understudy.trials.experiments.engine import RunData
from understudy.trials.experiments.language.expectations import ALL_SAFETY, LIVENESS, SAFETY
from understudy.trials.experiments.language.marks import marks_of
from understudy.trials.experiments.report.explain import frozen_yaml
from understudy.trials.experiments.report.timeline import timeline
from understudy.trials.experiments.report.verdict import Clients, Expected, Status, StepDone, Verdict
from understudy.trials.experiments.runner import RunOutcome


def judge(outcome: RunOutcome, command: str) -> Verdict:
    """Judge a finished run.

    Args:
        command: the command line that runs it again.
    """
    data = outcome.data
    assert data is not None, "the runner has finished"
    expectations = outcome.plan.experiment.expect
    every_record = [record for node in sorted(data.records) for record in data.records[node]]
    completeness = judge_completeness(every_record, data.findings, is_running=data.is_running)
    marks = Counter(mark for record in every_record for mark in marks_of(record))
    expected = [*_always(outcome, data, completeness), *_within(outcome, data)]
    for mark in expectations.sometimes:
        seen, sentence = f"reached {marks[mark]} times", "the run reaches this mark"
        found = _expected("sometimes", mark, marks[mark] > 0, sentence, seen, "at least once")
        if completeness.missing and not marks[mark]:
            found = msgspec.structs.replace(found, status=Status.UNJUDGED)
        expected.append(found)
    for mark in expectations.never:
        seen, sentence = f"reached {marks[mark]} times", "the run does not reach this mark"
        expected.append(_expected("never", mark, marks[mark] == 0, sentence, seen, "not once"))
    expected += _of_every_run(outcome, data)
    status, why = _status(outcome, expected, completeness)
    experiment, shown = outcome.plan.experiment, timeline(data.records)
    return Verdict(
        name=experiment.name,
        title=experiment.title,
        question=experiment.question,
        story=experiment.story,
        refs=experiment.refs,
        engine=outcome.engine,
        seed=outcome.plan.seed,
        status=status,
        why=why,
        steps=tuple(_in_run(step, shown.from_ms) for step in outcome.steps),
        expected=tuple(expected),
        failovers=measure("run", every_record).failovers if every_record else (),
        marks={mark: marks[mark] for mark in sorted(marks)},
        clients=_clients(data.load.history),
        last_fault_ms=shown.from_ms + outcome.last_fault_ms,
        reached_ms=dict(outcome.reached_ms),
        timeline=shown,
        notes=data.notes,
        missing=completeness.missing,
        records=len(every_record),
        transactions=len(data.transactions),
        command=command,
        frozen=frozen_yaml(outcome.plan),
        software_version=software_version() or "",
    )


def _in_run(step: StepDone, begun_ms: float) -> StepDone:
    """Return a step whose times count from the load with times from the first record."""
    done_ms, ended_ms = (None if ms is None else begun_ms + ms for ms in (step.done_ms, step.ended_ms))
    return msgspec.structs.replace(step, done_ms=done_ms, ended_ms=ended_ms)


def _status(outcome: RunOutcome, expected: Sequence[Expected], completeness: Completeness) -> tuple[Status, str]:
    """Return the status and the reason.

    A violation of safety always counts, others only if every fault happened. A run without a violation holds only if no
    record is missing.
    """
    if outcome.steady_failures:
        return Status.NOT_STARTED, f"the steady state was not reached: {outcome.steady_failures[0]}"
    violated = [each for each in expected if each.status is Status.VIOLATED]
    unsafe = [each for each in violated if each.kind in ("always", "run", "never")]
    missing = [result for result in outcome.steps if result.failure]
    if missing and not unsafe:
        first = missing[0]
        return Status.NOT_INJECTED, f"step {first.number} (line {first.line}): {first.failure}"
    if outcome.not_injected and not unsafe:
        return Status.NOT_INJECTED, outcome.not_injected[0]
    if violated:
        return Status.VIOLATED, f"{violated[0].name}: {violated[0].seen}"
    if unjudged := [each for each in expected if each.status is Status.UNJUDGED]:
        return Status.UNJUDGED, f"{unjudged[0].name}: {unjudged[0].seen}"
    if completeness.missing:
        return (
            Status.UNJUDGED,
            f"every expectation held in the records that are there; missing: {completeness.missing[0]}",
        )
    return Status.HELD, "every expectation held"


# ------------------------------------------------------------------ expectations


def _always(outcome: RunOutcome, data: RunData, completeness: Completeness) -> Iterator[Expected]:
    ids = (
        tuple(SAFETY) if ALL_SAFETY in outcome.plan.experiment.expect.always else outcome.plan.experiment.expect.always
    )
    missing = completeness.evidence(has_znodes=bool(data.transactions))
    checker = InvariantChecker(missing=missing)
    violations = checker.run(data.records, data.transactions)
    seen = check_clients(data.load.history, missing)
    in_groups = check_groups(data.load.groups, missing)
    violated = {each.check: each for each in (*violations, *seen.violations, *in_groups.violations)}
    unjudged = {each.check: each for each in (*checker.unjudged, *seen.unjudged, *in_groups.unjudged)}
    in_order = sorted(itertools.chain.from_iterable(data.records.values()), key=lambda record: record.mono_ms)
    tested: Mapping[str, int] = {**checker.times_tested, **seen.times_tested, **in_groups.times_tested}
    for name in ids:
        status, witness, found = Status.UNTESTED, f"tested {tested[name]:,} times", violated.get(name)
        if found is not None:
            status, witness = Status.VIOLATED, found.witness
        elif name in unjudged:
            found, why = unjudged[name]
            status, witness = Status.UNJUDGED, f"{why}: {found.witness}"
        elif tested[name]:
            status = Status.HELD
        yield Expected(
            kind="always",
            name=name,
            status=status,
            sentence=SAFETY[name],
            expected="always",
            seen=witness,
            where=found.where if found else "",
            link=link_to_problem(str(found), in_order) if found else "",
            times_tested=tested[name],
        )


def _within(outcome: RunOutcome, data: RunData) -> Iterator[Expected]:
    reached = {**outcome.reached_ms, "L5": outcome.rate_reached_ms(data.load.acknowledged_ms)}
    outcome.reached_ms = reached
    for name, bound in outcome.plan.experiment.expect.within.items():
        after_ms = reached.get(name)
        is_held = after_ms is not None and after_ms <= bound.ms
        seen = f"reached {after(after_ms)}" if after_ms is not None else "not reached"
        if not is_held and outcome.left.get(name):
            seen += f"; the last finding: {outcome.left[name]}"
        yield _expected("within", name, is_held, LIVENESS[name].meaning, seen, f"within {bound} after the last fault")


def _of_every_run(outcome: RunOutcome, data: RunData) -> Iterator[Expected]:
    """Yield what must hold of every run: no task or broker fails, and the cluster settles after the last fault."""
    failures = list(data.failures)
    for node in sorted(data.records.keys() - data.may_fail):
        failures += [
            f"{node}: the task {record.data.task} failed: {record.data.error}"
            for record in data.records[node]
            if isinstance(record.data, TaskFailed)
        ]
    no_failure = "no task of a broker fails, and no broker ends by itself"
    yield _expected("run", "no-failure", not failures, no_failure, failures[0] if failures else "none")
    settles = "the cluster settles once every fault has ended"
    yield _expected("run", "settles", not outcome.unsettled, settles, outcome.unsettled or "it has settled")


def _expected(kind: str, name: str, is_held: bool, sentence: str, seen: str, expected: str = "") -> Expected:
    """Return an expectation that every run tests once; the arguments are attributes of `Expected`."""
    return Expected(
        kind=kind,
        name=name,
        status=Status.HELD if is_held else Status.VIOLATED,
        sentence=sentence,
        expected=expected,
        seen=seen,
        times_tested=1,
    )


# ------------------------------------------------------------------ numbers


def _clients(history: ClientHistory) -> Clients:
    ends = Counter(send.outcome for send in history.sends)
    return Clients(
        sent=len(history.sends),
        acknowledged=ends[SendOutcome.OK],
        refused=ends[SendOutcome.FAIL],
        unknown=ends[SendOutcome.INFO],
        read=sum(len(poll.records) for poll in history.polls),
        lost=dict(Counter(send.producer.name for send in history.lost())),
    )
