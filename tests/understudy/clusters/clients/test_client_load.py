"""`ClientLoad` on a `LoopThread`: it produces while a broker is killed, and missing records are reported afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.checks.client_history import AcknowledgedRecordsAreRead, ClientHistory, check_clients
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.client_load import ClientLoad
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.loop_thread import LoopThread
from understudy.clusters.processes.testbed_log import client_logs
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import ClientRequestEnded, LogSeen, ProcessStarted
from understudy.history.reading.missing import find_missing
from understudy.history.reading.reader import read
from understudy.history.reading.run_builder import run_records_of

TOPIC = "orders"
PARTITIONS = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]


def test_acknowledged_records_are_found_again_after_a_broker_was_killed_and_missing_ones_are_reported(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    with (
        LocalCluster(2, zookeeper=zookeeper, directory=tmp_path / "run", session_timeout_ms=3_000) as cluster,
        LoopThread("producers") as clients,
    ):
        addresses = [broker.address for broker in cluster.brokers]
        admin = AdminClient(SocketNetwork(), addresses)

        async def create() -> None:
            await admin.create_topic(TOPIC, partitions=len(PARTITIONS), replication_factor=2)

        def load_with(history: ClientHistory) -> ClientLoad:
            return ClientLoad(
                SocketNetwork(),
                MachineClock(),
                lambda: addresses,
                PARTITIONS,
                history=history,
                open_log=client_logs(cluster.directory, cluster.run),
            )

        asyncio.run(create())
        history = ClientHistory()
        load = load_with(history)
        for producer in load.producers((0.02, 0.06)):
            clients.begin(producer)
        cluster.wait_until(lambda: history.acknowledged > 50, "records are acknowledged")
        killed = cluster.controller()
        killed.kill()
        before = history.acknowledged
        cluster.wait_until(lambda: history.acknowledged > before + 50, "records are acknowledged again")
        killed.start()
        cluster.settle()
        load.is_stopping = True
        assert clients.wait(30)
        clients.ask(load.read_all(), 60)
        assert history.read_to_the_end == set(PARTITIONS)
        judged = check_clients(history)
        assert (judged.violations, judged.times_tested["H1"]) == ([], history.acknowledged)
        asyncio.run(admin.delete_topics(TOPIC))
        # The marker goes last: as long as it is there, the topic cannot be created again.
        cluster.wait_until(lambda: not cluster.view.picture().topics_to_delete, "the topic is deleted")
        asyncio.run(create())
        read_later = ClientHistory(sends=history.sends)
        clients.ask(load_with(read_later).read_all(), 60)
        assert len(list(AcknowledgedRecordsAreRead().contradictions(read_later))) == history.acknowledged
        cluster.stop()
    require_logs_of_clients(tmp_path / "run", history.acknowledged)


def require_logs_of_clients(run: Path, acknowledged: int) -> None:
    """Each producer has a whole log in the run folder, with all that was acknowledged; the reader at the end has none.

    The testbed has seen their ends.
    """
    reading = read([run])
    assert reading.findings == ()
    assert find_missing(run_records_of(reading.records, reading.sequences)) == ()
    names = {f"producer-{each}" for each in PARTITIONS}
    started = [each.data for each in reading.records if each.node in names and isinstance(each.data, ProcessStarted)]
    assert [each.role for each in started] == ["client"] * len(names)
    ended = [each.data for each in reading.records if isinstance(each.data, ClientRequestEnded)]
    assert sum(each.records for each in ended if each.api == "Produce" and each.error == "NONE") == acknowledged
    assert any(each.is_sent_again for each in ended)
    assert names <= {each.data.node for each in reading.records if isinstance(each.data, LogSeen)}
    assert not (run / "final-consumer").exists()
