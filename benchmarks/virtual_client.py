"""Measures tests of a user's client in virtual time: the first one, many seeds, processor time and memory.

The test has three brokers, a producer of aiokafka that sends eight records a second for a virtual minute, a group of
one consumer, and the faults of `failover`. The references are the goals of the project. UNDERSTUDY_BENCH_SEEDS (100)
sets the number of seeds.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.rows import Row
from understudy.testing import simulated

SEEDS = int(os.environ.get("UNDERSTUDY_BENCH_SEEDS", "100"))
MINUTE_S = 60
RECORDS_A_SECOND = 8
RUNS = 10
GOAL_FIRST_S = 1.5
GOAL_START_S = 0.4
GOAL_SEEDS_S = 45
GOAL_VIRTUAL_SECONDS_A_SECOND = 75
GOAL_WORKER_MB = 150


async def consume(bootstrap: str, got: set[bytes]) -> None:
    """Read as the one member of a group."""
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest")
    await consumer.start()
    async for record in consumer:
        got.add(record.value)


async def orders(cluster: Any) -> None:
    """Send a virtual minute of records."""
    await cluster.create_topic("orders", partitions=3, replication_factor=3)
    got: set[bytes] = set()
    service = cluster.start(consume, cluster.bootstrap, got)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(MINUTE_S * RECORDS_A_SECOND):
            await producer.send("orders", b"%d" % number)
            await asyncio.sleep(1 / RECORDS_A_SECOND)
        await producer.flush()
    await cluster.calm()
    service.kill()


@simulated(seeds=1, faults="none", minutes=0.01)
async def nothing(cluster: Any) -> None:
    """Use no virtual time."""


@simulated(seeds=1)
async def first(cluster: Any) -> None:
    """The first test of a person."""
    await orders(cluster)


@simulated(seeds=SEEDS)
async def many(cluster: Any) -> None:
    """A test as it runs in CI."""
    await orders(cluster)


def _start() -> dict[str, float]:
    """The first call of a test starts a worker process, which the second one finds."""
    cold_s, warm_s = _call_s(nothing), _call_s(nothing)
    return {"start_s": cold_s - warm_s, "nothing_s": warm_s}


def _first() -> dict[str, float]:
    return {"first_s": _call_s(first)}


def _many() -> dict[str, float]:
    atexit.register(_print_memory)  # before the pool of the workers is, so that it is called when they have ended
    return {"seeds_s": _call_s(many)}


def _print_memory() -> None:
    print(json.dumps({"worker_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}))


def _processor() -> dict[str, float]:
    """Processor time of a virtual second, in forks of a warm process, as in a worker."""
    from understudy.testing.simulated_tests.arguments import checked_arguments  # noqa: PLC0415  the others do without
    from understudy.testing.simulated_tests.run import TestRun  # noqa: PLC0415  as above
    from understudy.testing.simulated_tests.workers.forks import Child  # noqa: PLC0415  as above

    def run(seed: int) -> tuple[float, float]:
        began = time.process_time()
        outcome = TestRun(orders, (), {}, checked_arguments({}), seed).run()
        return time.process_time() - began, outcome.virtual_s

    run(0)  # it imports what the others use
    used_s, virtual_s = map(sum, zip(*(Child(partial(run, seed)).result() for seed in range(1, RUNS + 1)), strict=True))
    return {"processor_s": used_s / virtual_s}


def _call_s(test: Callable[[], None]) -> float:
    began = time.monotonic()
    test()
    return time.monotonic() - began


_MEASURES = {"start": _start, "first": _first, "many": _many, "processor": _processor}


def measure(what: str) -> None:
    """Print numbers as JSON. It is called in a process of its own: clocks are replaced in one, workers kept in it."""
    print(json.dumps(_MEASURES[what]()))


def run() -> list[Row]:
    numbers: dict[str, float] = {}
    for what in _MEASURES:
        program = f"from benchmarks.virtual_client import measure; measure({what!r})"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            numbers |= json.loads(line)
    return [
        Row("a worker's start, until it can run a seed, s", numbers["start_s"], GOAL_START_S, 1.0),
        Row("a test that does nothing, one seed, s", numbers["nothing_s"], None, None),
        Row("the first test of one seed of a virtual minute, s", numbers["first_s"], GOAL_FIRST_S, 1.0),
        Row(
            f"100 seeds of a virtual minute on two cores, from {SEEDS}, s",
            numbers["seeds_s"] / SEEDS * 100,
            GOAL_SEEDS_S,
            1.0,
        ),
        Row(
            "a virtual second, ms of processor time",
            numbers["processor_s"] * 1e3,
            1e3 / GOAL_VIRTUAL_SECONDS_A_SECOND,
            1.0,
        ),
        Row("the memory of a worker, MB", numbers["worker_mb"], GOAL_WORKER_MB, 1.0),
    ]
