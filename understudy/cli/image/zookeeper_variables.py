"""Reads the environment variables of the ZooKeeper images: the official one, Confluent's, Bitnami's and Debezium's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from understudy.brokers.config.config_def import ConfigError

DEFAULT_PORT: Final = 2181
CONFLUENT_DATA_DIR: Final = "/var/lib/zookeeper/data"
_PEER_PORTS: Final = "2888:3888"
_OWN_PARAMETERS: Final = frozenset({"dataDir", "clientPort", "clientPortAddress"})
"""Keys of `zoo.cfg` that are parameters of the server here."""

_SETTINGS: Final = {
    "TICK_TIME": "tickTime",
    "INIT_LIMIT": "initLimit",
    "SYNC_LIMIT": "syncLimit",
    "MAX_CLIENT_CNXNS": "maxClientCnxns",
    "MIN_SESSION_TIMEOUT": "minSessionTimeout",
    "MAX_SESSION_TIMEOUT": "maxSessionTimeout",
    "SNAP_COUNT": "snapCount",
    "PRE_ALLOC_SIZE": "preAllocSize",
    "GLOBAL_OUTSTANDING_LIMIT": "globalOutstandingLimit",
    "AUTOPURGE_SNAPRETAINCOUNT": "autopurge.snapRetainCount",
    "AUTOPURGE_SNAP_RETAIN_COUNT": "autopurge.snapRetainCount",
    "AUTOPURGE_PURGEINTERVAL": "autopurge.purgeInterval",
    "AUTOPURGE_PURGE_INTERVAL": "autopurge.purgeInterval",
    "AUTOPURGE_INTERVAL": "autopurge.purgeInterval",
    "CNX_TIMEOUT": "cnxTimeout",
    "ELECTION_PORT_BIND_RETRY": "electionPortBindRetry",
    "QUORUM_LISTEN_ON_ALL_IPS": "quorumListenOnAllIPs",
    "LISTEN_ALLIPS_ENABLED": "quorumListenOnAllIPs",
    "LEADER_SERVES": "leaderServes",
    "ELECTION_ALG": "electionAlg",
    "STANDALONE_ENABLED": "standaloneEnabled",
    "RECONFIG_ENABLED": "reconfigEnabled",
}
"""Settings of `zoo.cfg` by the rest of a variable, after `ZOOKEEPER_` or `ZOO_`."""

_NUMBERS: Final = frozenset(_SETTINGS.values()) - {
    "quorumListenOnAllIPs",
    "leaderServes",
    "standaloneEnabled",
    "reconfigEnabled",
}

_SERVER_LINE: Final = re.compile(
    r"(?:server\.(?P<id>\d{1,3})=)?(?P<address>[^;:\s]+:\d+:\d+[^;\s]*?)(?:::(?P<last>\d+))?(?P<client>;\S*)?"
)


class ZooKeeperVariables(NamedTuple):
    """The server that an environment describes."""

    port: int
    my_id: int | None
    """The server's id in its ensemble; None for a standalone server."""
    servers: dict[int, str]
    """Values of `server.N` in `zoo.cfg`; empty for a standalone server."""
    settings: dict[str, str]
    """Other lines of `zoo.cfg`."""
    data_dir: str
    """The folder of its snapshots and transaction logs."""
    ignored: tuple[str, ...] = ()
    """The variables without an effect, in order."""


_BROKERS: Final = frozenset(
    f"KAFKA_{infix}{name}"
    for infix in ("", "CFG_")
    for name in ("ZOOKEEPER_CONNECT", "PROCESS_ROLES", "LISTENERS", "ADVERTISED_LISTENERS")
)
"""Variables of a broker. They may stand beside a ZooKeeper's in a file that several containers read."""


def is_zookeeper(environment: Mapping[str, str]) -> bool:
    """Return whether the variables belong to a ZooKeeper image and not to a broker's."""
    return not environment.keys() & _BROKERS and (
        "ZOOKEEPER_CLIENT_PORT" in environment
        or any(name.startswith("ZOO_") for name in environment)
        or "ALLOW_ANONYMOUS_LOGIN" in environment
        or {"SERVER_ID", "SERVER_COUNT"} <= environment.keys()
    )


def read_zookeeper_variables(environment: Mapping[str, str]) -> ZooKeeperVariables:
    """Read the variables of a ZooKeeper server.

    Raises:
        ConfigError: a value cannot be used; the message names the variable.
    """
    given = {name: value.strip() for name, value in environment.items() if value.strip()}
    port = _number(given, ("ZOOKEEPER_CLIENT_PORT", "ZOO_PORT_NUMBER", "ZOO_PORT"), DEFAULT_PORT)
    my_id = _number(given, ("ZOOKEEPER_SERVER_ID", "ZOO_MY_ID", "ZOO_SERVER_ID", "SERVER_ID"), 1)
    servers = _servers(given, my_id)
    if servers and my_id not in servers:
        raise ConfigError(
            f"the server's id is {my_id}, and the list of servers has {', '.join(map(str, sorted(servers)))}; "
            "set ZOOKEEPER_SERVER_ID or ZOO_MY_ID to one of them"
        )
    settings: dict[str, str] = {}
    ignored = []
    for name in sorted(given):
        prefix = next((each for each in ("ZOOKEEPER_", "ZOO_") if name.startswith(each)), None)
        if prefix is None:
            continue
        setting = _SETTINGS.get(name.removeprefix(prefix))
        if setting is not None:
            settings[setting] = _setting(name, given[name], setting)
        elif name not in _READ:
            ignored.append(name)
    for entry in given.get("ZOO_CFG_EXTRA", "").split():
        key, _, value = entry.partition("=")
        settings[key] = value
    is_member = len(servers) > 1
    return ZooKeeperVariables(
        port, my_id if is_member else None, servers if is_member else {}, settings, _data_dir(given), tuple(ignored)
    )


