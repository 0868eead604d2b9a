"""`simulated`: makes a test that runs against simulated brokers in virtual time, once for each seed.

A module that only declares such tests loads nothing of the simulator: it is loaded in the processes that run them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

from understudy.testing.simulated_tests.arguments import SimulatedArguments, checked_arguments

__unittest = True
"""unittest leaves out lines of such modules from the traceback of a failure."""

ATTRIBUTE: Final = "understudy_simulated"
"""Name of the attribute by which a function is recognised as a simulated test."""


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedTest:
    """A coroutine function that `simulated` has made a test of.

    Attributes:
        function: gets the cluster, then the arguments of the call.
    """

    function: Callable[..., Any]
    arguments: SimulatedArguments

    @property
    def name(self) -> str:
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def body(self, args: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function that takes the cluster first, and the arguments after it; a method has its object bound."""
        if is_method(self.function):
            return functools.partial(_call_method, self.function, args[0]), args[1:]
        return self.function, args


def _call_method(function: Callable[..., Any], owner: object, *args: Any, **named: Any) -> Any:
    return function(owner, *args, **named)


def is_method(function: Callable[..., Any]) -> bool:
    """Whether a function that is declared in a class has the object as its first parameter."""
    return next(iter(inspect.signature(function).parameters), "") == "self"


def simulated_test(function: object) -> SimulatedTest | None:
    """The simulated test that a function or bound method is; None for any other."""
    found = getattr(function, ATTRIBUTE, None)
    return found if isinstance(found, SimulatedTest) else None


@overload
def simulated(test: Callable[..., Any], /) -> Callable[..., None]: ...


@overload
def simulated(
    *,
    seeds: int = 100,
    brokers: int = 3,
    faults: str | Sequence[str | Mapping[str, object]] = "failover",
    minutes: float = 1.0,
    racks: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    crash_points: str | None = None,
    without: Sequence[str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., None]]: ...


def simulated(test: Callable[..., Any] | None = None, /, **given: Any) -> Callable[..., Any]:
    """Run an asynchronous test once for each seed, with a simulated cluster as its first argument.

    Args:
        seeds: how many seeds are run.
        brokers: how many brokers; their ids begin with 1.
        faults: the name of a profile of `faults.PROFILES`, or a list of kinds of faults and of steps of experiments,
            such as `"{at: 10s, kill: leader(orders/0), for: 3s}"`.
        minutes: the virtual time in which faults are injected.
        racks: the racks of the brokers, in order.
        settings: further keys of `server.properties`, for every broker.
        crash_points: the name of a service that is killed at each of its own awaits in turn, and started again. The
            first run counts them, and each further one kills it at one of them; `seeds` is the number of runs, which
            are spread over all places. The runs differ in the place alone.
        without: names of fences and fixes of historic bugs that the brokers do not have (docs/reference/behaviours.md).

    Raises:
        BadSimulatedTest: an argument, or the function, cannot be used.
    """
    arguments = checked_arguments(given)

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        check_function(function)
        declared = SimulatedTest(function, arguments)

        @functools.wraps(function)
        def run(*args: Any, **named: Any) -> None:
            __tracebackhide__ = True
            from understudy.testing.simulated_tests.workers.calls import call  # noqa: PLC0415  see the module

            call(declared, args, named)

        # pytest gives no fixture for the parameter that is the cluster.
        parameters = list(inspect.signature(function).parameters.values())
        del parameters[1 if is_method(function) else 0]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # pytest and inspect read it
        del run.__wrapped__
        setattr(run, ATTRIBUTE, declared)
        return run

    return decorate if test is None else decorate(test)


def check_function(function: Any) -> None:
    """Raise `BadSimulatedTest` unless `simulated` can make a test of a function."""
    name = getattr(function, "__qualname__", repr(function))
    if simulated_test(function) is not None:
        raise BadSimulatedTest(f"{name} has @simulated twice: keep one of them, with all arguments")
    if inspect.iscoroutine(function):
        function.close()
        raise BadSimulatedTest(
            f"@simulated got the coroutine {name}, which can run only once, and expected a function: write "
            "`async def` below the decorator, and do not call the function"
        )
    if inspect.isasyncgenfunction(function):
        raise BadSimulatedTest(f"{name} is an asynchronous generator, and @simulated expected a test without `yield`")
    if not inspect.iscoroutinefunction(function):
        raise BadSimulatedTest(
            f"{name} is not asynchronous, and @simulated expected a coroutine function: write `async def`"
            if callable(function)
            else f"@simulated got {function!r}, and expected a coroutine function, as in `async def test(cluster)`"
        )
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) <= is_method(function):
        raise BadSimulatedTest(
            f"{name} has no parameter for the cluster: write `async def {name}({', '.join([*parameters, 'cluster'])})`"
        )


class BadSimulatedTest(TypeError):
    """A test in virtual time cannot be declared or called so. The message says what to write instead."""
