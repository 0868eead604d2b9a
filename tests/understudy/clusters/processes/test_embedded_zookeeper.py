"""`EmbeddedZooKeeper`: starting, faults, data and sessions of the server in the PySpark wheel."""

from __future__ import annotations

import contextlib
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from understudy.clusters.java import JavaRuntime
from understudy.clusters.processes import linux
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper, four_letter_word
from understudy.clusters.processes.free_ports import free_ports
from understudy.clusters.processes.zookeeper_jars import VARIABLE
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path / "a folder with späces 🎭") as running:
        yield running


@pytest.fixture
def client(server: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    with connected(server) as client:
        yield client


@contextlib.contextmanager
def connected(server: EmbeddedZooKeeper, connection_retry: dict[str, int] | None = None) -> Iterator[KazooClient]:
    client = KazooClient(server.connect_string, timeout=30, connection_retry=connection_retry)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_apache_zookeeper_listens_on_a_free_port_of_the_loopback_interface(server: EmbeddedZooKeeper) -> None:
    assert "Zookeeper version: 3.9" in four_letter_word("127.0.0.1", server.port, "srvr")
    assert linux.listening_ports(server.pid) == (server.port,)
    configuration = four_letter_word("127.0.0.1", server.port, "conf")
    assert "maxClientCnxns=0" in configuration
    assert "clientPort=" in configuration


def test_only_the_owner_may_read_the_data_folder(server: EmbeddedZooKeeper) -> None:
    assert stat.S_IMODE((server.directory / "data").stat().st_mode) == 0o700


def test_two_servers_run_side_by_side(server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "other") as other:
        assert other.port != server.port
        assert other.transaction_log_dir != server.transaction_log_dir


@pytest.mark.parametrize("requested_ms", [300, 6_000, 60_000])
def test_a_session_gets_the_timeout_that_the_client_requests(server: EmbeddedZooKeeper, requested_ms: int) -> None:
    client = KazooClient(server.connect_string, timeout=requested_ms / 1000)
    client.start(timeout=30)
    try:
        # On a busy machine a session this short may just be reconnecting.
        deadline = time.monotonic() + 30
        while (
            "to=" not in (sessions := four_letter_word("127.0.0.1", server.port, "cons"))
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        assert f"to={requested_ms}," in sessions
    finally:
        client.stop()
        client.close()


def test_a_killed_server_starts_on_the_same_port_with_its_znodes_and_sessions(server: EmbeddedZooKeeper) -> None:
    # This client does not reconnect. A starting ZooKeeper that refuses a connection before it has its database fails in
    # `removeCnxn`, keeps the socket open and never answers: kazoo would wait until its session is over.
    with connected(server, connection_retry={"max_tries": 0}) as owner:
        owner.create("/kept", b"value")
        owner.create("/mine", ephemeral=True)
        port, (session, _) = server.port, owner.client_id
        server.kill()
    assert not server.is_running
    server.start()
    assert server.port == port
    with connected(server) as reader:
        assert reader.get("/kept")[0] == b"value"
        assert reader.get("/mine")[1].ephemeralOwner == session


def test_the_transaction_log_is_in_the_named_folder(server: EmbeddedZooKeeper, client: KazooClient) -> None:
    client.create("/written-down")
    logs = sorted(server.transaction_log_dir.glob("log.*"))
    assert any(b"/written-down" in log.read_bytes() for log in logs)


def test_a_paused_server_answers_after_it_is_resumed(server: EmbeddedZooKeeper, client: KazooClient) -> None:
    server.pause()
    answer = client.exists_async("/")
    with pytest.raises(KazooTimeoutError):
        answer.get(timeout=0.3)
    server.resume()
    assert answer.get(timeout=20) is not None


def test_stop_ends_the_server_by_sigterm_and_may_be_called_twice(server: EmbeddedZooKeeper) -> None:
    process = server.process
    server.stop()
    server.stop()
    assert process.exit_code in (0, 128 + signal.SIGTERM)


def test_a_java_that_fails_is_reported_with_its_output(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'not a JVM' >&2\nexit 3\n")
    java.chmod(0o755)
    broken = JavaRuntime(home=tmp_path, version=21, why="from a test")
    with pytest.raises(ZooKeeperNotStarted, match=r"(?s)exit code 3.*not a JVM"), EmbeddedZooKeeper(java=broken):
        pass


def test_an_address_of_another_machine_is_reported_as_one_that_cannot_be_bound(tmp_path: Path) -> None:
    foreign = EmbeddedZooKeeper(tmp_path, port=21_810, host="203.0.113.7")
    with (
        pytest.raises(
            ZooKeeperNotStarted, match=r"cannot bind port 21810 of 203\.0\.113\.7: .*give an address of this"
        ),
        foreign,
    ):
        pass


def test_a_port_that_is_taken_is_reported(
    server: EmbeddedZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.clusters.processes.embedded_zookeeper._BIND_ATTEMPTS", 2)
    second = EmbeddedZooKeeper(tmp_path / "second", port=server.port)
    with pytest.raises(ZooKeeperNotStarted, match=f"port {server.port} of 127.0.0.1 is taken"), second:
        pass


def test_a_server_without_jars_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ZooKeeperNotStarted, match=r"no zookeeper-\[0-9\]\*\.jar in .*install the wheel"):
        EmbeddedZooKeeper(tmp_path).start()


# ------------------------------------------------------------------ a member of an ensemble


def addresses(count: int) -> dict[int, str]:
    """Return the entries of an ensemble with free ports."""
    ports = iter(free_ports(2 * count))
    return {number: f"127.0.0.1:{next(ports)}:{next(ports)}" for number in range(1, count + 1)}


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[EmbeddedZooKeeper]]:
    """Three members that have not been started; each is stopped at the end."""
    servers = addresses(3)
    created = [EmbeddedZooKeeper(tmp_path / str(number), my_id=number, servers=servers) for number in servers]
    yield created
    for member in created:
        member.stop()


def answer_of(member: EmbeddedZooKeeper) -> str:
    return four_letter_word("127.0.0.1", member.port, "srvr")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within a minute"
        time.sleep(0.02)


def leader_among(members: list[EmbeddedZooKeeper]) -> EmbeddedZooKeeper | None:
    return next((member for member in members if member.is_running and "Mode: leader" in answer_of(member)), None)


def test_a_member_starts_without_a_quorum_and_serves_with_one(members: list[EmbeddedZooKeeper]) -> None:
    first, second, _ = members
    first.start()
    assert "not currently serving requests" in answer_of(first)
    assert (first.directory / "data" / "myid").read_text() == "1\n"
    second.start()
    wait_until(lambda: "Mode:" in answer_of(first) and "Mode:" in answer_of(second))
    with connected(first) as client:
        client.create("/written", b"by the first")
    with connected(second) as client:
        client.sync("/written")
        assert client.get("/written")[0] == b"by the first"


def test_an_ensemble_whose_leader_is_killed_keeps_its_znodes_and_takes_the_server_back(
    members: list[EmbeddedZooKeeper],
) -> None:
    for member in members:
        member.start()
    wait_until(lambda: leader_among(members) is not None)
    leader = leader_among(members)
    assert leader is not None
    with connected(leader) as client:
        client.create("/kept")
    leader.kill()
    wait_until(lambda: leader_among(members) is not None)
    new_leader = leader_among(members)
    assert new_leader is not None
    with connected(new_leader) as client:
        client.create("/written-without-the-old-leader")
    leader.start()
    wait_until(lambda: "Mode: follower" in answer_of(leader))
    with connected(leader) as client:
        client.sync("/")
        assert {"kept", "written-without-the-old-leader"} <= set(client.get_children("/"))


def test_the_bounds_of_a_member_are_in_ticks_and_can_be_set(tmp_path: Path) -> None:
    member = EmbeddedZooKeeper(
        tmp_path,
        my_id=1,
        servers=addresses(2),
        tick_time_ms=300,
        settings={"syncLimit": "7", "autopurge.purgeInterval": "1"},
    )
    try:
        member.start()
        config = (tmp_path / "zoo.cfg").read_text().splitlines()
    finally:
        member.stop()
    assert {"tickTime=300", "initLimit=34", "syncLimit=7", "autopurge.purgeInterval=1"} <= set(config)


def test_the_entry_of_a_member_may_name_its_client_port(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    servers = addresses(2)
    servers[1] += f";127.0.0.1:{port}"
    member = EmbeddedZooKeeper(tmp_path, my_id=1, servers=servers)
    try:
        member.start()
        assert member.connect_string == f"127.0.0.1:{port}"
    finally:
        member.stop()


def test_the_transaction_log_may_be_on_a_disk_of_its_own(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "server", settings={"dataLogDir": str(tmp_path / "log")}) as server:
        with connected(server) as client:
            client.create("/written-down")
        assert server.transaction_log_dir == tmp_path / "log" / "version-2"
        assert any(b"/written-down" in log.read_bytes() for log in server.transaction_log_dir.glob("log.*"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"servers": {1: "a:1:2", 2: "b:1:2"}}, r"my_id=None, .* servers \[1, 2\]"),
        ({"servers": {1: "a:1:2", 2: "b:1:2"}, "my_id": 4}, r"my_id=4, .* give the id of one of them"),
        ({"servers": {1: "a:1:2;2181"}, "my_id": 1, "port": 2182}, r"server\.1=a:1:2;2181 and port=2182"),
        ({"servers": {1: "a:1:2;x"}, "my_id": 1}, r"expected host:peerPort:electionPort;clientPort"),
        ({"settings": {"clientPort": "2181"}}, "clientPort is set by the parameter port"),
        ({"settings": {"server.1": "a:1:2"}}, r"server\.1 is set by the parameter servers"),
    ],
)
def test_a_member_that_contradicts_its_ensemble_is_refused(
    tmp_path: Path, arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        EmbeddedZooKeeper(tmp_path, **arguments)
