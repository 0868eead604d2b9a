"""Runs seeds of a test that this process has, each in a process forked from this one."""

from __future__ import annotations

import hashlib
import importlib
import re
import shutil
import sys
import unittest
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from understudy.testing.simulated_tests.decorator import BadSimulatedTest, SimulatedTest
from understudy.testing.simulated_tests.workers.difference import first_difference
from understudy.testing.simulated_tests.workers.forks import Child, ChildDied, ChildFailed

if TYPE_CHECKING:
    from understudy.testing.simulated_tests.outcome import Outcome
    from understudy.testing.simulated_tests.run import TestRun
    from understudy.testing.simulated_tests.workers.loaded import Loaded

_RUN: Final = "understudy.testing.simulated_tests.run"
_WATCHDOG: Final = "understudy.testing.simulated_tests.workers.watchdog"
_DISPLACED: Final = 5_000
_MOST_OF_NAME: Final = 100
"""Number of characters of a test's name, and of its parameters, in the name of a folder."""
_OTHER_LOOP: Final = "attached to a different loop"
_OTHER_LOOP_HINT: Final = (
    "it belongs to the event loop of a fixture or of a module, which does not run in virtual time: create the client "
    "in the test, or in a service that cluster.start starts"
)


@dataclass(frozen=True, slots=True)
class Result:
    """What the run of one seed has shown.

    Attributes:
        outcome: None if the process has ended without one.
        death: how it has ended then.
        skipped: the reason if the test has skipped itself; None otherwise.
        never_awaits: whether one callback has taken all the processor time that it may: it takes long to run it again.
        loaded: what the run has loaded that its worker had not; None if it was not noted.
    """

    seed: int
    outcome: Outcome | None = None
    death: str = ""
    skipped: str | None = None
    never_awaits: bool = False
    loaded: Loaded | None = None

    @property
    def has_failed(self) -> bool:
        return self.skipped is None and (self.outcome is None or bool(self.outcome.problems))

    @property
    def why(self) -> str:
        """The most important reason of a failure."""
        return self.death if self.outcome is None else str(self.outcome.problems[0])


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

    def replay(self, seed: int) -> str:
        """Return the command that runs a seed again."""

    def last_run(self, test: BoundTest, seed: int, text: str) -> Explanation:
        """Run a seed that has failed once more, in a forked process, and return its exception with its output."""


