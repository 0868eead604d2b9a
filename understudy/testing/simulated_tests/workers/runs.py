"""Runs seeds of a test that this process has, each in a process forked from this one."""

from __future__ import annotations

import importlib
import unittest
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from understudy.testing.simulated_tests.decorator import SimulatedTest
from understudy.testing.simulated_tests.workers.forks import Child, ChildDied, ChildFailed

if TYPE_CHECKING:
    from understudy.testing.simulated_tests.outcome import Outcome
    from understudy.testing.simulated_tests.run import TestRun

_RUN: Final = "understudy.testing.simulated_tests.run"
_WATCHDOG: Final = "understudy.testing.simulated_tests.workers.watchdog"
_DISPLACED: Final = 5_000


@dataclass(frozen=True, slots=True)
class Result:
    """What the run of one seed has shown.

    Attributes:
        outcome: None if the process has ended without one.
        death: how it has ended then.
        skipped: the reason if the test has skipped itself; None otherwise.
    """

    seed: int
    outcome: Outcome | None = None
    death: str = ""
    skipped: str | None = None

    @property
    def has_failed(self) -> bool:
        return self.skipped is None and (self.outcome is None or bool(self.outcome.problems))


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a seed has failed.

    Attributes:
        text: the report, for people.
        report: the report that pytest has made of the failing run, as `pytest_report_to_serializable` returns it; None
            outside of pytest.
    """

    text: str
    report: dict[str, Any] | None = None


class Host(Protocol):
    """What has called the test: pytest, or any other code."""

    def drop_output(self) -> None:
        """In a forked process: let nothing be seen of what it prints."""

    def between_runs(self) -> None:
        """Drop what forked processes have left in files that they share with this one."""

    def last_run(self, test: BoundTest, seed: int, text: str) -> Explanation:
        """Run a seed that has failed once more, in a forked process, and return its exception with its output."""


@dataclass(slots=True)
class BoundTest:
    """A simulated test and the arguments of its call.

    Attributes:
        hint: what a person must do, beside naming the seed, to run it again; empty for nothing.
    """

    test: SimulatedTest
    args: tuple[Any, ...]
    named: dict[str, Any]
    host: Host
    page: str = ""
    hint: str = ""
    _warm: bool = field(default=False, init=False)

    def warm_up(self) -> None:
        """Load what each run needs, before the first fork."""
        importlib.import_module(_RUN)
        importlib.import_module(_WATCHDOG)

    def start(self, seed: int, *, displaced: bool = False) -> Child:
        """Run a seed in a process of its own, whose value is a `Result`.

        Args:
            displaced: whether the objects of the run get other addresses than in another run.
        """

        def compute() -> Result:
            self.host.drop_output()
            kept = [bytearray(size) for size in range(_DISPLACED)] if displaced else []
            result = self.run(seed)[1]
            kept.clear()
            return result

        self.warm_up()
        return Child(compute)

    def run(self, seed: int, *, is_watched: bool = True) -> tuple[TestRun, Result]:
        """Run a seed in this process, which it changes."""
        from understudy.testing.simulated_tests.run import TestRun  # noqa: PLC0415  it loads the simulator
        from understudy.testing.simulated_tests.workers.watchdog import watchdog  # noqa: PLC0415  as above

        function, args = self.test.body(self.args)
        run = TestRun(function, args, self.named, self.test.arguments, seed)
        if is_watched:
            with watchdog(lambda: run.cluster.loop.executed):
                outcome = run.run()
        else:
            outcome = run.run()
        error = run.error
        return run, Result(seed, outcome, skipped=str(error) if is_skip(error) else None)

    def explain(self, seed: int) -> Explanation:
        """Run a seed that has failed again, and say why it fails."""
        __tracebackhide__ = True
        first, second = result_of(self.start(seed), seed), result_of(self.start(seed, displaced=True), seed)
        self.host.between_runs()
        return self.host.last_run(self, seed, self._report(seed, first, second))

    def _report(self, seed: int, first: Result, second: Result) -> str:
        lines = [f"seed {seed}: {'; '.join(map(str, first.outcome.problems)) if first.outcome else first.death}"]
        if first.outcome and second.outcome and first.outcome.digest != second.outcome.digest:
            lines.append("two runs of this seed differ")
        return "\n".join(lines)


def result_of(child: Child, seed: int) -> Result:
    """Wait for the result of a forked run; one that has died is a result also."""
    try:
        result = child.result()
    except ChildDied as error:
        return Result(seed, death=str(error))
    except ChildFailed as error:
        return Result(seed, death=f"the run itself has failed, not the test:\n{error}")
    assert isinstance(result, Result)
    return result


def is_skip(error: BaseException | None) -> bool:
    """Whether an exception skips a test, in unittest or pytest."""
    return isinstance(error, unittest.SkipTest) or any(
        cls.__module__ == "_pytest.outcomes" and cls.__name__ == "Skipped" for cls in type(error).__mro__
    )
