"""`cluster.json`: its content, and the errors if it cannot be read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from understudy.clusters.processes import linux
from understudy.clusters.processes.run_folder import (
    BrokerEntry,
    ClusterEntry,
    NotARunFolder,
    ProcessEntry,
    read_cluster_file,
    this_process,
    write_cluster_file,
)


def broker(pid: int | None, started: int) -> BrokerEntry:
    return BrokerEntry(
        id=1,
        rack=None,
        pid=pid,
        started=started,
        port=9092,
        config="broker-1/server.properties",
        log="b.log",
        events="events",
    )


def cluster() -> ClusterEntry:
    return ClusterEntry(
        version=1,
        run="20261121-120000-abcd",
        owner=this_process(),
        zookeeper="127.0.0.1:2181/chroot",
        zookeeper_process=this_process(),
        zookeeper_transaction_log="zookeeper/data/version-2",
        bootstrap="127.0.0.1:9092",
        brokers=(broker(None, 0),),
        events="testbed/events",
    )


def test_cluster_json_is_read_as_written_and_no_temporary_file_is_left(tmp_path: Path) -> None:
    write_cluster_file(tmp_path, cluster())
    write_cluster_file(tmp_path, cluster())
    assert read_cluster_file(tmp_path) == cluster()
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]


def test_cluster_json_has_the_keys_that_other_programs_read(tmp_path: Path) -> None:
    write_cluster_file(tmp_path, cluster())
    found = json.loads((tmp_path / "cluster.json").read_text())
    assert {"version", "zookeeper", "bootstrap", "brokers"} <= set(found)
    assert {"id", "pid", "port", "config", "log", "events"} <= set(found["brokers"][0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "is no run folder: cluster.json: No such file or directory; give the one that `understudy up` named"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"version": 1}', "missing required field `run`"),
    ],
)
def test_a_folder_without_a_readable_cluster_json_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(NotARunFolder, match=message):
        read_cluster_file(tmp_path)


def test_a_cluster_json_of_another_version_is_refused(tmp_path: Path) -> None:
    write_cluster_file(tmp_path, cluster())
    newer = json.loads((tmp_path / "cluster.json").read_text()) | {"version": 2}
    (tmp_path / "cluster.json").write_text(json.dumps(newer))
    with pytest.raises(NotARunFolder, match=r"has version 2, and this program reads 1"):
        read_cluster_file(tmp_path)


def test_a_process_is_identified_by_pid_and_start_time() -> None:
    mine = this_process()
    assert mine.is_running
    assert broker(mine.pid, mine.started).state == "running"
    if linux.can_list_ports():
        later_process = ProcessEntry(pid=mine.pid, started=mine.started + 1)
        assert not later_process.is_running
        assert broker(mine.pid, mine.started + 1).state == "gone"
    assert broker(None, 0).state == "gone"
    assert os.getpid() == mine.pid


STARTING = """{
  "version": 1, "run": "20261122-030405-beef", "owner": {"pid": 4711, "started": 99}, "zookeeper": "127.0.0.1:40001",
  "zookeeper_process": {"pid": 4712, "started": 100}, "zookeeper_transaction_log": "zookeeper/data/version-2",
  "bootstrap": "", "brokers": [{"id": 1, "rack": null, "pid": 4713, "started": 101, "port": 0,
  "config": "broker-1/server.properties", "log": "broker-1/broker.log", "events": "broker-1/events"}],
  "events": "testbed/events"
}"""
"""The `cluster.json` that release 0.1.0 wrote while the brokers were starting."""


def test_a_cluster_json_without_addresses_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(STARTING)
    found = read_cluster_file(tmp_path)
    assert (found.bootstrap, found.brokers[0].port) == ("", 0)
    assert not found.owner.is_running
