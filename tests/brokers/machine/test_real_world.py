"""Tests of a broker as a process: sockets, points armed in a file, start and signals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
import structlog

from tests.brokers.parts import Recorder
from tests.shares import at_night
from understudy.brokers.__main__ import main, read_properties
from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.reading import read_config
from understudy.brokers.exits import FAILED, TRY_AGAIN
from understudy.brokers.machine.clock_identity import clock_identity
from understudy.brokers.machine.disk import FileDisk
from understudy.brokers.machine.real_world import FilePoints, node_name, real_world
from understudy.brokers.machine.socket_network import READ_AHEAD_BYTES, SocketConnection, SocketNetwork
from understudy.clusters.processes.cluster_view import ClusterView
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.foundation.eventlog.fences import SWITCHES
from understudy.foundation.eventlog.records import ProcessExiting, ProcessStarted
from understudy.foundation.wire.network import Connection, ConnectionFailed, ConnectionLost, Network
from understudy.foundation.zk.client import Create, Created
from understudy.foundation.zk.kazoo_client import KazooZooKeeper
from understudy.history.reading.reader import read


async def echo(connection: Connection) -> None:
    while data := await connection.receive():
        await connection.send(data)


@contextlib.asynccontextmanager
async def connected_to_an_echo() -> AsyncIterator[SocketConnection]:
    server = await SocketNetwork().bind("127.0.0.1", 0, echo)
    server.start()
    connection = await SocketNetwork().connect("127.0.0.1", server.port, timeout_ms=30_000)
    yield connection
    connection.close()
    await server.close()


def test_connection_made_before_the_start_waits_and_is_served() -> None:
    async def scenario() -> tuple[bytes, bytes]:
        network = SocketNetwork()
        server = await network.bind("127.0.0.1", 0, echo)
        early = await network.connect("127.0.0.1", server.port, timeout_ms=30_000)
        await early.send(b"early")
        await asyncio.sleep(0.02)
        server.start()
        answer = await early.receive()
        await server.close()
        after = await early.receive()
        early.close()
        await asyncio.sleep(0)
        return answer, after

    assert asyncio.run(scenario()) == (b"early", b"")


def test_address_that_cannot_be_connected_or_bound_is_named() -> None:
    async def scenario() -> None:
        network = SocketNetwork()
        server = await network.bind("127.0.0.1", 0, echo)
        with pytest.raises(
            ConnectionFailed, match=rf"127\.0\.0\.1:{server.port} cannot be bound: Address already in use"
        ):
            await network.bind("127.0.0.1", server.port, echo)
        port = server.port
        await server.close()
        with pytest.raises(ConnectionFailed, match=rf"127\.0\.0\.1:{port} cannot be reached: "):
            await network.connect("127.0.0.1", port, timeout_ms=30_000)

    asyncio.run(scenario())


def test_outgoing_connections_are_bound_to_the_configured_address(tmp_path: Path) -> None:
    async def peer_of_a_connection(network: Network) -> str:
        found: list[str] = []

        async def note(connection: Connection) -> None:
            found.append(connection.peer)
            connection.close()

        server = await network.bind("127.0.0.1", 0, note)
        server.start()
        connection = await network.connect("127.0.0.1", server.port, timeout_ms=30_000)
        assert await connection.receive() == b""
        connection.close()
        await server.close()
        return found[0].partition(":")[0]

    properties = {"broker.id": "7", "zookeeper.connect": "z", "log.dir": str(tmp_path)}
    bound = read_config({**properties, "understudy.source.address": "127.0.0.1"})
    assert asyncio.run(peer_of_a_connection(real_world(bound).network)) == "127.0.0.1"
    if sys.platform == "linux":
        other = read_config({**properties, "understudy.source.address": "127.0.1.7"})
        assert asyncio.run(peer_of_a_connection(real_world(other).network)) == "127.0.1.7"


def test_a_source_address_of_another_machine_is_reported() -> None:
    async def scenario() -> None:
        network = SocketNetwork(source_address="192.0.2.1")  # of no interface (RFC 5737)
        with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:9 cannot be reached: .*192\.0\.2\.1"):
            await network.connect("127.0.0.1", 9, timeout_ms=30_000)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 70_000), ("127.0.0.1", -1), ("a..b", 1), ("x" * 70, 1), ("nul\0", 1)], ids=repr
)
def test_invalid_address_is_reported_like_an_unreachable_one(host: str, port: int) -> None:
    async def scenario() -> None:
        network = SocketNetwork()
        with pytest.raises(ConnectionFailed, match=r"cannot be reached: ."):
            await network.connect(host, port, timeout_ms=30_000)
        if host != "127.0.0.1":
            with pytest.raises(ConnectionFailed, match=r"cannot be bound: ."):
                await network.bind(host, port, echo)

    asyncio.run(scenario())


def test_sent_bytes_arrive_after_close() -> None:
    async def scenario() -> set[int]:
        async def sit(connection: Connection) -> None:
            await asyncio.sleep(3600)

        server = await SocketNetwork().bind("127.0.0.1", 0, sit)
        server.start()
        connection = await SocketNetwork().connect("127.0.0.1", server.port, timeout_ms=30_000)
        left_behind: set[int] = set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                while True:
                    await connection.send(bytes(4096))
                    left_behind.add(connection._transport.get_write_buffer_size())
        connection.close()
        await server.close()
        return left_behind

    assert asyncio.run(scenario()) == {0}


def test_listener_without_free_descriptors_logs_once_and_accepts_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> bytes:
        server = await SocketNetwork().bind("127.0.0.1", 0, echo)
        accept, failures = server._accept_one, iter([OSError(24, "Too many open files")] * 2)

        async def short_of_descriptors() -> SocketConnection:
            for failure in failures:
                raise failure
            return await accept()

        monkeypatch.setattr(server, "_accept_one", short_of_descriptors)
        server.start()
        client = await SocketNetwork().connect("127.0.0.1", server.port, timeout_ms=30_000)
        await client.send(b"still there?")
        answer = await client.receive()
        client.close()
        await server.close()
        return answer

    logger = structlog.testing.CapturingLogger()
    monkeypatch.setattr("understudy.brokers.machine.socket_network.log", logger)
    assert asyncio.run(scenario()) == b"still there?"
    assert [(call.args[0], call.kwargs["why"]) for call in logger.calls] == [
        ("cannot accept connections, trying again", "[Errno 24] Too many open files")
    ]


def test_listener_that_closes_while_it_accepts_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> tuple[bytes, bool]:
        server, accepting = await SocketNetwork().bind("127.0.0.1", 0, echo), asyncio.Event()
        client = await SocketNetwork().connect("127.0.0.1", server.port, timeout_ms=1_000)
        taken: list[socket.socket] = []

        async def takes_for_ever(_: object, sock: socket.socket) -> None:
            taken.append(sock)
            accepting.set()
            await asyncio.sleep(3600)

        monkeypatch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", takes_for_ever)
        server.start()
        await accepting.wait()
        await server.close()
        answer = await client.receive()
        client.close()
        await asyncio.sleep(0)
        return answer, taken[0].fileno() == -1

    assert asyncio.run(scenario()) == (b"", True)


def test_bytes_that_are_not_received_yet_are_read_ahead_up_to_a_limit() -> None:
    """A client that sends without end fills its own socket, and loses nothing."""

    async def scenario() -> tuple[bool, int, int]:
        accepted: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

        async def sit(connection: Connection) -> None:
            accepted.set_result(connection)
            await asyncio.sleep(3600)

        server = await SocketNetwork().bind("127.0.0.1", 0, sit)
        server.start()
        client = await SocketNetwork().connect("127.0.0.1", server.port, timeout_ms=30_000)
        flood = asyncio.create_task(client.send(bytes(32 * 1024 * 1024)))
        serving = await accepted
        assert isinstance(serving, SocketConnection)
        while serving._is_reading:
            await asyncio.sleep(0.001)
        was_held, ahead = not flood.done(), serving._unread_bytes
        received = 0
        while received < 32 * 1024 * 1024:
            received += len(await serving.receive())
        await flood
        client.close()
        await server.close()
        return was_held, ahead, received

    was_held, ahead, received = asyncio.run(scenario())
    assert was_held
    assert ahead <= 2 * READ_AHEAD_BYTES
    assert received == 32 * 1024 * 1024


def test_a_task_that_waits_for_bytes_runs_in_the_turn_of_the_loop_that_received_them() -> None:
    async def scenario() -> list[str]:
        async with connected_to_an_echo() as connection:
            order: list[str] = []

            async def receive() -> None:
                order.append((await connection.receive()).decode())
                order.append(asyncio.current_task().get_name())  # type: ignore[union-attr]  # it is called in a task

            receiving = asyncio.create_task(receive(), name="receiving")
            await asyncio.sleep(0)
            connection._chunk[:4] = b"here"
            asyncio.get_running_loop().call_soon(connection.buffer_updated, 4)
            asyncio.get_running_loop().call_soon(order.append, "later in this turn")
            await receiving
        return order

    assert asyncio.run(scenario()) == ["here", "receiving", "later in this turn"]


def test_bytes_that_arrive_while_a_wait_for_them_is_cancelled_are_received_later() -> None:
    async def scenario() -> bytes:
        async with connected_to_an_echo() as connection:
            receiving = asyncio.create_task(connection.receive())
            await asyncio.sleep(0)
            receiving.cancel()
            connection._chunk[:4] = b"kept"
            connection.buffer_updated(4)
            with pytest.raises(asyncio.CancelledError):
                await receiving
            kept = await connection.receive()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await connection.receive()
        return kept

    assert asyncio.run(scenario()) == b"kept"


def test_a_wait_for_bytes_that_is_cancelled_ends_though_another_begins_before() -> None:
    async def scenario() -> bytes:
        async with connected_to_an_echo() as connection:
            first = asyncio.create_task(connection.receive())
            await asyncio.sleep(0)
            second = asyncio.create_task(connection.receive())
            first.cancel()
            await asyncio.wait([first], timeout=30)
            assert first.cancelled()
            await connection.send(b"for the second")
            return await asyncio.wait_for(second, 30)

    assert asyncio.run(scenario()) == b"for the second"


def test_a_receiver_of_a_connection_that_is_aborted_with_unsent_bytes_learns_of_it() -> None:
    async def sit(connection: Connection) -> None:
        await asyncio.sleep(3600)

    async def scenario() -> None:
        server = await SocketNetwork().bind("127.0.0.1", 0, sit)
        server.start()
        connection = await SocketNetwork().connect("127.0.0.1", server.port, timeout_ms=30_000)
        sending = asyncio.create_task(connection.send(bytes(64 * 1024 * 1024)))
        receiving = asyncio.create_task(connection.receive())
        await asyncio.sleep(0)
        connection.close()
        connection.close()  # the second one does not wait for what the peer has not taken
        results = await asyncio.gather(sending, receiving, return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionLost, ConnectionLost]
        await server.close()

    asyncio.run(scenario())


def test_connections_of_two_event_loops_receive_into_buffers_of_their_own() -> None:
    async def chunk() -> memoryview:
        return SocketConnection()._chunk

    with asyncio.Runner() as one, asyncio.Runner() as other:
        assert one.run(chunk()) is one.run(chunk())
        assert one.run(chunk()) is not other.run(chunk())


def test_send_waits_for_a_peer_that_does_not_read_and_fails_once_it_has_closed() -> None:
    async def scenario() -> None:
        network = SocketNetwork()
        peers: list[Connection] = []

        async def sit(connection: Connection) -> None:
            peers.append(connection)
            await asyncio.sleep(3600)

        server = await network.bind("127.0.0.1", 0, sit)
        server.start()
        connection = await network.connect("127.0.0.1", server.port, timeout_ms=30_000)
        flood = asyncio.create_task(connection.send(bytes(64 * 1024 * 1024)))
        await asyncio.sleep(0.05)
        assert not flood.done()
        await server.close()
        with pytest.raises(ConnectionLost):
            await flood
        connection.close()
        with pytest.raises(ConnectionLost):
            await connection.send(b"more")

    asyncio.run(scenario())


def test_point_takes_effect_once_and_is_recorded_before(tmp_path: Path) -> None:
    """In a process of its own, because an armed point kills the process."""
    armed = tmp_path / "points.json"
    armed.write_text(json.dumps({"failover.after_epoch": "crash", "election.after_write": "pause"}))
    script = """
