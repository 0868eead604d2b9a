"""Translates the properties of a KRaft node into ZooKeeper mode.

The ZooKeeper server of all nodes listens on the address of one controller, which every node's configuration names: the
voter with the lowest id, or the first of the bootstrap servers. A KRaft controller has no other work in ZooKeeper mode,
in which a broker is the controller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from understudy.brokers.config.config_def import ConfigError
from understudy.cli.image.listeners import without_listeners
from understudy.cli.image.zookeeper_variables import DEFAULT_PORT

VOTERS: Final = "controller.quorum.voters"
BOOTSTRAP_SERVERS: Final = "controller.quorum.bootstrap.servers"
ROLES: Final = "process.roles"

_CONFLUENT_LOCAL: Final = {
    ROLES: "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
}
"""Properties that the image confluent-local has by itself."""

_SESSION_TIMEOUT_MS: Final = "9000"
"""Default of `broker.session.timeout.ms`, after which a KRaft controller fences a broker."""

_VOTER: Final = re.compile(r"(?P<id>\d{1,10})@(?P<host>\[[^\]]+\]|[^:@]+):(?P<port>\d{1,5})")
_SERVER: Final = re.compile(r"(?P<host>\[[^\]]+\]|[^:@]+):(?P<port>\d{1,5})")


class Translation(NamedTuple):
    """What a container runs in place of a KRaft node."""

    properties: dict[str, str]
    """Properties of its broker; they have no `zookeeper.connect` if the node names no other controller."""
    runs_broker: bool
    zookeeper_port: int | None
    """The port of the ZooKeeper server that this container runs for all nodes; None if another container runs it."""
    sentences: tuple[str, ...]
    """What was done, and what it means."""


def is_kraft(properties: Mapping[str, str]) -> bool:
    return bool({ROLES, VOTERS, BOOTSTRAP_SERVERS} & properties.keys()) and "zookeeper.connect" not in properties


def translate(properties: Mapping[str, str], is_local: Callable[[str], bool]) -> Translation:
    """Translate the properties of a KRaft node.

    Args:
        is_local: whether a host is this container.

    Raises:
        ConfigError: the roles, the node's id, or the addresses of the controllers cannot be read.
    """
    properties = {**_CONFLUENT_LOCAL, **properties} if ROLES not in properties else properties
    roles = {role.strip() for role in properties[ROLES].split(",")}
    if not roles or roles - {"broker", "controller"}:
        raise ConfigError.invalid(ROLES, properties[ROLES], "expected broker, controller, or both with a comma")
    node = _node_id(properties)
    address, is_here = _zookeeper(properties, node, "controller" in roles, is_local)
    port = int(address.rpartition(":")[2])
    translated = _broker_properties(properties, node)
    if VOTERS in properties or BOOTSTRAP_SERVERS in properties:
        translated["zookeeper.connect"] = f"127.0.0.1:{port}" if is_here else address
    return Translation(
        translated,
        "broker" in roles,
        port if is_here else None,
        _sentences(node, "broker" in roles, address, is_here),
    )


def _node_id(properties: Mapping[str, str]) -> int:
    text = properties.get("node.id", properties.get("broker.id", ""))
    if not (text.isascii() and text.isdigit()):
        raise ConfigError.invalid("node.id", text or "(none)", "a KRaft node needs its id, a number from 0 on")
    return int(text)


def _zookeeper(
    properties: Mapping[str, str], node: int, is_controller: bool, is_local: Callable[[str], bool]
) -> tuple[str, bool]:
    """Return the address of the ZooKeeper server, and whether this container runs it.

    Without an address the node is alone, as apache/kafka starts without variables.
    """
    if voters := properties.get(VOTERS):
        by_id = {int(match["id"]): match for match in _matches(VOTERS, voters, _VOTER, "id@host:port")}
        lowest = by_id[min(by_id)]
        return f"{lowest['host']}:{lowest['port']}", is_controller and node == min(by_id)
    if servers := properties.get(BOOTSTRAP_SERVERS):
        first = _matches(BOOTSTRAP_SERVERS, servers, _SERVER, "host:port")[0]
        return f"{first['host']}:{first['port']}", is_controller and is_local(first["host"])
    if not is_controller:
        raise ConfigError(
            f"{VOTERS} or {BOOTSTRAP_SERVERS} is missing: a KRaft broker needs the addresses of the controllers"
        )
    return f"localhost:{DEFAULT_PORT}", True


def _matches(key: str, text: str, pattern: re.Pattern[str], form: str) -> list[re.Match[str]]:
    found = [(part, pattern.fullmatch(part.strip())) for part in text.split(",")]
    matches = [match for _, match in found if match is not None and int(match["port"]) <= 65_535]
    if len(matches) < len(found):
        raise ConfigError.invalid(key, text, f"expected {form}, separated by commas")
    return matches


def _broker_properties(properties: Mapping[str, str], node: int) -> dict[str, str]:
    """Return the properties of the node's broker: KRaft's own are left out, and ids above 1000 are allowed."""
    controllers = {name.strip().upper() for name in properties.get("controller.listener.names", "").split(",")}
    kept = {key: value for key, value in properties.items() if key not in (ROLES, "node.id", VOTERS, BOOTSTRAP_SERVERS)}
    kept["broker.id"] = str(node)
    kept["broker.id.generation.enable"] = "false"
    kept.setdefault("zookeeper.session.timeout.ms", properties.get("broker.session.timeout.ms", _SESSION_TIMEOUT_MS))
    for key in ("listeners", "advertised.listeners"):
        rest = without_listeners(kept.get(key, ""), controllers)
        if rest.strip():
            kept[key] = rest
        else:
            kept.pop(key, None)
    return kept


def _sentences(node: int, runs_broker: bool, address: str, is_here: bool) -> tuple[str, ...]:
    if is_here:
        server = f"the ZooKeeper server of all nodes at {address}"
        runs = f"broker {node} and {server}" if runs_broker else server
        meaning = "While this container is stopped, brokers serve clients but elect no controller."
    elif runs_broker:
        runs = f"broker {node}, with the ZooKeeper server at {address}"
        meaning = "One of the brokers is elected as the controller; if it stops, another one is."
    else:
        runs = "nothing in this container"
        meaning = f"One of the brokers is the controller, and the ZooKeeper server is at {address}."
    return (f"KRaft node {node} is run in ZooKeeper mode, which means {runs}.", meaning)
