"""Derives the listeners of a broker in a container, as the entry points of the Kafka images do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from understudy.brokers.config.config_def import ConfigError

DEFAULT_PORT: Final = "9092"

EMPTY_HOST: Final = {"understudy.listeners.empty.host": "0.0.0.0"}
"""In a container a listener without a host binds every interface, as Kafka's does."""

_HOST: Final = re.compile(r"://(\[[^\]]*\]|[^:,]*):")


def derived_listeners(properties: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return `listeners` and `advertised.listeners` as far as other settings give them.

    Without `listeners` each advertised listener is bound on every interface, on its port (Confluent's `cub listeners`).
    `advertised.host.name` and `port`, which Kafka had before 3.0, stand for a listener PLAINTEXT.

    Args:
        others: the variables `KAFKA_ADVERTISED_HOST_NAME`, `_ADVERTISED_PORT`, `_HOST_NAME` and `_PORT` that are set.

    Raises:
        ConfigError: a port is no number.
    """
    listeners, advertised = properties.get("listeners"), properties.get("advertised.listeners")
    host = others.get("KAFKA_ADVERTISED_HOST_NAME") or others.get("KAFKA_HOST_NAME")
    if listeners is None and advertised is not None:
        return {"listeners": _HOST.sub("://0.0.0.0:", advertised)}
    if advertised is not None or (listeners is not None and host is None):
        return {}
    if listeners is not None:
        return {"advertised.listeners": _HOST.sub(f"://{host}:", listeners)}
    bound = _port(others, "KAFKA_PORT", DEFAULT_PORT)
    derived = {"listeners": f"PLAINTEXT://:{bound}"}
    if host is not None:
        derived["advertised.listeners"] = f"PLAINTEXT://{host}:{_port(others, 'KAFKA_ADVERTISED_PORT', bound)}"
    return derived


def without_listeners(text: str, names: set[str]) -> str:
    """Return a list of listeners without the named ones (in capitals)."""
    return ",".join(part for part in text.split(",") if part.partition("://")[0].strip().upper() not in names)


def _port(others: Mapping[str, str], name: str, default: str) -> str:
    port = others.get(name, default)
    if not (port.isascii() and port.isdigit() and len(port) <= 5):
        raise ConfigError(f"{name}={port}: expected a port, a number from 0 to 65535")
    return port
