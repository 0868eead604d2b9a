"""No acknowledged record is lost on real processes, under every fault against every role.

`make soak` runs 200 rounds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # as its documentation does

from tests.durability.ledger import Ledger
from tests.durability.replicas import divergent_replicas
from tests.durability.rounds import RECORDS_PER_ROUND, run
from tests.shares import share_of
from understudy.clusters.processes.local_cluster import LocalCluster

ROUNDS = int(os.environ.get("SOAK_ROUNDS") or share_of("durability-rounds"))

pytestmark = pytest.mark.timeout(600 + 30 * ROUNDS)

TOPIC, PARTITIONS = "ledger", 3


def test_no_acknowledged_record_is_lost(tmp_path: Path) -> None:
    with LocalCluster(3, directory=tmp_path / "run", session_timeout_ms=3_000) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        for created in admin.create_topics([topic]).values():
            created.result(30)
        cluster.settle()
        ledger = Ledger(cluster.bootstrap, TOPIC)
        ledger.start()
        try:
            done = run(cluster, ledger, TOPIC, ROUNDS, seed=7, report=print)
        finally:
            ledger.stop()
        found = ledger.compare()
        cluster.check()
        cluster.stop()
    print(f"{found.acknowledged} records acknowledged, {found.read} read, {sum(ledger.failed.values())} refused")
    assert done.total() == ROUNDS
    assert found.acknowledged >= ROUNDS * RECORDS_PER_ROUND, ledger.failed
    assert found.lost == ()
    assert found.duplicates == ()
    directories = {f"broker-{number}": tmp_path / "run" / f"broker-{number}" / "data" for number in (1, 2, 3)}
    assert divergent_replicas(directories, [f"{TOPIC}-{number}" for number in range(PARTITIONS)]) == []
