"""`understudy preferred-leaders --zookeeper` leaves a request for the controller in ZooKeeper."""

from __future__ import annotations

from pathlib import Path

from tests.understudy.kafka_tools.zookeeper.bed import CONNECT, ZooKeeperBed

ASSIGNMENT = b'{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}'
REQUEST = "/admin/preferred_replica_election"


def test_the_named_partitions_are_requested_and_others_skipped(bed: ZooKeeperBed, tmp_path: Path) -> None:
    bed.make("/brokers/topics/orders", data=ASSIGNMENT)
    chosen = tmp_path / "chosen.json"
    chosen.write_text('{"partitions": [{"topic": "orders", "partition": 1}, {"topic": "none", "partition": 0}]}')
    words = ("--zookeeper", CONNECT, "--path-to-json-file", str(chosen))
    done = bed.run("preferred-leaders", *words)
    assert done.code == 0
    assert done.out.splitlines()[3:] == [
        "Created preferred replica election path with orders-1",
        "Successfully started preferred replica election for partitions Set(orders-1)",
        "Skipping preferred replica leader election for partition none-0 since it doesn't exist.",
    ]
    assert bed.data(REQUEST) == '{"version":1,"partitions":[{"topic":"orders","partition":1}]}'
    again = bed.run("preferred-leaders", *words)
    assert again.code == 1
    assert "AdminCommandFailedException: Admin command failed\nCaused by: " in again.err
    assert "currently in progress for orders-1. Aborting operation" in again.err


def test_without_a_file_all_partitions_are_requested(bed: ZooKeeperBed) -> None:
    bed.make("/brokers/topics/orders", data=ASSIGNMENT)
    assert bed.run("preferred-leaders", "--zookeeper", CONNECT).code == 0
    assert bed.data(REQUEST) == (
        '{"version":1,"partitions":[{"topic":"orders","partition":0},{"topic":"orders","partition":1}]}'
    )


def test_a_file_names_each_partition_once(bed: ZooKeeperBed, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen.json"
    words = ("--zookeeper", CONNECT, "--path-to-json-file", str(chosen))
    chosen.write_text("{}")
    assert "Preferred replica election data is empty" in bed.run("preferred-leaders", *words).err
    chosen.write_text('{"partitions": [{"topic": "a", "partition": 0}, {"topic": "a", "partition": 0}]}')
    assert "contains duplicate partitions: a-0" in bed.run("preferred-leaders", *words).err


def test_the_request_goes_to_zookeeper_or_to_a_broker(bed: ZooKeeperBed) -> None:
    for words in ((), ("--zookeeper", CONNECT, "--bootstrap-server", "h:1")):
        refused = bed.run("preferred-leaders", "--path-to-json-file", "none.json", *words)
        assert refused.code == 1
        assert refused.err.startswith("Exactly one of '[bootstrap-server]' or '[zookeeper]' must be provided\n")