def standalone(port: int, data_dir: str) -> ZooKeeperVariables:
    """Return a server without an ensemble."""
    return ZooKeeperVariables(port, None, {}, {}, data_dir)


def zookeeper_properties(properties: Mapping[str, str], my_id: str | None) -> ZooKeeperVariables:
    """Read a `zoo.cfg` or `zookeeper.properties`.

    Args:
        my_id: the content of `dataDir/myid`; None if there is no such file.

    Raises:
        ConfigError: the port or an id cannot be read, or a server of an ensemble has no `myid`.
    """
    rest = {key: value for key, value in properties.items() if key not in _OWN_PARAMETERS}
    servers = {
        _digits(key, key.removeprefix("server.")): rest.pop(key) for key in sorted(rest) if key.startswith("server.")
    }
    if len(servers) > 1 and my_id is None:
        raise ConfigError(
            "the configuration names the servers of an ensemble; expected this server's id in dataDir/myid"
        )
    port = _digits("clientPort", properties.get("clientPort", str(DEFAULT_PORT)))
    here = _digits("myid", my_id) if my_id is not None and len(servers) > 1 else None
    data_dir = properties.get("dataDir", CONFLUENT_DATA_DIR)
    return ZooKeeperVariables(port, here, servers if here is not None else {}, rest, data_dir)


_READ: Final = frozenset(
    {
        "ZOOKEEPER_CLIENT_PORT",
        "ZOOKEEPER_SERVER_ID",
        "ZOOKEEPER_SERVERS",
        "ZOO_PORT",
        "ZOO_PORT_NUMBER",
        "ZOO_MY_ID",
        "ZOO_SERVER_ID",
        "ZOO_SERVERS",
        "ZOO_CFG_EXTRA",
        "ZOO_DATA_DIR",
        # Every four-letter word is answered, and the server for administrators is not started.
        "ZOO_4LW_COMMANDS_WHITELIST",
        "ZOO_ADMINSERVER_ENABLED",
        "ZOOKEEPER_ADMIN_ENABLE_SERVER",
    }
)
"""Variables that are read on their own, or whose effect the server has in any case."""


def _servers(given: Mapping[str, str], my_id: int) -> dict[int, str]:
    """Return the servers of an ensemble by id; empty for a standalone server."""
    if text := given.get("ZOOKEEPER_SERVERS"):
        parts = [part.strip() for part in text.split(";") if part.strip()]
        return {place: _address("ZOOKEEPER_SERVERS", part) for place, part in enumerate(parts, 1)}
    if text := given.get("ZOO_SERVERS"):
        servers = {}
        for place, part in enumerate(re.split(r"[\s,]+", text.strip()), 1):
            match = _SERVER_LINE.fullmatch(part)
            if match is None:
                raise ConfigError(f"ZOO_SERVERS={text}: {part} is no server; expected server.1=host:2888:3888;2181")
            servers[int(match["id"] or match["last"] or place)] = match["address"] + (match["client"] or "")
        return servers
    count = _number(given, ("SERVER_COUNT",), 1)
    return {
        each: f"{'0.0.0.0' if each == my_id else f'zookeeper-{each}'}:{_PEER_PORTS}"
        for each in range(1, count + 1)
        if count > 1
    }


def _data_dir(given: Mapping[str, str]) -> str:
    """Return the data folder of the image that the variables are for, which compose files mount as a volume."""
    if any(name.startswith("ZOOKEEPER_") for name in given):
        return CONFLUENT_DATA_DIR
    if "ALLOW_ANONYMOUS_LOGIN" in given or "ZOO_SERVER_ID" in given or "ZOO_ENABLE_AUTH" in given:
        return "/bitnami/zookeeper/data"
    return given.get("ZOO_DATA_DIR", "/data") if any(name.startswith("ZOO_") for name in given) else "/zookeeper/data"


def _address(name: str, part: str) -> str:
    if not re.fullmatch(r"[^:\s]+:\d+:\d+(:\w+)?", part):
        raise ConfigError(f"{name}: {part} is no server; expected host:2888:3888, separated by semicolons")
    return part


def _number(given: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    name = next((each for each in names if each in given), None)
    return default if name is None else _digits(name, given[name])


def _digits(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ConfigError(f"{name}={text}: expected a number from 0 on")
    return int(text)


def _setting(name: str, value: str, setting: str) -> str:
    if setting in _NUMBERS:
        _digits(name, value.removeprefix("-"))
    return value
