"""`ProxiedBrokers`: the addresses of the brokers of a cluster whose traffic goes through a proxy.

Broker i listens on 127.0.1.i and connects from there; it advertises a port of the proxy on 127.0.0.1, and has its own
port there for each server of ZooKeeper. If clients reach it by another host, it has a second listener for them, also
behind a port of the proxy.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes.fixed_address import FixedAddress, two_listeners
from understudy.clusters.processes.proxy.connection import Language
from understudy.clusters.processes.proxy.proxy import HOST, ZOOKEEPER, Proxy

_ZOOKEEPER_PORT = 2181


class ProxiedBrokers(Proxy):
    """A running proxy, and a listening port that is reserved for each broker until `stop`.

    Args:
        zookeeper_connect: the servers, and the chroot.
        addresses: by broker, the address by which clients reach it; a broker that has none gets any free port.

    Raises:
        ClusterError: this system has no loopback addresses but 127.0.0.1, as on macOS.
    """

    def __init__(
        self, broker_ids: Sequence[int], zookeeper_connect: str, addresses: Mapping[int, FixedAddress]
    ) -> None:
        super().__init__({address_of(broker_id): node_of(broker_id) for broker_id in broker_ids})
        self._reserved: list[socket.socket] = []
        try:
            self.properties = {
                broker_id: {
                    **self._listeners(broker_id, addresses.get(broker_id)),
                    "understudy.source.address": address_of(broker_id),
                    "zookeeper.connect": self._zookeeper(broker_id, zookeeper_connect),
                }
                for broker_id in broker_ids
            }
            """The keys of `server.properties` by which each broker's traffic goes through the proxy, by its id."""
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        super().stop()
        for reserved in self._reserved:
            reserved.close()

    def _listeners(self, broker_id: int, fixed: FixedAddress | None) -> dict[str, str]:
        if fixed is None or not fixed.advertised_host:
            own, port = self._listener(broker_id, (HOST, 0 if fixed is None else fixed.port))
            return {"listeners": f"PLAINTEXT://{own}", "advertised.listeners": f"PLAINTEXT://{HOST}:{port}"}
        internal, port = self._listener(broker_id, (HOST, 0))
        external, _ = self._listener(broker_id, (fixed.bound_host, fixed.port))
        return two_listeners((internal, f"{HOST}:{port}"), (external, str(fixed)))

    def _listener(self, broker_id: int, bound: tuple[str, int]) -> tuple[str, int]:
        """Return `host:port` of a broker's listener that is reserved, and the port of the proxy that leads there."""
        self._reserved.append(_reserve(address_of(broker_id)))
        host, port = self._reserved[-1].getsockname()
        return f"{host}:{port}", self.listen(node_of(broker_id), (host, port), bound=bound)

    def _zookeeper(self, broker_id: int, zookeeper_connect: str) -> str:
        servers, slash, chroot = zookeeper_connect.partition("/")
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
        return ",".join(f"{HOST}:{each}" for each in proxied) + slash + chroot


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
