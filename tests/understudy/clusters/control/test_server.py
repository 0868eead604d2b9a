"""Tests of the control port's server, client and file, on a cluster that has not been started."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from understudy.cli.main import main
from understudy.clusters.cluster import ClusterError
from understudy.clusters.control.client import ControlClient, ControlRefused
from understudy.clusters.control.control_file import CONTROL_FILE, ControlEntry, NoControlPort, read_control_file
from understudy.clusters.control.server import ControlServer, check_exposure
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.run_folder import ProcessEntry, this_process

OWN_TOKEN = "0123456789abcdef"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ControlServer]]:
    def make(*address: tuple[str, int], token: str | None = None) -> ControlServer:
        cluster = LocalCluster(2, directory=tmp_path, zookeeper="127.0.0.1:1")
        return ControlServer(cluster, *address, token=token, report=print)

    before = set(threading.enumerate())
    yield make
    left = {thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("understudy")}
    assert left == set()


def test_the_file_is_private_and_removed_at_the_end(serve: Callable[..., ControlServer], tmp_path: Path) -> None:
    path = tmp_path / CONTROL_FILE
    with serve() as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        entry = read_control_file(tmp_path)
        assert entry == server.entry
        assert (entry.host, entry.owner) == ("127.0.0.1", this_process())
        assert len(entry.token) >= 32
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_an_earlier_cluster_is_replaced(serve: Callable[..., ControlServer], tmp_path: Path) -> None:
    (tmp_path / CONTROL_FILE).write_text("{}")
    (tmp_path / CONTROL_FILE).chmod(0o644)
    with serve() as server:
        assert read_control_file(tmp_path) == server.entry
        assert stat.S_IMODE((tmp_path / CONTROL_FILE).stat().st_mode) == 0o600


def test_the_client_carries_the_token_and_raises_what_is_refused(
    serve: Callable[..., ControlServer], tmp_path: Path
) -> None:
    with serve() as server:
        client = ControlClient.of_run(tmp_path)
        assert "/verbs/kill" in client.get("/openapi.json")["paths"]
        with pytest.raises(ControlRefused, match="this cluster has not been started") as refused:
            client.verb("kill", {"target": "1"})
        assert (refused.value.status, refused.value.is_wrong_request) == (409, False)
        with pytest.raises(ControlRefused, match="'1x' is no target") as refused:
            client.verb("kill", {"target": "1x"})
        assert (refused.value.status, refused.value.is_wrong_request) == (400, True)
        thief = ControlClient(ControlEntry(**{**_fields(server.entry), "token": "wrong"}))  # type: ignore[arg-type]  # fields of several types
        with pytest.raises(ControlRefused, match="missing or wrong") as refused:
            thief.verb("kill", {"target": "1"})
        assert refused.value.status == 401
    with pytest.raises(NoControlPort, match=r"does not answer"):
        ControlClient(server.entry).get("/cluster")


def _fields(entry: ControlEntry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in entry.__struct_fields__}


def test_a_wrong_host_is_refused_over_the_wire(serve: Callable[..., ControlServer]) -> None:
    with serve() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.entry.port, timeout=10)
        connection.request("GET", "/cluster", headers={"Host": f"rebound.example:{server.entry.port}"})
        response = connection.getresponse()
        assert response.status == 403
        assert "server" not in response.headers
        assert json.loads(response.read())["error"].startswith("the header Host must be one of 127.0.0.1:")
        connection.close()


def test_a_connection_that_sends_nothing_does_not_keep_the_server_from_ending(
    serve: Callable[..., ControlServer],
) -> None:
    with serve() as server, socket.create_connection(("127.0.0.1", server.entry.port)) as idle:
        idle.sendall(b"POST /verbs/kill HTTP/1.1\r\n")
        server.close()
        idle.settimeout(10)
        assert idle.recv(1) == b""


def test_a_taken_port_is_refused(serve: Callable[..., ControlServer]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ClusterError, match=f"127.0.0.1:{port} cannot be opened: Address already in use; give anot"):
            serve(("127.0.0.1", port))


def test_the_port_can_be_chosen(serve: Callable[..., ControlServer]) -> None:
    with serve() as first:
        port = first.entry.port
    with serve(("localhost", port)) as second:
        assert second.entry.address == f"127.0.0.1:{port}"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_needs_no_token_of_the_user(host: str) -> None:
    check_exposure(host, None)


OPEN_HOSTS = ["0.0.0.0", "::", "192.168.1.7", "example.org", ""]


@pytest.mark.parametrize("host", OPEN_HOSTS)
def test_another_host_needs_a_token_of_the_user(host: str) -> None:
    with pytest.raises(ClusterError, match=r"without a token of your own.*set UNDERSTUDY_CONTROL_TOKEN, or give 127"):
        check_exposure(host, None)
    check_exposure(host, OWN_TOKEN)


@pytest.mark.parametrize("token", ["", "x" * 15, "x" * 15 + "é", "two words of a token", "x" * 16 + "\n"])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_token_that_is_short_or_cannot_be_in_a_header_is_refused(host: str, token: str) -> None:
    with pytest.raises(ClusterError, match=rf"at least 16 .* the given one has {len(token)} characters"):
        check_exposure(host, token)


def test_on_every_interface_each_request_needs_the_token_and_any_host_will_do(
    serve: Callable[..., ControlServer], tmp_path: Path
) -> None:
    with serve(("0.0.0.0", 0), token=OWN_TOKEN) as server:
        assert read_control_file(tmp_path) == server.entry
        assert (server.entry.host, server.entry.token) == ("127.0.0.1", OWN_TOKEN)
        assert "/verbs/kill" in ControlClient.of_run(tmp_path).get("/openapi.json")["paths"]
        elsewhere = {"Host": f"kafka.example:{server.entry.port}"}
        authorized = {**elsewhere, "Authorization": f"Bearer {OWN_TOKEN}"}
        assert _status(server, "/docs", elsewhere) == 401
        assert _status(server, "/docs", authorized) == 200
        assert _status(server, "/docs", {**authorized, "Origin": "http://kafka.example"}) == 403


def _status(server: ControlServer, path: str, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.entry.port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status


# ------------------------------------------------------------------ the command line without a cluster


def test_up_refuses_another_host_before_it_starts_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert main(["up", "--dir", str(folder), "--control", "0.0.0.0:8000"]) == 2
    assert capsys.readouterr().err == (
        "understudy up: --control 0.0.0.0:8000: the control port cannot listen on 0.0.0.0 without a token of your own: "
        "it kills processes; set UNDERSTUDY_CONTROL_TOKEN, or give 127.0.0.1:PORT\n"
    )
    assert not folder.exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("kill RUN controler", "'controler' is no target; did you mean 'controller'? (there are: 2, controller, "),
        ("kill RUN follower:orders", "'orders' is no partition; expected TOPIC/NUMBER, for example orders/0"),
        ("pause RUN 1 --for soon", "'soon' is no duration; expected a number with ms, s, m or h, for example 1.5s"),
        ("pause RUN 1 --for 25h", "'25h' is longer than 24 hours"),
        ("heal RUN zookeeper", "zookeeper cannot be the target of heal; it can be that of kill"),
        ("arm RUN 1 nowhere --action crash", "there is no point 'nowhere'; the points are election.before_write"),
    ],
)
def test_a_bad_target_or_duration_exits_with_code_2(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.replace("RUN", str(tmp_path)).split()) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"understudy {line.split()[0]}: {message}")
    assert error.count("\n") == 1


def test_a_folder_without_a_running_cluster_exits_with_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kill", str(tmp_path), "controller"]) == 1
    assert capsys.readouterr().err == (
        f"understudy kill: {tmp_path} has no control.json: give the run folder of a cluster that `understudy up` runs "
        "now\n"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read: Input data was truncated"),
        ('{"version": 1}', "cannot be read: Object missing required field `host`"),
    ],
)
def test_an_unreadable_file_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / CONTROL_FILE).write_text(content)
    with pytest.raises(NoControlPort, match=message):
        read_control_file(tmp_path)


def test_the_file_that_a_killed_cluster_has_left_is_refused(
    serve: Callable[..., ControlServer], tmp_path: Path
) -> None:
    with serve():
        left = json.loads((tmp_path / CONTROL_FILE).read_text())
    left["owner"] = {"pid": os.getpid(), "started": ProcessEntry(pid=os.getpid(), started=1).started}
    (tmp_path / CONTROL_FILE).write_text(json.dumps(left))
    with pytest.raises(NoControlPort, match="has ended"):
        read_control_file(tmp_path)
    left["version"] = 2
    (tmp_path / CONTROL_FILE).write_text(json.dumps(left))
    with pytest.raises(NoControlPort, match="has version 2, and this program reads 1"):
        read_control_file(tmp_path)
