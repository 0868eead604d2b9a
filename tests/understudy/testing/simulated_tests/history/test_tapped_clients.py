"""`WireHistory` with the bytes of our own clients on a simulated cluster: it shows what the clients have seen."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import pytest

from understudy.checks.client_history import SendOutcome
from understudy.clusters.clients.batching_producer import BatchingProducer, ProducerSettings
from understudy.clusters.clients.client_load import ClientLoad
from understudy.clusters.clients.group_consumer import ConsumerSettings, GroupConsumer
from understudy.clusters.clients.group_member import MemberSettings
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.compression import Compression
from understudy.foundation.wire.network import Connection, Network, ServerSocket
from understudy.testing.simulated_tests.history.cluster_history import Caller, ClusterHistory
from understudy.testing.simulated_tests.history.final_logs import read_final_log
from understudy.testing.simulated_tests.history.wire_history import WireHistory
from understudy.testing.simulated_tests.history.wire_records import FinalLog, Partition

ORDERS = [TopicPartition("orders", number) for number in range(2)]


class TappedConnection:
    """A connection whose bytes a history gets."""

    def __init__(self, tap: Tap, number: int, connection: Connection) -> None:
        self._tap = tap
        self._number = number
        self._connection = connection
        self.peer = connection.peer

    async def send(self, data: bytes) -> None:
        self._tap.wire.sent(self._number, data, self._tap.cluster.now_ms)
        await self._connection.send(data)

    async def receive(self) -> bytes:
        data = await self._connection.receive()
        self._tap.wire.received(self._number, data, self._tap.cluster.now_ms)
        return data

    def close(self) -> None:
        self._tap.wire.closed(self._number, self._tap.cluster.now_ms)
        self._connection.close()


class Tap:
    """The network of a client process; its bytes are in `history`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.wire = WireHistory()
        self.history = ClusterHistory(
            self.wire, lambda: final_logs(cluster), lambda: Caller("service", 1, cluster.now_ms)
        )
        self._network: Network = cluster.client_network
        self._connections = 0

    async def connect(self, host: str, port: int, *, timeout_ms: int) -> Connection:
        connection = await self._network.connect(host, port, timeout_ms=timeout_ms)
        self._connections += 1
        self.wire.opened(self._connections, "service", 1, f"{host}:{port}", self.cluster.now_ms)
        return TappedConnection(self, self._connections, connection)

    async def bind(self, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]) -> ServerSocket:
        raise AssertionError("a client binds no port")


def final_logs(cluster: SimulatedCluster) -> dict[Partition, FinalLog]:
    """The logs of the leaders of `orders`."""
    found: dict[Partition, FinalLog] = {}
    for each in ORDERS:
        running = cluster.leader(*each).instance
        assert running is not None
        log = running.hosted[each].log
        data = log.read(log.log_start_offset, 1 << 30, end_offset=log.high_watermark)
        found[each] = read_final_log(data, start=log.log_start_offset, end=log.high_watermark)
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_what_producers_and_consumers_saw_while_brokers_failed_is_in_the_history(seed: int) -> None:
    """Two producers and a consumer, while a broker is killed and another paused; asked in the middle and at the end."""
    with SimulatedCluster(seed) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=2, replication_factor=3)
        tap = Tap(cluster)
        load = ClientLoad(tap, cluster.simulator.clock, lambda: cluster.bootstrap, ORDERS)
        for number in (1, 2):
            cluster.begin(load.produce(f"producer-{number}", -1, random.Random(number), gap_s=(0.05, 0.2)))
        cluster.begin(load.consume("consumer"))
        cluster.run_for(3_000)
        tap.history.assert_in_order()
        cluster.leader("orders", 0).kill()
        cluster.run_for(8_000)
        cluster.broker(2).pause() if cluster.broker(2).is_running else None
        cluster.run_for(6_000)
        cluster.heal()
        load.is_stopping = True
        cluster.run_for(25_000)
        cluster.settle()

        history = tap.history
        expected = {
            (send.partition, send.value.encode(), send.offset)
            for send in load.history.sends
            if send.outcome is SendOutcome.OK
        }
        assert len(expected) > 50
        assert {((each.topic, each.partition), each.value, each.offset) for each in history.acknowledged} == expected
        assert len({each.value for each in history.sent}) == len({each.send for each in history.sent})
        assert any(each.attempt > 1 for each in history.sent)
        read = {
            (poll.partition, offset, value.encode()) for poll in load.history.polls for offset, value in poll.records
        }
        assert {((each.topic, each.partition), each.offset, each.value) for each in history.delivered} >= read
        assert history.unreadable == []
        history.assert_nothing_lost("orders")
        history.assert_once("orders")
        history.assert_in_order("orders")


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_what_a_group_was_given_and_has_committed_is_in_the_history(compression: Compression) -> None:
    with SimulatedCluster(3) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=2, replication_factor=3)
        tap = Tap(cluster)
        clock = cluster.simulator.clock
        settings = ProducerSettings(bootstrap=cluster.bootstrap, client_id="shop", compression=compression)
        producer = BatchingProducer(tap, clock, "orders", settings, random.Random(1))
        member = MemberSettings(group_id="billing", topics=("orders",))
        consumer = GroupConsumer(
            tap,
            clock,
            ConsumerSettings(
                bootstrap=tuple(cluster.bootstrap),
                client_id="billing",
                member=member,
                resets_to_earliest=True,
                auto_commit_interval_ms=1_000,
            ),
        )
        given: list[tuple[Partition, int]] = []

        async def send() -> None:
            for number in range(20):
                await producer.send(b"%d" % (number % 5), b"order %d" % number)
            await producer.flush()

        async def consume(seconds: float) -> None:
            until_ms = cluster.now_ms + seconds * 1000
            while cluster.now_ms < until_ms:
                for each in await consumer.poll(200):
                    given.append((each.partition, each.offset))
                    tap.history.processed(each.partition.topic, each.partition.partition, each.offset)

        cluster.ask(send())
        cluster.ask(consume(8))
        cluster.ask(consumer.close())

        history = tap.history
        assert len(given) == 20
        assert [(ORDERS[each.partition], each.offset) for each in history.marked] == given
        assert {(each.client.client_id, each.group, each.member != "") for each in history.delivered} == {
            ("billing", "billing", True)
        }
        assert sorted((ORDERS[each.partition], each.offset) for each in history.delivered) == sorted(given)
        last = {(each.topic, each.partition): each.offset for each in history.committed}
        assert last == {partition: log.end for partition, log in final_logs(cluster).items()}
        assert sum(last.values()) == 20
        assert [set(each.partitions) for each in history.assigned] == [set(ORDERS)]
        assert all(each.producer_id >= 0 and each.sequence >= 0 for each in history.sent)
        history.assert_nothing_lost(group="billing")
        history.assert_once(group="billing")
        history.assert_in_order()
        history.assert_committed_is_processed("billing")
