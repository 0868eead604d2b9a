"""`on_processes`: runs a test that is written for virtual time once on broker processes, in real time."""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from understudy.clusters.cluster import ClusterError
from understudy.clusters.testing.cluster_under_test import ClusterUnderTest
from understudy.clusters.values import SERVICE, Target
from understudy.testing.process_tests.cluster import ProcessTestBroker, ProcessTestCluster
from understudy.testing.process_tests.failure import describe_failure
from understudy.testing.simulated_tests.arguments import BadArguments, SimulatedArguments, checked_arguments
from understudy.testing.simulated_tests.decorator import check_function, is_method
from understudy.testing.simulated_tests.faults.faults import KINDS, Fault, draw_faults
from understudy.testing.simulated_tests.workers.runs import is_skip

SEED: Final = 0
KINDS_HERE: Final = (
    "kill",
    "pause",
    "stop",
    "restart",
    "depose",
    "isolate",
    "kill-service",
    "pause-service",
    "stop-service",
)
"""Kinds of faults that processes of one machine can have; a seed draws no others here."""
_ACTIONS: Final = frozenset(kind.removesuffix("-service") for kind in KINDS_HERE)
_GRACE_S: Final = 120.0
"""Time after the last fault in which a test must have ended."""
_STEP_S: Final = 0.05


def on_processes(test: Callable[..., Any] | None = None, /, **given: Any) -> Callable[..., Any]:
    """Run an asynchronous test once on broker processes, with a cluster as its first argument.

    A test moves from virtual time to processes by this decorator in place of `simulated`. The arguments are the same:
    `seeds` has no effect, because there is one run, and `faults` draws only the kinds of `KINDS_HERE`. What cannot move
    is in docs/guides/simulate-your-client.md.

    Raises:
        BadArguments: an argument cannot be used.
        BadSimulatedTest: the function is no test that `simulated` could run.
    """
    arguments = checked_arguments(given)
    if arguments.crash_points:
        raise BadArguments(
            "crash_points needs virtual time, in which each run is equal up to one place: use @simulated"
        )

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        check_function(function)
        place = 1 if is_method(function) else 0

        @functools.wraps(function)
        def run(*args: Any, **named: Any) -> None:
            def body(cluster: ProcessTestCluster) -> Any:
                return function(*args[:place], cluster, *args[place:], **named)

            _run(function.__name__, body, arguments)

        # pytest gives no fixture for the parameter that is the cluster.
        parameters = list(inspect.signature(function).parameters.values())
        del parameters[place]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # pytest and inspect read it
        del run.__wrapped__
        return run

    return decorate if test is None else decorate(test)


def faults_here(arguments: SimulatedArguments) -> tuple[Fault, ...]:
    """Draw the faults of a test that processes can have.

    Raises:
        BadArguments: a step that is written by hand is none of them.
    """
    by_hand = [kind for kind in arguments.kinds if kind not in KINDS]
    kinds = [kind for kind in arguments.kinds if kind in KINDS_HERE]
    faults = draw_faults(random.Random(SEED), (*kinds, *by_hand), seconds=arguments.seconds, brokers=arguments.brokers)
    for fault in faults:
        if fault.action.name not in _ACTIONS or fault.when is not None:
            raise BadArguments(
                f"faults has the step {fault.words!r}, which processes of one machine cannot have; they can have "
                f"{', '.join(sorted(_ACTIONS))}, each at a time"
            )
    return faults


def _run(name: str, test: Callable[[ProcessTestCluster], Any], arguments: SimulatedArguments) -> None:
    """Run a test; the run folder stays if it fails, and a note at the exception names it."""
    faults = faults_here(arguments)
    switches = {"understudy.switches.off": ",".join(arguments.without)} if arguments.without else {}
    folder = Path(tempfile.mkdtemp(prefix="understudy-run-"))
    is_kept = False
    try:
        with ClusterUnderTest(
            arguments.brokers,
            racks=arguments.racks or None,
            properties=dict(arguments.settings) | switches,
            proxied=sys.platform == "linux",
            directory=folder,
        ) as under_test:
            under_test.begin_test(name)
            try:
                asyncio.run(_in_loop(test, ProcessTestCluster(under_test, SEED), faults, arguments.seconds + _GRACE_S))
            except BaseException as error:
                is_kept = not is_skip(error) and not isinstance(error, KeyboardInterrupt)
                if is_kept:
                    error.add_note(describe_failure(under_test, f"{type(error).__name__}: {error}"))
                raise
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


