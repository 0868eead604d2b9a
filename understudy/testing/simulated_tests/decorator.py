"""`simulated`: makes a test that runs against simulated brokers in virtual time, once for each seed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from understudy.testing.simulated_tests.arguments import SimulatedArguments
from understudy.testing.simulated_tests.faults import PROFILES
from understudy.testing.simulated_tests.run import TestRun


def simulated(
    *,
    seeds: int = 100,
    brokers: int = 3,
    faults: str | Sequence[str] = "failover",
    minutes: float = 1.0,
    racks: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Run an asynchronous test once for each seed, with a simulated cluster as its first argument.

    Args:
        seeds: how many seeds are run.
        brokers: how many brokers; their ids begin with 1.
        faults: the name of a profile of `faults.PROFILES`, or kinds of faults.
        minutes: the virtual time in which faults are injected.
        racks: the racks of the brokers, in order.
        settings: further keys of `server.properties`, for every broker.
    """
    arguments = SimulatedArguments(
        seeds=seeds,
        brokers=brokers,
        kinds=PROFILES[faults] if isinstance(faults, str) else tuple(faults),
        seconds=minutes * 60,
        racks=tuple(racks or ()),
        settings=dict(settings or {}),
    )

    def decorate(test: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*args: Any, **named: Any) -> None:
            for seed in range(arguments.seeds):
                outcome = TestRun(test, args, named, arguments, seed).run()
                if outcome.problems:
                    raise AssertionError(f"seed {seed}:\n" + "\n".join(outcome.problems))

        # pytest gives no fixture for the first parameter, which is the cluster.
        parameters = list(inspect.signature(test).parameters.values())
        run.__signature__ = inspect.Signature(parameters[1:])  # type: ignore[attr-defined]  # pytest and inspect read it
        del run.__wrapped__
        return run

    return decorate
