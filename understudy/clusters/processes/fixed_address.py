"""`FixedAddress`: the address by which clients reach a broker of a local cluster, the same after each restart."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final, NamedTuple

from understudy.clusters.cluster import ClusterError

LOOPBACK: Final = "127.0.0.1"
EVERY_INTERFACE: Final = "0.0.0.0"
_LARGEST_PORT: Final = 65535


class FixedAddress(NamedTuple):
    """The port of one broker, and the host that it advertises.

    Attributes:
        port: from 1 to 65535.
        advertised_host: the broker listens on every interface, and advertises this host; if it is empty, the broker
            listens on loopback only.
    """

    port: int
    advertised_host: str = ""

    @property
    def bound_host(self) -> str:
        """The address on which it listens for clients."""
        return EVERY_INTERFACE if self.advertised_host else LOOPBACK

    def __str__(self) -> str:
        host = self.advertised_host or LOOPBACK
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def fixed_addresses(
    broker_ids: Sequence[int], ports: Sequence[int] | None, advertised_host: str | None
) -> dict[int, FixedAddress]:
    """Return the fixed address of each broker, in order of `ports`; empty if `ports` is None.

    Raises:
        ClusterError: there are more or fewer ports than brokers, a port is given twice or is none, or a host is given
            without ports.
    """
    if ports is None:
        if advertised_host:
            raise ClusterError(f"brokers that advertise {advertised_host} need fixed ports; give the ports as well")
        return {}
    if len(ports) != len(broker_ids):
        raise ClusterError(
            f"{len(ports)} ports were given for {len(broker_ids)} brokers ({', '.join(map(str, ports))}); "
            "give one for each broker"
        )
    for place, port in enumerate(ports):
        if not 0 < port <= _LARGEST_PORT:
            raise ClusterError(f"{port} cannot be the port of a broker; give 1 to {_LARGEST_PORT}")
        if port in ports[:place]:
            raise ClusterError(f"port {port} was given for two brokers; give another for each")
    return {
        broker_id: FixedAddress(port, advertised_host or "") for broker_id, port in zip(broker_ids, ports, strict=True)
    }


def check_free(address: FixedAddress) -> None:
    """Raise ClusterError, which names the port, if another program listens on it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.bound_host, address.port))
            probe.listen()
        except OSError as error:
            raise ClusterError(
                f"port {address.port} of {address.bound_host} cannot be a broker's: {error.strerror}; "
                "end the program that listens there, or give another port"
            ) from None


def two_listeners(internal: tuple[str, str], external: tuple[str, str]) -> dict[str, str]:
    """Return the keys of `server.properties` for a listener of brokers on this machine and one of clients elsewhere.

    Brokers reach each other even if the host that clients use cannot be reached from this machine.

    Args:
        internal, external: `host:port` on which it listens, and the one that it advertises; the first listener is the
            internal one.
    """
    return {
        "listeners": f"INTERNAL://{internal[0]},EXTERNAL://{external[0]}",
        "advertised.listeners": f"INTERNAL://{internal[1]},EXTERNAL://{external[1]}",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
