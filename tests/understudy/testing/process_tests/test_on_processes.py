"""A test moves from virtual time to processes by another decorator."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.clusters.cluster import Unsupported
from understudy.testing import leader_change, on_processes, simulated
from understudy.testing.process_tests.decorator import faults_here
from understudy.testing.simulated_tests.arguments import BadArguments, checked_arguments

COUNT = 20


async def billing(bootstrap: str) -> None:
    """Bill each order: read it, and write an invoice."""
    settings: dict[str, Any] = {
        "group_id": "billing",
        "auto_offset_reset": "earliest",
        "session_timeout_ms": 6_000,
        # Else aiokafka asks a broker that leads no more for the first offset, for five minutes
        # (docs/reference/client-failures.md).
        "metadata_max_age_ms": 5_000,
    }
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=bootstrap, **settings)
    async with consumer, AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        async for order in consumer:
            await producer.send_and_wait("invoices", order.value)


async def every_order_is_billed(cluster: Any) -> None:
    await cluster.create_topic("orders", partitions=1)
    await cluster.create_topic("invoices", partitions=1)
    service = cluster.start(billing, cluster.bootstrap, restarts=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=True) as producer:
        for number in range(COUNT):
            await producer.send_and_wait("orders", b"%d" % number)
            if number == COUNT // 2:
                leader = cluster.leader("orders")
                leader.kill(for_s=2)
                service.kill()
                assert (await cluster.wait_for(leader_change("orders"))) != leader
    await cluster.calm()
    cluster.assert_injected("kill", role="leader of orders-0")
    invoices: set[int] = set()
    consumer = AIOKafkaConsumer(
        "invoices", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", metadata_max_age_ms=5_000
    )
    async with consumer, asyncio.timeout(60):
        while len(invoices) < COUNT:
            invoices.add(int((await consumer.getone()).value))
    assert service.incarnation == 2
    await service.stop()
    assert not service.is_running


@simulated(seeds=2, faults="none")
async def test_every_order_is_billed_in_virtual_time(cluster: Any) -> None:
    await every_order_is_billed(cluster)


def test_the_same_test_runs_on_processes() -> None:
    """Only real broker processes, and a service that is a real process, show that names and semantics agree."""
    on_processes(faults="none")(every_order_is_billed)()


async def fail() -> None:
    raise ValueError("no price")


def test_what_needs_virtual_time_says_so_and_a_failed_service_fails_the_test() -> None:
    """Only a real run shows which calls processes refuse, and what a service in another process has raised."""

    @on_processes(brokers=1, faults=["{at: 100ms, pause: 1, for: 300ms}"])
    async def test(cluster: Any) -> None:
        with pytest.raises(Unsupported, match=r"lose_power\(\): only brokers in virtual time"):
            cluster.broker(1).lose_power()
        with pytest.raises(Unsupported, match=r"cluster.history: only brokers in virtual time"):
            cluster.history.assert_nothing_lost()
        service = cluster.start(fail)
        with pytest.raises(Unsupported, match="only services in virtual time"):
            service.arm("before commit")
        await cluster.wait_until(lambda: service.exits, "the service has ended")
        await cluster.calm()
        cluster.assert_injected("pause", broker=1)

    with pytest.raises(Exception, match="ValueError: no price") as raised:
        test()
    (note,) = raised.value.__notes__
    folder = Path(note.splitlines()[0].removeprefix("run folder: "))
    assert f"see it: {folder.as_uri()}/run.html#at=testbed.1." in note
    assert "&show=process:broker-1&show=session:broker-1" in note
    assert (folder / "run.html").exists()
    shutil.rmtree(folder)


def test_faults_that_processes_cannot_have_are_left_out_or_refused() -> None:
    drawn = faults_here(checked_arguments({"faults": "evil", "minutes": 5}))
    assert {fault.action.name for fault in drawn} <= {"kill", "pause", "stop", "restart", "depose", "isolate"}
    with pytest.raises(BadArguments, match="processes of one machine cannot have"):
        faults_here(checked_arguments({"faults": ["{at: 1s, lose-power: controller}"]}))
    with pytest.raises(BadArguments, match="crash_points needs virtual time"):
        on_processes(crash_points="billing")
