"""Reads and checks listeners: bound addresses, advertised addresses, inter-broker and control plane listener.

Mirrors `CoreUtils.listenerListToEndPoints` and the checks of `KafkaConfig.validateValues`. One deliberate difference: a
listener without a host binds the loopback address, not every interface of the machine, unless
`understudy.listeners.empty.host` names another.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from understudy.brokers.config.config_def import ConfigError
from understudy.foundation.cluster.broker import EndPoint, SecurityProtocol
from understudy.foundation.cluster.grouping import grouped

LOOPBACK = "127.0.0.1"
EVERY_INTERFACE = ("0.0.0.0", "::")
"""Addresses that stand for every interface of the machine; no client can connect to them from elsewhere."""

_ENDPOINT = re.compile(r"(?P<listener>.+)://\[?(?P<host>[-0-9A-Za-z%._:]*)\]?:(?P<port>[0-9]{1,5})")
"""One address. As in Kafka, a listener may have any name without a comma, such as `REPLICATION-9091`."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """The addresses that a broker binds, and the ones that it advertises.

    An advertised host is empty if the name of the machine stands for it, as in Kafka: no host was configured, and the
    listener binds every interface.
    """

    bound: tuple[EndPoint, ...]
    advertised: tuple[EndPoint, ...]

    @classmethod
    def read(
        cls,
        listeners: str,
        advertised_listeners: str | None,
        protocol_map: str,
        inter_broker: str,
        control_plane: str | None = None,
        empty_host: str = LOOPBACK,
    ) -> Listeners:
        """Read and check `listeners`, `advertised.listeners` and the protocol map together.

        Args:
            inter_broker, control_plane: names of listeners, in capitals.
            empty_host: the host to bind of a listener without one.

        Raises:
            ConfigError: an endpoint cannot be read, names contradict each other, or TLS or SASL is asked for.
        """
        protocols = _protocols(protocol_map)
        bound = _endpoints("listeners", listeners, protocols, empty_host)
        reachable_host = "" if empty_host in EVERY_INTERFACE else empty_host
        if advertised_listeners is None:
            advertised = _endpoints("listeners", listeners, protocols, reachable_host)
        else:
            advertised = _endpoints("advertised.listeners", advertised_listeners, protocols, reachable_host)
        _require_distinct_ports(bound, listeners)
        _require_routable(advertised)
        names = [endpoint.listener for endpoint in bound]
        for endpoint in advertised:
            if endpoint.listener not in names:
                raise ConfigError(
                    f"advertised.listeners listener names must be equal to or a subset of the ones defined in "
                    f"listeners. Found {endpoint.listener}. The valid options based on the current configuration are "
                    f"{','.join(names)}"
                )
        options = [endpoint.listener for endpoint in advertised]
        if inter_broker not in options:
            raise ConfigError(
                f"inter.broker.listener.name must be a listener name defined in advertised.listeners; it is "
                f"{inter_broker}. The valid options based on currently configured listeners are {','.join(options)}"
            )
        if control_plane is not None:
            _check_control_plane(control_plane, inter_broker, options, protocols)
        return cls(bound, advertised)

    def out_of_reach(self) -> tuple[EndPoint, ...]:
        """Return the addresses advertised to other machines whose listener binds the loopback address only."""
        on_loopback = {endpoint.listener for endpoint in self.bound if _is_loopback(endpoint.host)}
        return tuple(
            endpoint
            for endpoint in self.advertised
            if endpoint.listener in on_loopback and not _is_loopback(endpoint.host)
        )


def _check_control_plane(
    control_plane: str, inter_broker: str, options: list[str], protocols: dict[str, SecurityProtocol]
) -> None:
    if control_plane not in protocols:
        raise ConfigError(
            f"Listener with {control_plane} defined in control.plane.listener.name not found in "
            "listener.security.protocol.map."
        )
    if control_plane not in options:
        raise ConfigError(
            f"control.plane.listener.name must be a listener name defined in advertised.listeners; it is "
            f"{control_plane}. The valid options based on currently configured listeners are {','.join(options)}"
        )
    if control_plane == inter_broker:
        raise ConfigError(
            "control.plane.listener.name, when defined, should have a different value from the inter broker listener "
            f"name. Currently they both have the value {control_plane}"
        )


def _protocols(protocol_map: str) -> dict[str, SecurityProtocol]:
    protocols: dict[str, SecurityProtocol] = {}
    for entry in filter(None, (part.strip() for part in protocol_map.split(","))):
        listener, colon, protocol = entry.rpartition(":")
        if not colon or protocol.upper() not in SecurityProtocol.__members__:
            raise ConfigError.invalid(
                "listener.security.protocol.map",
                protocol_map,
                f"{entry} is not LISTENER:PROTOCOL with a protocol Kafka knows",
            )
        protocols[listener.strip().upper()] = SecurityProtocol[protocol.upper()]
    return protocols


def _endpoints(key: str, text: str, protocols: dict[str, SecurityProtocol], empty_host: str) -> tuple[EndPoint, ...]:
    endpoints = tuple(_endpoint(key, part.strip(), protocols, empty_host) for part in text.split(",") if part.strip())
    if not endpoints:
        raise ConfigError.invalid(key, text, "at least one listener is needed, as LISTENER://host:port")
    names = [endpoint.listener for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise ConfigError.invalid(key, text, "Each listener must have a different name")
    return endpoints


def _endpoint(key: str, text: str, protocols: dict[str, SecurityProtocol], empty_host: str) -> EndPoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ConfigError.invalid(key, text, "expected LISTENER://host:port, with a port from 0 to 65535")
    listener = match["listener"].upper()
    protocol = protocols.get(listener)
    if protocol is None:
        raise ConfigError.invalid(key, text, f"No security protocol defined for listener {listener}")
    if protocol is not SecurityProtocol.PLAINTEXT:
        raise ConfigError.invalid(key, text, f"{protocol.name} is not supported yet; only PLAINTEXT listeners are")
    return EndPoint(listener, protocol, match["host"] or empty_host, int(match["port"]))


def _require_distinct_ports(bound: tuple[EndPoint, ...], listeners: str) -> None:
    """Raise ConfigError if two listeners share a port, unless one has an IPv4 and the other an IPv6 address."""
    by_port = grouped((endpoint.port, _ip_version(endpoint.host)) for endpoint in bound if endpoint.port != 0)
    for versions in by_port.values():
        if len(versions) > 1 and versions not in ((4, 6), (6, 4)):
            raise ConfigError.invalid(
                "listeners",
                listeners,
                "Each listener must have a different port unless exactly one listener has an IPv4 address and the "
                "other IPv6 address",
            )


def _ip_version(host: str) -> int | None:
    """Return 4 or 6; None for a host name."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _require_routable(advertised: tuple[EndPoint, ...]) -> None:
    for endpoint in advertised:
        if endpoint.host in EVERY_INTERFACE:
            raise ConfigError(
                f"advertised.listeners cannot use the nonroutable meta-address {endpoint.host}. "
                "Use a routable IP address."
            )
