"""`ProxiedBrokers`: the addresses of the brokers of a cluster whose traffic goes through a proxy.

Broker i listens on 127.0.1.i and connects from there; it advertises a port of the proxy on 127.0.0.1, and has its own
port there for each server of ZooKeeper. If clients reach it by another host, it has a second listener for them, also
behind a port of the proxy. The servers of an ensemble that the cluster has started connect to each other through the
proxy as well.
"""

from __future__ import annotations

import itertools
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
        servers, slash, chroot = zookeeper_connect.partition("/")
        zookeepers = [_parsed(server) for server in servers.split(",")]
        names = [ZOOKEEPER] if len(zookeepers) == 1 else [f"{ZOOKEEPER}-{n}" for n, _ in enumerate(zookeepers, start=1)]
        self.zookeepers = dict(zip(names, zookeepers, strict=True))
        """The address of each server of ZooKeeper by its node: `zookeeper`, or `zookeeper-1` and so on."""
        self._chroot = slash + chroot
        try:
            self.properties = {
                broker_id: {
                    **self._listeners(broker_id, addresses.get(broker_id)),
                    "understudy.source.address": address_of(broker_id),
                    "zookeeper.connect": self._zookeeper(broker_id),
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

    def connect_peers(self, ports: Mapping[int, tuple[int, int]]) -> dict[int, dict[int, str]]:
        """Open listeners between the servers of an ensemble.

        Args:
            ports: the peer port and the election port of each server on the loopback interface, by its id.

        Returns:
            The values of `server.N` of all other servers, for each server.
        """
        elections: dict[tuple[int, int], str] = {}
        seen: dict[int, dict[int, str]] = {number: {} for number in ports}
        for source, destination in itertools.permutations(ports, 2):
            peer, election = (
                self.listen(
                    f"{ZOOKEEPER}-{destination}",
                    (HOST, port),
                    source=f"{ZOOKEEPER}-{source}",
                    language=Language.PEER,
                    election_address=address,
                )
                for port, address in zip(
                    ports[destination], (None, lambda back=(destination, source): elections[back]), strict=True
                )
            )
            elections[source, destination] = f"{HOST}:{election}"
            seen[source][destination] = f"{HOST}:{peer}:{election}"
        return seen

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

    def _zookeeper(self, broker_id: int) -> str:
        proxied = [
            self.listen(node, address, source=node_of(broker_id), language=Language.ZOOKEEPER, chroot=self._chroot)
            for node, address in self.zookeepers.items()
        ]
        return ",".join(f"{HOST}:{each}" for each in proxied) + self._chroot


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