import asyncio, sys, pathlib
from understudy.brokers.machine.real_world import FilePoints, MachineClock
from understudy.foundation.eventlog.log import EventLog
write = lambda line: print(line.decode(), end="", flush=True)
events = EventLog(run="r", node="n", incarnation=1, clock=MachineClock(), write=write)
points = FilePoints(pathlib.Path(sys.argv[1]), events)
async def act():
    await points.reach("election.before_write")
    await points.reach("failover.after_epoch")
    print("survived")
asyncio.run(act())
"""
    ended = subprocess.run([sys.executable, "-c", script, str(armed)], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert '"type":"PointReached"' in ended.stdout
    assert "survived" not in ended.stdout
    assert json.loads(armed.read_text()) == {"election.after_write": "pause"}


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"p": "dance"}', '{"p": 3}'])
def test_points_file_that_cannot_be_read_arms_nothing(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "points.json"
    if content is not None:
        path.write_text(content)
    recorder = Recorder()
    asyncio.run(FilePoints(path, recorder.log).reach("p"))
    assert recorder.lines == []


def test_node_is_named_after_its_broker_id_as_soon_as_there_is_one(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    configured = read_config({"broker.id": "7", "zookeeper.connect": "z"})
    unconfigured = read_config({"zookeeper.connect": "z"})
    assert node_name(configured, disk) == "broker-7"
    assert node_name(unconfigured, disk) == f"broker-unnumbered-{os.getpid()}"
    disk.write("meta.properties", b"version=0\nbroker.id=1001\ncluster.id=c\n")
    assert node_name(unconfigured, disk) == "broker-1001"


def test_only_switches_that_the_configuration_names_are_off(tmp_path: Path) -> None:
    properties = {"broker.id": "7", "zookeeper.connect": "z", "log.dir": str(tmp_path)}
    world = real_world(read_config(properties))
    assert all(map(world.fences.is_on, SWITCHES.values()))
    two_off = {**properties, "understudy.switches.off": "kip-380,zk.controller-epoch"}
    off = real_world(read_config(two_off)).fences
    assert [name for name, switch in SWITCHES.items() if not off.is_on(switch)] == ["zk.controller-epoch", "kip-380"]
    with pytest.raises(ConfigError, match="kip-381"):
        read_config({**properties, "understudy.switches.off": "kip-381"})


def test_each_start_is_an_incarnation_of_the_event_log(tmp_path: Path) -> None:
    config = read_config({"broker.id": "7", "zookeeper.connect": "z", "log.dir": str(tmp_path)})
    assert [real_world(config).events.incarnation for _ in range(3)] == [1, 2, 3]
    assert (tmp_path / "events" / "broker-7-0003-0001.jsonl").exists()


@pytest.mark.parametrize("has_testbed", [False, True])
def test_an_event_log_begins_with_the_clock_and_the_end_of_the_log_before(tmp_path: Path, has_testbed: bool) -> None:
    properties = {"broker.id": "7", "zookeeper.connect": "z", "log.dir": str(tmp_path)}
    if has_testbed:
        properties["understudy.run.testbed"] = "true"
    world = real_world(read_config(properties))
    world.events.append(ProcessExiting(reason="SIGTERM"))
    real_world(read_config(properties))
    first, _, second = read([tmp_path]).records
    machine, boot = clock_identity()
    assert first.data == ProcessStarted(
        role="broker",
        broker_id=7,
        pid=os.getpid(),
        software="understudy",
        machine=machine,
        boot=boot,
        has_testbed=has_testbed,
    )
    assert second.data == msgspec.structs.replace(first.data, after_seq=2)


# ------------------------------------------------------------------ the process


def properties_file(folder: Path, **overrides: str) -> Path:
    properties = {
        "broker.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "zookeeper.connect": "127.0.0.1:1",
        "log.dirs": str(folder / "data"),
    }
    properties |= {key.replace("_", "."): value for key, value in overrides.items()}
    path = folder / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_server_properties_may_be_utf_8_or_iso_8859_1(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("# für München\nbroker.rack=Süd\n".encode(encoding))
    assert read_properties(path, []) == {"broker.rack": "Süd"}


def test_overrides_take_precedence(tmp_path: Path) -> None:
    path = properties_file(tmp_path)
    assert read_properties(path, ["broker.id = 5", "a=b=c"]) == read_properties(path, []) | {
        "broker.id": "5",
        "a": "b=c",
    }
    with pytest.raises(ConfigError, match="--override nonsense: expected key=value"):
        read_properties(path, ["nonsense"])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["broker.id=abc"], "Invalid value abc for configuration broker.id: Not a number of type INT"),
        (["num.io.threads=abc"], "Invalid value abc for configuration num.io.threads: Not a number of type INT"),
        (["nonsense"], "--override nonsense: expected key=value"),
        (["listeners=SSL://:9093"], "SSL is not supported yet"),
    ],
)
def test_invalid_configuration_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], overrides: list[str], message: str
) -> None:
    arguments = [str(properties_file(tmp_path)), *(part for each in overrides for part in ("--override", each))]
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "data").exists(), "nothing is touched before the configuration is right"


@pytest.mark.parametrize("servers", ["::::", "localhost:abc", "a:1,,b:2"])
def test_unreadable_zookeeper_connect_is_an_invalid_configuration(tmp_path: Path, servers: str) -> None:
    config = read_config({"zookeeper.connect": servers, "broker.id": "1", "log.dirs": str(tmp_path)})
    with pytest.raises(
        ConfigError, match=f"Invalid value {servers} for configuration zookeeper.connect: expected host:port"
    ):
        real_world(config)


@contextlib.contextmanager
def broker(path: Path, *overrides: str) -> Iterator[subprocess.Popen[str]]:
    """Start a broker process; it is killed at the end if it still runs."""
    arguments = [part for each in overrides for part in ("--override", each)]
    command = [sys.executable, "-P", "-m", "understudy.brokers", str(path), *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=path.parent) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_until(process: subprocess.Popen[str], event: str) -> list[dict[str, object]]:
    """Read the log of a broker up to the line with `event`."""
    assert process.stderr is not None
    lines: list[dict[str, object]] = []
    for line in process.stderr:
        lines.append(json.loads(line))
        if lines[-1]["event"] == event:
            return lines
    raise AssertionError(f"the broker ended without saying {event!r}: {lines}")


@pytest.mark.spec("BR-1", "CS-4")
def test_broker_starts_answers_and_stops_at_sigterm(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    path = properties_file(tmp_path, zookeeper_connect=f"{zookeeper.connect_string}/{tmp_path.name}", colour="red")
    with broker(path) as process:
        lines = lines_until(process, "started")
        assert {"event": "these configurations are not known", "keys": ["colour"]}.items() <= lines[0].items()
        assert not any("switches" in line for line in lines)
        assert (tmp_path / "data" / "meta.properties").read_text().startswith("version=0\nbroker.id=1\n")
        rss_bytes = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert rss_bytes < 60 * 1024 * 1024
        process.send_signal(signal.SIGTERM)
        leaving = [line["event"] for line in lines_until(process, "shut down completed")]
        assert leaving[-2:] == ["resigned", "shut down completed"]
        assert process.wait(60) == 0


@pytest.mark.spec("BR-1", "BR-3")
@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        pytest.param(
            ["listeners=PLAINTEXT://:0", "log.dirs={folder}/two"], "RegistrationRefused", id="the id is taken"
        ),
        pytest.param(["listeners=PLAINTEXT://:0"], "DirectoryLocked", id="the directory is taken"),
        pytest.param(
            ["broker.id=2", "log.dirs={folder}/two"], "RegistrationRefused", id="the address is another broker's"
        ),
        pytest.param(
            ["broker.id=2", "log.dirs={folder}/two", "advertised.listeners=PLAINTEXT://elsewhere:9092"],
            "ConnectionFailed",
            id="the port is taken",
        ),
        pytest.param(["broker.id=2"], "InconsistentMetaProperties", id="the directory is another broker's"),
    ],
)
def test_second_broker_that_cannot_start_names_the_reason(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, overrides: list[str], reason: str
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listeners = f"PLAINTEXT://127.0.0.1:{probe.getsockname()[1]}"
    chroot = f"{zookeeper.connect_string}/{tmp_path.name}"
    path = properties_file(tmp_path, zookeeper_connect=chroot, listeners=listeners)
    with broker(path) as first:
        lines_until(first, "started")
        with broker(path, *(override.format(folder=tmp_path) for override in overrides)) as second:
            last = lines_until(second, "exiting Kafka due to fatal exception during startup")[-1]
            assert last["error"] == reason, last
            assert second.wait(60) == (TRY_AGAIN if reason == "RegistrationRefused" else FAILED)


def test_unreachable_zookeeper_is_named_with_its_address(tmp_path: Path) -> None:
    with broker(properties_file(tmp_path, zookeeper_connection_timeout_ms="300")) as process:
        last = lines_until(process, "exiting Kafka due to fatal exception during startup")[-1]
        assert last["error"] == "ZooKeeperUnreachable"
        assert "127.0.0.1:1" in str(last["why"])
        assert process.wait(60) == TRY_AGAIN


def test_znode_that_cannot_be_read_at_the_start_is_named(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    chroot = f"{zookeeper.connect_string}/{tmp_path.name}"

    async def write_by_hand() -> None:
        session = await KazooZooKeeper(chroot).connect(lambda notification: None)
        for path, data in (("/cluster", b""), ("/cluster/id", b"by hand")):
            assert isinstance(await session.write(Create(path, data)), Created)
        await session.close()

    asyncio.run(write_by_hand())
    with broker(properties_file(tmp_path, zookeeper_connect=chroot)) as process:
        last = lines_until(process, "exiting Kafka due to fatal exception during startup")[-1]
        assert last["error"] == "MalformedZNode"
        assert str(last["why"]).startswith("/cluster/id holds 'by hand': ")
        assert process.wait(10) == 1


def test_second_signal_ends_the_broker_at_once(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    """The first signal starts a controlled shutdown that cannot end, because the controller is paused."""
    chroot = f"{zookeeper.connect_string}/{tmp_path.name}"
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with broker(properties_file(tmp_path / "one", zookeeper_connect=chroot)) as one:
        lines_until(one, "started")
        with broker(properties_file(tmp_path / "two", zookeeper_connect=chroot, broker_id="2")) as two:
            lines_until(two, "started")
            one.send_signal(signal.SIGSTOP)
            two.send_signal(signal.SIGTERM)
            # A second signal sent before the first is handled would be merged with it.
            while catches(two.pid, signal.SIGTERM):
                assert two.poll() is None
                time.sleep(0.01)
            with pytest.raises(subprocess.TimeoutExpired):
                two.wait(0.5)
            two.send_signal(signal.SIGTERM)
            assert two.wait(60) == -signal.SIGTERM


@pytest.mark.spec("CS-4")
@pytest.mark.parametrize("is_silent", [pytest.param(False, marks=at_night("a silent one is gone as well")), True])
def test_a_broker_stops_while_zookeeper_is_gone(tmp_path: Path, is_silent: bool) -> None:
    """`ServerShutdownTest.testCleanShutdownWithZkUnavailable`: its server is dead, or accepts and does not answer."""
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        path = properties_file(tmp_path, zookeeper_connect=server.connect_string, zookeeper_session_timeout_ms="1000")
        with broker(path) as process:
            lines_until(process, "started")
            if is_silent:
                server.pause()
            else:
                server.kill()
            process.send_signal(signal.SIGTERM)
            lines_until(process, "shut down completed")
            assert process.wait(60) == 0


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has installed a handler for the signal."""
    (caught,) = re.findall(r"^SigCgt:\s*([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(caught, 16) >> (number - 1) & 1)


def test_broker_whose_event_log_cannot_be_written_stops_and_logs_the_reason(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record that cannot be written is about a malformed request."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # half a compiled module would stay
    chroot = f"{zookeeper.connect_string}/{tmp_path.name}"
    with broker(properties_file(tmp_path, zookeeper_connect=chroot)) as process:
        registered = next(line for line in lines_until(process, "started") if line["event"] == "registered broker")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, 1))
        port = int(str(registered["addresses"]).rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"\xff" * 4)
        last = lines_until(process, "exiting Kafka due to fatal exception")[-1]
        assert re.fullmatch(r"the event log cannot be written: .* '.*/broker-1-0001-0001\.jsonl'", str(last["why"])), (
            last
        )
        assert process.wait(60) == 1
    with ClusterView(chroot) as view:
        assert view.brokers() == {}, "its session has ended with it"
