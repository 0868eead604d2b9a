"""Measures tests of a user's client in virtual time: the first one, many seeds, processor time and memory.

The test has three brokers, a producer of aiokafka that sends eight records a second for a virtual minute, a group of
one consumer, and the faults of `failover`. The references are the goals of the project. It is measured in a process of
its own, whose clocks are replaced. UNDERSTUDY_BENCH_SEEDS (100) sets the number of seeds.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

from benchmarks.rows import Row

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
    from aiokafka import AIOKafkaConsumer  # noqa: PLC0415  an optional client

    consumer = AIOKafkaConsumer("orders", bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest")
    await consumer.start()
    async for record in consumer:
        got.add(record.value)


async def orders(cluster: Any) -> None:
    """Send a virtual minute of records."""
    from aiokafka import AIOKafkaProducer  # noqa: PLC0415  an optional client

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


async def nothing(cluster: Any) -> None:
    """Use no virtual time."""


def measure() -> None:
    """Print the measured numbers as JSON."""
    import aiokafka  # noqa: F401, PLC0415  a user's test has imported it

    from understudy.testing import simulated  # noqa: PLC0415  the time of its import is measured elsewhere

    started_s = _call_s(simulated(seeds=1, faults="none", minutes=0.01)(nothing))
    first_s = _call_s(simulated(seeds=1)(orders))
    seeds_s = _call_s(simulated(seeds=SEEDS)(orders))
    worker_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    numbers = {"started_s": started_s, "first_s": first_s, "seeds_s": seeds_s, "worker_mb": worker_mb}
    print(json.dumps(numbers | {"processor_s": _processor_s()}))


def _call_s(test: Any) -> float:
    began = time.monotonic()
    test()
    return time.monotonic() - began


def _processor_s() -> float:
    """Processor time of a virtual second, in this process."""
    from understudy.testing.simulated_tests.arguments import checked_arguments  # noqa: PLC0415  as above
    from understudy.testing.simulated_tests.run import TestRun  # noqa: PLC0415  as above

    used_s = virtual_s = 0.0
    for seed in range(RUNS + 1):
        run = TestRun(orders, (), {}, checked_arguments({}), seed)
        began = time.process_time()
        outcome = run.run()
        if not seed:  # the first run imports what the others use; then as in a worker
            gc.freeze()
        else:
            used_s += time.process_time() - began
            virtual_s += outcome.virtual_s
    return used_s / virtual_s


def run() -> list[Row]:
    program = "from benchmarks.virtual_client import measure; measure()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    numbers = json.loads(done.stdout.splitlines()[-1])
    return [
        Row("the start of a test with one seed, s", numbers["started_s"], GOAL_START_S, 1.0),
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