async def _in_loop(
    test: Callable[[ProcessTestCluster], Any], cluster: ProcessTestCluster, faults: Sequence[Fault], limit_s: float
) -> None:
    injecting = asyncio.ensure_future(_inject_all(cluster, faults))
    looking = asyncio.ensure_future(_look_after_services(cluster))
    cluster.end_faults = injecting.cancel  # type: ignore[assignment]  # the result of cancel() does not matter
    try:
        async with asyncio.timeout(limit_s):
            await test(cluster)
        failures = [service.failure for service in cluster.services.values() if service.failure is not None]
        if failures:
            raise failures[0]
    finally:
        tasks = [injecting, looking, *cluster.begun]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for service in cluster.services.values():
            service.close()


async def _look_after_services(cluster: ProcessTestCluster) -> None:
    """Be the supervisor of the services."""
    while True:
        for service in tuple(cluster.services.values()):
            service.look()
        await asyncio.sleep(_STEP_S)


async def _inject_all(cluster: ProcessTestCluster, faults: Sequence[Fault]) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    for fault in sorted(faults, key=lambda each: each.at_ms):
        await asyncio.sleep(max(0.0, began + fault.at_ms / 1000 - loop.time()))
        try:
            inject(cluster, fault)
        except ClusterError:
            continue  # it has found no target, as in virtual time


def inject(cluster: ProcessTestCluster, fault: Fault) -> None:
    """Inject a fault now. Raises ClusterError if its target does not exist, or is not in the state for it."""
    for_s = None if fault.action.lasts is None else fault.action.lasts.ms / 1000
    for target in fault.action.brokers:
        found: Any = (
            _service(cluster, target, fault.pick) if target.role == SERVICE else _broker(cluster, target, fault.pick)
        )
        match fault.action.name:
            case "kill":
                found.kill(for_s)
            case "pause":
                found.pause(for_s)
            case "isolate":
                found.isolate(for_s=for_s)
            case "depose":
                found.depose()
            case "stop" if target.role == SERVICE:
                found.begin_stop(for_s or 0.0)
            case "restart" if target.role == SERVICE:
                found.restart()
            case "stop" | "restart":
                cluster.begin(_stop_and_start(found, for_s or 0.0))


async def _stop_and_start(broker: ProcessTestBroker, for_s: float) -> None:
    await broker.stop()
    await asyncio.sleep(for_s)
    if not broker.is_running:
        await broker.start()


def _service(cluster: ProcessTestCluster, target: Target, pick: int) -> Any:
    names = [target.name] if target.name else list(cluster.services)
    if not names or names[0] not in cluster.services:
        raise ClusterError(f"there is no service {target.name or 'at this moment'}")
    return cluster.services[names[pick % len(names)]]


def _broker(cluster: ProcessTestCluster, target: Target, pick: int) -> Any:
    match target.role:
        case "controller":
            return cluster.controller()
        case "broker":
            return cluster.broker(target.broker_id)
        case "leader" if target.partition is not None:
            return cluster.leader(*target.partition)
        case "follower" if target.partition is not None:
            return cluster.follower(*target.partition)
        case "leader":
            partitions = sorted(key for key in cluster.picture().partitions if not key.topic.startswith("__"))
            if partitions:
                return cluster.leader(*partitions[pick % len(partitions)])
    running = [broker for broker in cluster.brokers if broker.is_running]
    if not running:
        raise ClusterError("no broker runs")
    return running[pick % len(running)]
