"""Every fault of a test can be injected after others, and ends when the test asks for calm."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence

import pytest

from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.virtual.world import VirtualWorld
from understudy.testing.simulated_tests.faults.fault_injector import FaultInjector
from understudy.testing.simulated_tests.faults.faults import KINDS, Fault, check_faults, draw_faults


async def connect(broker: str) -> None:
    """Keep a connection to a broker, as a client does."""
    while True:
        try:
            _, writer = await asyncio.open_connection(broker, 9092)
            writer.close()
        except OSError:
            pass
        await asyncio.sleep(0.1)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[VirtualWorld]:
    """Three brokers with a topic, the process of a test, and a service."""
    cluster = SimulatedCluster(getattr(request, "param", 1), brokers=3, racks=["a", "b", "b"])
    cluster.start()
    cluster.create_topic("orders", partitions=3, replication_factor=3)
    world = VirtualWorld(cluster)
    world.new_process("test")
    world.start(connect, ("broker-1",), {}, "billing", False)
    yield world
    cluster.close()
    assert cluster.loop.failures == []


def run(world: VirtualWorld, faults: Sequence[Fault], seconds: float) -> FaultInjector:
    injector = FaultInjector(world, faults)
    world.cluster.run_for(seconds * 1000)
    injector.stop()
    world.cluster.settle()
    return injector


def by_hand(*steps: str) -> tuple[Fault, ...]:
    return draw_faults(random.Random(1), check_faults(steps), seconds=60, brokers=3)


@pytest.mark.parametrize("world", range(5), indirect=True)
def test_every_kind_can_be_injected_after_any_other_and_all_of_them_end(world: VirtualWorld) -> None:
    cluster = world.cluster
    source = random.Random(cluster.seed)
    kinds = sorted(KINDS) * 2
    source.shuffle(kinds)
    faults = [
        Fault(at_ms=150.0 * number, action=KINDS[kind](source), pick=source.randrange(1 << 16))
        for number, kind in enumerate(kinds)
    ]
    injector = run(world, faults, seconds=0.15 * len(kinds))
    assert len(injector.injected) > len(faults) / 2
    assert all(fault.found for fault in injector.injected)
    for service in world.services.values():
        assert service.is_running
        assert not service.is_paused
        assert service.loop.wall_offset_s == 0
    nodes = [*(broker.name for broker in cluster.brokers), "billing", "test", "simulator"]
    assert not [(one, other) for one in nodes for other in nodes if cluster.network.is_cut(one, other)]


def test_a_fault_that_finds_no_target_is_counted_and_does_not_end_the_run(world: VirtualWorld) -> None:
    faults = by_hand(
        "at: 1s, kill: 1, for: 5s",
        "at: 2s, kill: 1, for: 5s",
        "at: 3s, kill: service(shipping)",
        "at: 4s, kill: leader(payments/0)",
        "at: 5s, slow-disk: service(billing), by: 5ms",
    )
    injector = run(world, faults, seconds=6)
    assert [fault.found for fault in injector.injected] == ["broker-1"]
    assert [missed.rpartition(": ")[2] for missed in injector.missed] == [
        "broker-1 is not running",
        "there is no service 'shipping' at this moment",
        "no broker is leader of payments-0 at this moment",
        "slow-disk is a fault of brokers, and billing is none",
    ]


def test_an_answer_that_no_client_asks_for_is_missed_and_does_not_fail_the_test(world: VirtualWorld) -> None:
    injector = run(world, by_hand("at: 1s, answer: all, api: JoinGroup, error: NOT_COORDINATOR"), seconds=3)
    assert [missed.partition(" received")[0] for missed in injector.missed] == ["answer: broker-1, broker-2, broker-3"]
    assert world.cluster.answers == []


def test_a_step_can_wait_for_an_event(world: VirtualWorld) -> None:
    before = world.cluster.controller_id()
    assert before is not None
    faults = by_hand("at: 1s, depose: controller", "when: elected, wait: 500ms, pause: service(billing), for: 1s")
    injector = run(world, faults, seconds=5)
    depose, pause = injector.injected
    assert depose.found == f"broker-{before}"
    assert pause.found == "billing"
    assert pause == faults[1]


def test_a_stopped_service_is_started_again_when_the_fault_ends(world: VirtualWorld) -> None:
    injector = FaultInjector(world, by_hand("at: 1s, stop: service(billing), for: 2s"))
    service = world.services["billing"]
    world.cluster.run_for(1_500)
    was_running = service.is_running
    world.cluster.run_for(2_000)
    injector.stop()
    assert (was_running, service.is_running, service.incarnation) == (False, True, 2)


def test_a_request_of_a_client_that_is_lost_ends_its_connection(world: VirtualWorld) -> None:
    lost: list[str] = []

    async def ask() -> None:
        reader, writer = await asyncio.open_connection("broker-1", 9092)
        # ApiVersions, version 0: key 18, correlation id 7, client id "c".
        for number in range(3):
            try:
                writer.write(b"\0\0\0\x0b" + b"\0\x12" + b"\0\0" + b"\0\0\0" + bytes([number]) + b"\0\x01c")
                await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                lost.append("answered")
            except ConnectionError as error:
                writer.close()
                lost.append(type(error).__name__)
                reader, writer = await asyncio.open_connection("broker-1", 9092)
            await asyncio.sleep(1)
        writer.close()

    world.start(ask, (), {}, "shop", False)
    injector = run(world, by_hand("at: 500ms, drop-answer: service(shop), to: 1, api: ApiVersions"), seconds=5)
    assert lost == ["answered", "ConnectionResetError", "answered"]
    assert injector.missed == []


def drawn(*steps: tuple[float, str]) -> list[Fault]:
    """Faults as a seed draws them, at times in milliseconds."""
    return [
        Fault(at_ms=at_ms, action=by_hand(f"at: 1s, {step}")[0].action, keeps_records=True) for at_ms, step in steps
    ]


def test_a_drawn_loss_of_power_spares_the_last_in_sync_replica_and_ends_when_the_broker_has_left_the_isr(
    world: VirtualWorld,
) -> None:
    cluster = world.cluster
    times = ((1_000, 1), (1_200, 2), (1_400, 3))
    faults = drawn(*((at_ms, f"lose-power: {broker}, for: 100ms") for at_ms, broker in times))
    injector = FaultInjector(world, faults)
    cluster.run_for(1_500)
    assert [fault.found for fault in injector.injected] == ["broker-1", "broker-2"]
    assert "broker-3 has the only in-sync replica of orders-0 that is alive" in injector.missed[0]
    assert [broker.name for broker in injector.powerless] == ["broker-1", "broker-2"]
    cluster.run_for(15_000)
    assert injector.powerless == ()
    assert all(broker.is_running for broker in cluster.brokers)
    injector.stop()
    cluster.settle()


def test_no_drawn_fault_starts_a_broker_that_has_lost_power_before_it_has_left_the_isr(world: VirtualWorld) -> None:
    """It could be elected without the records that it has lost."""
    cluster = world.cluster
    faults = drawn(
        (500, "kill: 1, for: 20s"), (600, "restart: 1"), (20_300, "lose-power: 1, for: 100ms"), (20_400, "restart: 1")
    )
    injector = FaultInjector(world, faults)
    cluster.run_for(20_000)
    assert cluster.broker(1).is_running
    cluster.run_for(1_000)  # the end of the kill is in this time
    assert [fault.action.name for fault in injector.injected] == ["kill", "restart", "lose-power"]
    assert "broker-1 has lost power and is still in an ISR" in injector.missed[0]
    assert [broker.name for broker in injector.powerless] == ["broker-1"]
    cluster.run_for(15_000)
    assert cluster.broker(1).is_running
    injector.stop()
    cluster.settle()


@pytest.mark.parametrize("step", ["stop: 3, for: 1s", "restart: 3", "expire: 3"])
def test_no_drawn_fault_moves_the_leadership_to_a_broker_that_has_lost_power(world: VirtualWorld, step: str) -> None:
    """Its session has not expired yet, so that the controller takes it for live."""
    cluster = world.cluster
    faults = drawn((1_000, "lose-power: 1, for: 100ms"), (1_200, "lose-power: 2, for: 100ms"), (1_400, step))
    injector = FaultInjector(world, faults)
    cluster.run_for(1_500)
    assert [fault.found for fault in injector.injected] == ["broker-1", "broker-2"]
    assert "broker-3 has the only in-sync replica of orders-0 that is alive" in injector.missed[0]
    cluster.run_for(15_000)
    assert injector.powerless == ()
    injector.stop()
    cluster.settle()
