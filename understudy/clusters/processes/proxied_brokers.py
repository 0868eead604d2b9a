"""`ProxiedBrokers`: the addresses of the brokers of a cluster whose traffic goes through a proxy.

Broker i listens on 127.0.1.i and connects from there; it advertises a port of the proxy on 127.0.0.1, and has its own
port there for each server of ZooKeeper.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes.proxy.connection import Language
from understudy.clusters.processes.proxy.proxy import HOST, ZOOKEEPER, Proxy

_ZOOKEEPER_PORT = 2181


class ProxiedBrokers(Proxy):
    """A running proxy, and a listening port that is reserved for each broker until `stop`.

    Args:
        zookeeper_connect: the servers, and the chroot.

    Raises:
        ClusterError: this system has no loopback addresses but 127.0.0.1, as on macOS.
    """

    def __init__(self, broker_ids: Sequence[int], zookeeper_connect: str) -> None:
        super().__init__({address_of(broker_id): node_of(broker_id) for broker_id in broker_ids})
        self._reserved: dict[int, socket.socket] = {}
        try:
            for broker_id in broker_ids:
                self._reserved[broker_id] = _reserve(address_of(broker_id))
            self.properties = {broker_id: self._open(broker_id, zookeeper_connect) for broker_id in broker_ids}
            """The keys of `server.properties` by which each broker's traffic goes through the proxy, by its id."""
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        super().stop()
        for reserved in self._reserved.values():
            reserved.close()

    def _open(self, broker_id: int, zookeeper_connect: str) -> dict[str, str]:
        servers, slash, chroot = zookeeper_connect.partition("/")
        host, port = self._reserved[broker_id].getsockname()
        advertised = self.listen(node_of(broker_id), (host, port))
        proxied = [
            self.listen(
                ZOOKEEPER,
                _parsed(server),
                source=node_of(broker_id),
                language=Language.ZOOKEEPER,
                chroot=slash + chroot,
            )
            for server in servers.split(",")
        ]
        return {
            "listeners": f"PLAINTEXT://{host}:{port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{advertised}",
            "understudy.source.address": host,
            "zookeeper.connect": ",".join(f"{HOST}:{each}" for each in proxied) + slash + chroot,
        }


def node_of(broker_id: int) -> str:
    """The proxy's name of a broker, as in the event log."""
    return f"broker-{broker_id}"


def address_of(broker_id: int) -> str:
    """The loopback address of a broker."""
    high, low = divmod(broker_id, 256)
    return f"127.0.{1 + high}.{low}"


def _reserve(address: str) -> socket.socket:
    """Bind a free port, without listening on it: a broker can listen there, and no other socket gets that port."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        reserved.bind((address, 0))
    except OSError as error:
        reserved.close()
        raise ClusterError(
            f"a proxied cluster cannot be started: {address} cannot be bound ({error.strerror}). Each broker needs a "
            "loopback address of its own, which Linux has and macOS lacks; start the cluster without proxied=True"
        ) from None
    return reserved


def _parsed(server: str) -> tuple[str, int]:
    host, _, port = server.strip().rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdecimal() else (server.strip(), _ZOOKEEPER_PORT)