@dataclass(slots=True)
class BoundTest:
    """A simulated test and the arguments of its call.

    Attributes:
        parameters: which parameters the call has, if the test is called with several; empty if not.
        page: the folder in which a run that has failed leaves its event logs and its page; empty for none.
        hint: what a person must do, beside naming the seed, to run it again; empty for nothing.
        is_live: whether the first run of a seed has the terminal, for `breakpoint()`.
    """

    test: SimulatedTest
    args: tuple[Any, ...]
    named: dict[str, Any]
    host: Host
    parameters: str = ""
    page: str = ""
    hint: str = ""
    is_live: bool = False
    places: tuple[tuple[int, str], ...] | None = field(default=None, init=False)
    """The places at which `crash_points` kills a service; None before they are counted."""

    def warm_up(self) -> None:
        """Load what each run needs, before the first fork."""
        importlib.import_module(_RUN)
        importlib.import_module(_WATCHDOG)

    def load_as(self, run: Result) -> None:
        """Load what a run has loaded, so that the processes of further seeds have it."""
        if run.loaded is not None:
            from understudy.testing.simulated_tests.workers.loaded import load  # noqa: PLC0415  it loads the codecs

            load(run.loaded)

    def start_first(self, seed: int) -> Child:
        """Run a seed as `start` does, for the first time: `breakpoint()` stops if it has the terminal."""
        if self.is_live and not self.test.arguments.crash_points:
            self.warm_up()
            return Child(lambda: self.run(seed)[1])
        return self.start(seed)

    def start(self, seed: int, *, displaced: bool = False, **options: Any) -> Child:
        """Run a seed in a process of its own, whose value is a `Result`.

        Args:
            displaced: whether the objects of the run get other addresses than in another run.
            options: arguments of `TestRun`.
        """
        self._count_places()
        if self.places is not None and seed > len(self.places):
            reason = f"{self.test.arguments.crash_points} has {len(self.places)} places to be killed at"
            return Child(lambda: Result(seed, skipped=reason))

        def compute() -> Result:
            from understudy.testing.simulated_tests.workers.loaded import loaded_now, loaded_since  # noqa: PLC0415  it loads the codecs

            self.host.drop_output()
            self.replace_breakpoint(seed)
            kept = [bytearray(size) for size in range(_DISPLACED)] if displaced else []
            before = loaded_now()
            result = self.run(seed, **options)[1]
            kept.clear()
            return replace(result, loaded=loaded_since(before))

        self.warm_up()
        return Child(compute)

    def run(self, seed: int, *, is_watched: bool = True, **options: Any) -> tuple[TestRun, Result]:
        """Run a seed in this process, which it changes. `options` are arguments of `TestRun`."""
        from understudy.testing.simulated_tests.run import TestRun  # noqa: PLC0415  it loads the simulator
        from understudy.testing.simulated_tests.workers.watchdog import NeverAwaits, watchdog  # noqa: PLC0415  as above

        self._count_places()
        function, args = self.test.body(self.args)
        if self.places is not None:
            options["crash_point"] = self._crash_point(seed)
        run = TestRun(function, args, self.named, self.test.arguments, self.random_seed(seed), **options)
        run.outcome.seed = seed
        if is_watched:
            with watchdog(lambda: run.cluster.loop.executed):
                outcome = run.run()
        else:
            outcome = run.run()
        error = run.error
        if isinstance(error, RuntimeError) and _OTHER_LOOP in str(error):
            error.add_note(_OTHER_LOOP_HINT)
        skipped = str(error) if is_skip(error) else None
        return run, Result(seed, outcome, skipped=skipped, never_awaits=isinstance(error, NeverAwaits))

    def random_seed(self, seed: int) -> int:
        """The number from which the randomness of a run follows: its seed, unless the runs differ in a place alone."""
        return 0 if self.test.arguments.crash_points else seed

    def replace_breakpoint(self, seed: int) -> None:
        """Let `breakpoint()` do nothing in this process, or refuse it if no run of the seed has the terminal."""

        def replacement(*_: object, **__: object) -> None:
            if not self.is_live:
                raise BadSimulatedTest(
                    "breakpoint() needs the terminal, which the processes of many seeds do not have: run one seed, "
                    f"with --understudy-seed {seed} or UNDERSTUDY_SEED={seed}"
                )

        sys.breakpointhook = replacement

    def _count_places(self) -> None:
        """Run a test with `crash_points` once, in a process of its own, to find the places of its service."""
        service = self.test.arguments.crash_points
        if not service or self.places is not None:
            return
        self.places = ()

        def compute() -> Result:
            self.host.drop_output()
            return self.run(0)[1]

        self.warm_up()
        outcome = result_of(Child(compute), 0).outcome
        self.places = () if outcome is None else outcome.places

    def _crash_point(self, seed: int) -> Any:
        from understudy.testing.simulated_tests.faults.crash_points import crash_point  # noqa: PLC0415  it loads the simulator

        return crash_point(self.test.arguments.crash_points, self.places or (), seed)

    def explain(self, seed: int, seen: str) -> Explanation:
        """Run a seed that has failed again, and say why it fails.

        Args:
            seen: why it has failed before.
        """
        __tracebackhide__ = True
        first = result_of(self.start(seed), seed)
        second = first if first.never_awaits else result_of(self.start(seed, displaced=True), seed)
        report = self._report(seed, first, second, seen)
        self.host.between_runs()
        return self.host.last_run(self, seed, report)

    def _report(self, seed: int, first: Result, second: Result, seen: str) -> str:
        """Return why a seed fails, after it was run twice."""
        from understudy.testing.simulated_tests.report.report import explained  # noqa: PLC0415  it loads the simulator
        from understudy.testing.simulated_tests.report.shrink import MOST_RUNS  # noqa: PLC0415  as above
        from understudy.testing.simulated_tests.run import schedule  # noqa: PLC0415  as above

        def run(faults: Sequence[Any], *, is_last: bool = False) -> Outcome | None:
            if first.never_awaits:
                return first.outcome
            page = self._page_of(seed) if is_last and self.page else None
            return result_of(self.start(seed, faults=faults, with_story=is_last, page=page), seed).outcome

        replay = self.host.replay(seed)
        outcome = first.outcome
        if outcome is None:
            text = f"seed {seed} fails: {first.death}\n\nreplay it:  {replay}"
        elif outcome.has_passed:
            text = f"seed {seed} has failed, and has passed when it was run again; it failed: {seen}"
        else:
            runs = 0 if first.never_awaits else MOST_RUNS
            faults = schedule(self.test.arguments, self.random_seed(seed))
            text = explained(outcome, faults, run, replay=replay, runs=runs)
        parts = [text, self._difference(seed, first, second), self.hint]
        return "\n\n".join(filter(None, parts))

    def _page_of(self, seed: int) -> Path:
        """Return the folder for the page of a seed, which does not exist yet."""
        parts = [self.test.name, self.parameters] if self.parameters else [self.test.name]
        folder = Path(self.page).absolute() / f"{'-'.join(map(_file_name, parts))}-seed-{seed}"
        if folder.exists():
            shutil.rmtree(folder)
        return folder

    def _difference(self, seed: int, first: Result, second: Result) -> str:
        """Return in what two runs of a seed differ; empty if they are equal."""
        if first.outcome is None or second.outcome is None or first.outcome.digest == second.outcome.digest:
            return ""
        text = "two runs of this seed differ, so that it may not fail each time"
        one, other = (
            result_of(self.start(seed, displaced=displaced, with_trace=True), seed).outcome
            for displaced in (False, True)
        )
        found = None if one is None or other is None else first_difference(one.trace, other.trace)
        return text if found is None else f"{text}; they differ first {found}"


def _file_name(text: str) -> str:
    """Return a name for a file. Texts that would have the same one, or one that is too long, get a digest each."""
    name = re.sub(r"[^\w.-]+", "-", text)
    if name == text and len(name) <= _MOST_OF_NAME:
        return name
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=4).hexdigest()
    return f"{name[:_MOST_OF_NAME]}-{digest}"


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
