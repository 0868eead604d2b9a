"""What a call of a simulated test does.

In a worker it serves seeds. In any other process it runs the seeds of the test: in workers if strings hash otherwise
here than there, in processes forked from this one if not. It raises the failure of the lowest seed that has failed.
"""

from __future__ import annotations

import atexit
import os
import pickle
import shlex
import sys
import tempfile
import traceback
import unittest
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing import spawn
from pathlib import Path
from typing import Any, Final, Protocol

from understudy.testing.simulated_tests.arguments import whole_number
from understudy.testing.simulated_tests.decorator import BadSimulatedTest, SimulatedTest, simulated_test
from understudy.testing.simulated_tests.workers import forks, serving
from understudy.testing.simulated_tests.workers.plain_worker import Target
from understudy.testing.simulated_tests.workers.pool import (
    Pool,
    can_have_workers,
    is_like_a_worker,
    usual_workers,
)
from understudy.testing.simulated_tests.workers.runs import BoundTest, Explanation, Host, Result
from understudy.testing.simulated_tests.workers.search import first_failure
from understudy.testing.simulated_tests.workers.slots import (
    Begin,
    CannotRun,
    ForkSlot,
    Slot,
    WorkerDied,
    WorkerSkips,
)

_HASH_SEED_HINT: Final = (
    "the test cannot be found by its name, so it has run in processes forked from this one, in which strings hash "
    "otherwise each time: set PYTHONHASHSEED=0 to run the same again, or declare the test in a module"
)


__unittest = True
"""unittest leaves out lines of such modules from the traceback of a failure."""


class SimulatedTestFailed(AssertionError):
    """A simulated test has failed. The message is the report."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line or the environment says of all simulated tests.

    Attributes:
        seeds: how many seeds are run; None for the number of each test.
        seed: the only seed that is run; None for all.
        page: the folder for pages; empty for none.
        workers: maximum number of worker processes; None for the number of cores.
        is_live: whether the runs have the terminal, for `breakpoint()`.
        is_debugged: whether pytest starts a debugger at the failure.
    """

    seeds: int | None = None
    seed: int | None = None
    page: str = ""
    workers: int | None = None
    is_live: bool = False
    is_debugged: bool = False

    def seeds_of(self, test: SimulatedTest) -> Sequence[int]:
        """The seeds of a test."""
        return [self.seed] if self.seed is not None else range(self.seeds or test.arguments.seeds)

    @classmethod
    def of_environment(cls) -> Options:
        """Read `UNDERSTUDY_SEEDS`, `UNDERSTUDY_SEED`, `UNDERSTUDY_PAGE` and `UNDERSTUDY_WORKERS`.

        Raises:
            BadArguments: a value is no whole number.
        """
        environment = os.environ
        seed = number_of("UNDERSTUDY_SEED", environment.get("UNDERSTUDY_SEED"), least=0)
        return cls(
            seeds=number_of("UNDERSTUDY_SEEDS", environment.get("UNDERSTUDY_SEEDS")),
            seed=seed,
            is_live=seed is not None,
            page=environment.get("UNDERSTUDY_PAGE", ""),
            workers=number_of("UNDERSTUDY_WORKERS", environment.get("UNDERSTUDY_WORKERS")),
        )


def number_of(name: str, text: str | None, *, least: int = 1) -> int | None:
    """Read a whole number; None if there is none. Raises BadArguments."""
    if not text:
        return None
    try:
        value: object = int(text)
    except ValueError:
        value = text
    return whole_number(name, value, least=least)


class Caller(Host, Protocol):
    """What has called the test, in the process in which it was called.

    Attributes:
        parameters: which parameters this call has; empty if there is one call of the test.
    """

    options: Options
    parameters: str

    def slots(self, test: BoundTest, count: int) -> Sequence[Slot]:
        """Return slots in workers, or raise `NotByName`."""

    def close(self) -> None:
        """End the workers."""

    def skip(self, reason: str) -> None:
        """Skip the test."""

    def fail(self, explanation: Explanation) -> None:
        """Raise the failure of the test."""


class NotByName(Exception):
    """A worker cannot find the test by its name."""


pytest_caller: Caller | None = None
"""The caller while pytest runs a simulated test; None otherwise."""


