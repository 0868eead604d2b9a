"""A simulated node: its disk, clock, event log, points and random numbers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from understudy.brokers.world import World
from understudy.clusters.simulated.clocks import EPOCH_MS
from understudy.clusters.simulated.loop import Process, SimulatedLoop
from understudy.clusters.simulated.network import SimulatedNetwork
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.simulated.world import Node
from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper
from understudy.foundation.eventlog.records import PointReached, ProcessExiting, ProcessStarted, StepReached
from understudy.history.reading.lines import decode_record
from understudy.history.reading.reader import read


class NodeHarness:
    """One node with a ZooKeeper and a network."""

    def __init__(self, loop: SimulatedLoop, *, has_own_clock: bool = False) -> None:
        self.loop = loop
        self.server = SimulatedZooKeeper(loop, random=derived(1, "zookeeper"))
        self.network = SimulatedNetwork(loop, seed=1)
        self.log_lines: list[bytes] = []
        self.node = Node(
            "broker-1", run="run", seed=1, loop=loop, log_lines=self.log_lines, broker_id=1, has_own_clock=has_own_clock
        )

    def start(self) -> World:
        return self.node.start(self.server, self.network, session_timeout_ms=6_000, connection_timeout_ms=6_000)

    @property
    def process(self) -> Process:
        assert self.node.process is not None
        return self.node.process


@pytest.fixture
def harness(loop: SimulatedLoop) -> NodeHarness:
    return NodeHarness(loop)


def test_files_outlive_the_process(harness: NodeHarness) -> None:
    first = harness.start()
    first.disk.write("meta.properties", b"broker.id=1")
    harness.process.kill()
    second = harness.start()
    assert second.disk.read("meta.properties") == b"broker.id=1"


def test_each_incarnation_has_its_own_event_log_and_random_numbers(harness: NodeHarness, tmp_path: Path) -> None:
    first = harness.start()
    first.events.append(ProcessExiting(reason="stopped"))
    harness.process.kill()
    second = harness.start()
    assert first.random.random() != second.random.random()
    records = [decode_record(line) for line in harness.log_lines]
    assert [(record.incarnation, record.seq) for record in records] == [(1, 1), (1, 2), (2, 1)]
    started = ProcessStarted(
        role="broker", broker_id=1, software="understudy", machine="broker-1", boot="simulation", has_testbed=True
    )
    assert (records[0].data, records[2].data) == (started, msgspec.structs.replace(started, after_seq=2))
    assert records[0].wall_ms == EPOCH_MS
    harness.node.log.dump(tmp_path)
    reading = read([tmp_path])
    assert reading.findings == ()
    assert len(reading.records) == 3


def times(lines: list[bytes]) -> list[tuple[str, float, float]]:
    """The boot, or the type, and both clocks of each record."""
    records = map(decode_record, lines)
    return [
        (record.data.boot if isinstance(record.data, ProcessStarted) else record.type, record.mono_ms, record.wall_ms)
        for record in records
    ]


def test_a_node_with_a_clock_of_its_own_keeps_it_until_it_loses_power(loop: SimulatedLoop) -> None:
    harness = NodeHarness(loop, has_own_clock=True)
    harness.start().events.append(StepReached(step="first"))
    harness.loop.run_for(1_000)
    harness.process.kill()
    world = harness.start()
    harness.process.kill()
    harness.node.lose_power()
    harness.start()
    (boot, began, wall), (_, at_once, _), (again, later, wall_later), (rebooted, fresh, wall_fresh) = times(
        harness.log_lines
    )
    assert (boot, again, rebooted) == ("broker-1/1", "broker-1/1", "broker-1/2")
    assert began == at_once >= 3_600_000
    assert 0 < abs(later - began - 1_000_000) <= 100.001, "the drift in a thousand seconds"
    assert 5_000 <= fresh <= 60_000
    assert (wall, wall_later, wall_fresh) == (EPOCH_MS, EPOCH_MS + 1_000_000, EPOCH_MS + 1_000_000)
    assert world.clock.monotonic_ms() == 1_000_000, "what the broker measures does not depend on it"


def test_a_step_of_the_wall_clock_does_not_change_the_monotonic_clock(harness: NodeHarness) -> None:
    clock = harness.node.clock
    clock.offset_ms = -3_600_000
    harness.loop.run_for(2)
    assert clock.wall_ms() == EPOCH_MS - 3_600_000 + 2_000
    assert clock.monotonic_ms() == 2_000
    clock.drift = 0.01
    assert clock.monotonic_ms() == pytest.approx(2_020)


@pytest.mark.parametrize("action", ["pause", "crash"])
def test_an_armed_point_pauses_or_kills_the_process_once_before_its_next_line(
    harness: NodeHarness, action: str
) -> None:
    world = harness.start()
    process = harness.process
    harness.node.arm("partition.after_write", action, process.pause if action == "pause" else process.kill)
    marks: list[str] = []

    async def procedure() -> None:
        await world.points.reach("partition.before_write")
        marks.append("wrote")
        await world.points.reach("partition.after_write")
        marks.append("flushed")
        await world.points.reach("partition.after_write")
        marks.append("done")

    process.spawn(procedure())
    harness.loop.run_for(1)
    assert marks == ["wrote"]
    assert decode_record(harness.log_lines[-1]).data == PointReached(point="partition.after_write", action=action)
    process.resume()
    harness.loop.run_for(1)
    assert marks == (["wrote", "flushed", "done"] if action == "pause" else ["wrote"])


def test_each_name_and_seed_has_its_own_random_numbers() -> None:
    assert derived(1, "a").random() == derived(1, "a").random()
    assert len({derived(1, "a").random(), derived(1, "b").random(), derived(2, "a").random()}) == 3
    assert derived(1, "a", "b").random() != derived(1, "ab").random()
