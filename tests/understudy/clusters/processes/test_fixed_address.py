"""Fixed addresses of the brokers of a local cluster: wrong ports are refused, and right ones survive restarts."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.shares import at_night
from tests.understudy.cli.terminal import Terminal
from understudy.brokers.config.properties import parse_properties
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.cli.main import main
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes.broker_process import BrokerProcess
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.fixed_address import FixedAddress, check_free
from understudy.clusters.processes.free_ports import free_ports
from understudy.clusters.processes.local_cluster import LocalCluster

SESSION_MS = 3_000
ELSEWHERE = "kafka.test"
"""A name that resolves nowhere (RFC 6761), as one that only clients outside of a container can reach."""


@pytest.mark.parametrize(
    ("ports", "host", "message"),
    [
        ([19092], None, r"1 ports were given for 2 brokers \(19092\); give one for each broker"),
        ([19092, 19093, 19094], None, r"3 ports were given for 2 brokers"),
        ([19092, 19092], None, r"port 19092 was given for two brokers"),
        ([19092, 0], None, r"0 cannot be the port of a broker; give 1 to 65535"),
        ([65535, 65536], None, r"65536 cannot be the port of a broker"),
        (None, ELSEWHERE, r"brokers that advertise kafka\.test need fixed ports; give the ports as well"),
    ],
)
def test_ports_that_no_cluster_can_have_are_refused(ports: list[int] | None, host: str | None, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        LocalCluster(2, zookeeper="127.0.0.1:1", ports=ports, advertised_host=host)


@pytest.mark.parametrize("advertised_host", ["", ELSEWHERE])
def test_a_taken_port_is_named_before_anything_starts(tmp_path: Path, advertised_host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        cluster = LocalCluster(
            1, zookeeper="127.0.0.1:1", directory=tmp_path / "run", ports=[taken], advertised_host=advertised_host
        )
        with pytest.raises(ClusterError, match=rf"port {taken} of .* cannot be a broker's: Address already in use"):
            cluster.start()
    assert not (tmp_path / "run").exists()
    check_free(FixedAddress(taken, advertised_host))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--ports", "19092,19093"], "2 ports were given for 3 brokers (19092, 19093)"),
        (["--port", "65534"], "65536 cannot be the port of a broker"),
        (["--advertised-host", "kafka"], "brokers that advertise kafka need fixed ports"),
    ],
)
def test_up_refuses_ports_before_it_starts_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert main(["up", "--dir", str(tmp_path / "run"), *flags]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--ports", "19092,19092,19093"], "is not a list of different ports from 1"),
        (["--ports", "19092,0,19093"], "is not a list of different ports from 1"),
        (["--ports", "19092,19093,x"], "'x' is not a port; expected 0 to 65535"),
        (["--ports", "19092,19093,19094", "--port", "19092"], "not allowed with argument --ports"),
    ],
)
def test_the_parser_refuses_what_are_no_ports(
    capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["up", *flags])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def listeners_of(broker: BrokerProcess) -> dict[str, str]:
    broker._write_config()
    written = parse_properties(broker.config.read_text())
    return {key: value for key, value in written.items() if "listener" in key}


def test_the_listeners_follow_from_the_address(tmp_path: Path) -> None:
    def listeners(address: FixedAddress | None) -> dict[str, str]:
        return listeners_of(BrokerProcess(1, tmp_path, rack=None, properties={}, address=address))

    assert listeners(None) == {"listeners": "PLAINTEXT://127.0.0.1:0"}
    assert listeners(FixedAddress(19092)) == {"listeners": "PLAINTEXT://127.0.0.1:19092"}
    assert listeners(FixedAddress(19092, "kafka")) == {
        "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://0.0.0.0:19092",
        "advertised.listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://kafka:19092",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxied"])
@pytest.mark.parametrize(
    "host",
    [pytest.param(None, marks=at_night("clusters of most tests advertise a loopback address")), ELSEWHERE],
    ids=["loopback", "elsewhere"],
)
def test_brokers_keep_their_addresses_and_replicate_whatever_host_they_advertise(
    zookeeper: EmbeddedZooKeeper, host: str | None, proxied: bool
) -> None:
    """The advertised name resolves nowhere, so the ISR is full only if the brokers use a listener of their own."""
    ports = free_ports(2)
    expected = ",".join(f"{host or '127.0.0.1'}:{port}" for port in ports)
    with LocalCluster(
        2, zookeeper=zookeeper, session_timeout_ms=SESSION_MS, ports=ports, advertised_host=host, proxied=proxied
    ) as cluster:
        assert cluster.bootstrap == expected
        assert advertised_at(cluster, ports[0]) == expected
        cluster.create_topic("orders", replication_factor=2)
        fallen = cluster.controller()
        fallen.kill()
        other = ports[0] if fallen.id == 2 else ports[1]
        cluster.wait_until(lambda: cluster.controller_id() not in (None, fallen.id), "another broker is controller")
        fallen.start()
        cluster.settle()
        assert len(cluster.isr("orders", 0)) == 2
        assert cluster.bootstrap == expected
        assert advertised_at(cluster, other) == advertised_at(cluster, ports[fallen.id - 1]) == expected


def advertised_at(cluster: LocalCluster, port: int) -> str:
    """The addresses of all brokers, as Metadata names them to a client on a port."""
    metadata = cluster.ask(AdminClient(SocketNetwork(), [f"127.0.0.1:{port}"]).metadata(()))
    return ",".join(f"{node.host}:{node.port}" for node in sorted(metadata.brokers, key=lambda node: node.node_id))


def test_up_keeps_the_addresses_in_another_process(tmp_path: Path) -> None:
    ports = free_ports(2)
    expected = f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
    for _ in range(2):
        terminal = Terminal(tmp_path / "run", "--brokers", "2", "--ports", ",".join(map(str, ports)))
        try:
            assert terminal.wait_until_up().bootstrap == expected
            terminal.ctrl_c()
            assert terminal.process.wait(timeout=60) == 0
        finally:
            terminal.close()