def call(test: SimulatedTest, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Run a simulated test with the arguments of a call, for its seeds.

    Raises:
        BadSimulatedTest: a simulated test runs in this process already.
        SimulatedTestFailed: a seed has failed; pytest gets the exception of the test itself.
    """
    __tracebackhide__ = True
    if forks.is_child():
        raise BadSimulatedTest(
            f"{test.name} is called within another simulated test, which has a cluster already: make a coroutine "
            "function of what both share, and await it with that cluster"
        )
    caller = pytest_caller if pytest_caller is not None else _plain_caller(test, args, named)
    options = caller.options
    bound = BoundTest(test, args, named, caller, caller.parameters, options.page, is_live=options.is_live)
    if (line := serving.line) is not None:
        assert line.begun is not None
        bound.page, bound.is_live = line.begun.page, line.begun.is_live
        line.serve(bound)
    else:
        _run_seeds(bound, caller)


def _run_seeds(bound: BoundTest, caller: Caller) -> None:
    __tracebackhide__ = True
    options = caller.options
    seeds = options.seeds_of(bound.test)
    slots: Sequence[Slot] = ()
    passed: list[Result] = []
    is_complete = False
    try:
        slots = _slots(bound, caller, usual_workers(len(seeds), options.workers))
        failure = first_failure(slots, seeds, passed)
        explanation = None if failure is None else failure.slot.explain(failure.result)
        for slot in slots:
            slot.end()
        is_complete = True
    except WorkerSkips as skips:
        caller.skip(str(skips))
        return
    except (CannotRun, WorkerDied) as error:
        explanation = Explanation(f"{bound.test.name}: {error}")
    finally:
        if not is_complete and not forks.is_child():
            for slot in slots:
                if isinstance(slot, ForkSlot):
                    slot.end()
            caller.close()
    if explanation is not None:
        caller.fail(explanation)
    elif passed and all(result.skipped is not None for result in passed):
        caller.skip(passed[0].skipped or "")


def _slots(bound: BoundTest, caller: Caller, count: int) -> Sequence[Slot]:
    if not is_like_a_worker():
        try:
            return caller.slots(bound, count)
        except NotByName:
            bound.hint = _HASH_SEED_HINT
    bound.warm_up()
    return [ForkSlot(bound) for _ in range(count)]


# ---------------------------------------------------------------------- unittest and plain calls


class PlainCaller:
    """Any code that calls a test as a function, unittest among them."""

    parameters = ""

    def __init__(self, options: Options, target: Target | None, command: str) -> None:
        self.options = options
        self._target = target
        self._command = command

    def slots(self, test: BoundTest, count: int) -> Sequence[Slot]:
        if self._target is None or not can_have_workers():
            raise NotByName
        is_live = self.options.is_live
        return _plain_pool().slots(count, Begin(self._target, self.options.page, is_live), is_live=is_live)

    def close(self) -> None:
        if _pool is not None:
            _pool.close()

    def skip(self, reason: str) -> None:
        __tracebackhide__ = True
        raise unittest.SkipTest(reason)

    def fail(self, explanation: Explanation) -> None:
        __tracebackhide__ = True
        raise SimulatedTestFailed(explanation.text)

    def drop_output(self) -> None:
        redirect_output(os.open(os.devnull, os.O_WRONLY))

    def between_runs(self) -> None:
        """Do nothing: forked processes share no file with this one."""

    def replay(self, seed: int) -> str:
        return f"UNDERSTUDY_SEED={seed} {self._command}"

    def last_run(self, test: BoundTest, seed: int, text: str) -> Explanation:
        with tempfile.TemporaryFile() as output:

            def compute() -> str:
                redirect_output(output.fileno())
                test.replace_breakpoint(seed)
                error = test.run(seed)[0].error
                sys.stdout.flush()
                sys.stderr.flush()
                return "" if error is None else "".join(traceback.format_exception(error))

            try:
                raised = forks.Child(compute).result()
            except (forks.ChildDied, forks.ChildFailed) as error:
                raised = str(error)
            output.seek(0)
            printed = output.read().decode(errors="replace")
        parts = [text, raised.rstrip(), f"It has printed:\n{printed}" if printed else ""]
        return Explanation("\n\n".join(filter(None, parts)))


def redirect_output(descriptor: int) -> None:
    """Let the standard output and error of this process be another file."""
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115  the process ends with it
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115  as above


_pool: Pool | None = None


def _plain_pool() -> Pool:
    global _pool
    if _pool is None:
        preparation = spawn.get_preparation_data("understudy")
        preparation.pop("authkey", None)  # it cannot be sent, and nothing needs it
        _pool = Pool("plain", lambda _: {"preparation": preparation})
        atexit.register(_pool.close)
    return _pool


def _plain_caller(test: SimulatedTest, args: tuple[Any, ...], named: dict[str, Any]) -> PlainCaller:
    if serving.line is not None and serving.line.begun is not None:
        return PlainCaller(Options(), None, serving.line.begun.target.command)
    command = _command(test, args)
    target = _target(test, args, named)
    return PlainCaller(Options.of_environment(), target and replace(target, command=command), command)


def _command(test: SimulatedTest, args: tuple[Any, ...]) -> str:
    """How a person calls a test again."""
    function = test.function
    if args and isinstance(args[0], unittest.TestCase):
        return f"python -m unittest {args[0].id().removeprefix('__main__.')}"
    if function.__module__ != "__main__" and "." not in function.__qualname__ and not args:
        return f'python -c "from {function.__module__} import {function.__name__} as test; test()"'
    return " ".join(map(shlex.quote, (Path(sys.executable).name, *sys.orig_argv[1:])))


def _target(test: SimulatedTest, args: tuple[Any, ...], named: dict[str, Any]) -> Target | None:
    """How a worker finds a test; None if it cannot."""
    if args and isinstance(args[0], unittest.TestCase):
        case = type(args[0])
        return _named(case.__module__, case.__qualname__, case, method=args[0].id().rpartition(".")[2])
    try:
        pickled = pickle.dumps((args, named))
    except (pickle.PicklingError, TypeError, AttributeError):  # pickle raises any of them
        return None
    return _named(test.function.__module__, test.function.__qualname__, test, call=pickled)


def _named(module_name: str, qualname: str, sought: object, *, method: str = "", call: bytes = b"") -> Target | None:
    module = sys.modules.get(module_name)
    found: Any = module
    for name in qualname.split("."):
        found = getattr(found, name, None)
    file = getattr(module, "__file__", None)
    if (found is not sought and simulated_test(found) is not sought) or file is None:
        return None
    return Target(module_name, file, qualname, method, call)
