"""Tests of `DelayedOperationPurgatory`: a change of a partition wakes the requests that wait for it."""

from __future__ import annotations

import asyncio

import pytest

from understudy.brokers.replication.delayed_operations import DelayedOperationPurgatory
from understudy.clusters.simulated.loop import new_loop
from understudy.foundation.cluster.identifiers import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_operation_is_woken_by_each_of_its_partitions_and_by_no_other() -> None:
    purgatory = DelayedOperationPurgatory()
    with purgatory.watch([A, B]) as both, purgatory.watch([B]) as one:
        purgatory.check_and_complete([C])
        assert (both.is_woken, one.is_woken) == (False, False)
        purgatory.check_and_complete([A])
        assert (both.is_woken, one.is_woken) == (True, False)
        purgatory.check_and_complete([C, B])
        assert (both.is_woken, one.is_woken) == (True, True)


def test_wait_returns_once_for_each_change() -> None:
    async def scenario() -> None:
        purgatory = DelayedOperationPurgatory()
        with purgatory.watch([A]) as operation:
            purgatory.check_and_complete([A])
            await operation.wait()
            waiting = asyncio.create_task(operation.wait())
            await asyncio.sleep(0)
            assert not waiting.done()
            purgatory.check_and_complete([A])
            await waiting

    asyncio.run(scenario())


def test_nothing_is_kept_of_an_operation_that_has_ended() -> None:
    purgatory = DelayedOperationPurgatory(max_watched=4)
    with purgatory.watch([A, B, A]):
        assert (purgatory.watched, purgatory.has_room_for(1), purgatory.has_room_for(2)) == (3, True, False)
        with pytest.raises(RuntimeError), purgatory.watch([A]):
            raise RuntimeError
        assert purgatory.watched == 3
    assert (purgatory.watched, purgatory._watchers) == (0, {})


@pytest.mark.parametrize(("timeout_ms", "waited_s"), [(1_000, 1.0), (0, 0.0), (-1, 0.0)])
def test_an_operation_that_is_not_completed_waits_for_its_timeout(timeout_ms: int, waited_s: float) -> None:
    loop, purgatory = new_loop(), DelayedOperationPurgatory()
    try:
        began_s = loop.time()
        loop.run_until_complete(loop.create_task(purgatory.wait_until([A], lambda: False, timeout_ms=timeout_ms)))
        assert loop.time() - began_s == pytest.approx(waited_s, abs=1e-6)
    finally:
        loop.close()
