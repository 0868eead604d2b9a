"""Turns the environment variables of the Kafka images into properties of `server.properties`.

`KAFKA_…` is the form of apache/kafka (`kafka.docker.KafkaDockerWrapper`), of Confluent's and of wurstmeister's image,
`KAFKA_CFG_…` of Bitnami's. Debezium's and spotify's have names without a prefix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_PREFIXES: Final = ("KAFKA_CFG_", "KAFKA_")
"""Prefixes of variables that are properties, the one that wins first."""

CLUSTER_ID: Final = ("CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID", "KAFKA_CLUSTER_ID")
"""Variables that name the cluster's id, in the images of KRaft."""

_USED: Final = frozenset(
    {
        *CLUSTER_ID,
        "KAFKA_ADVERTISED_HOST_NAME",
        "KAFKA_ADVERTISED_PORT",
        "KAFKA_CREATE_TOPICS",
        "KAFKA_CREATE_TOPICS_SEPARATOR",
        "KAFKA_CUB_ZK_TIMEOUT",
        "KAFKA_HOST_NAME",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_PORT",
    }
)
"""Variables that other modules read, and that name no property."""

_OF_THE_IMAGE: Final = frozenset({"KAFKA_HOME", "KAFKA_VERSION", "KAFKA_DATA", "KAFKA_VOLUME_DIR"})
"""Variables that images set for themselves."""

_IGNORED: Final = re.compile(
    r"""
    (KAFKA_)?HEAP_OPTS | KAFKA_OPTS | KAFKA_(JVM_PERFORMANCE|GC_LOG|LOG4J)_OPTS | EXTRA_ARGS   # the JVM
    | KAFKA_(LOG4J_LOGGERS|TOOLS_LOG4J_LOGLEVEL|DEBUG) | LOG4J_\w+
    | (KAFKA_)?JMX_?\w+                                                                                # its metrics
    | CONFLUENT_\w+ | KAFKA_(CFG_)?CONFLUENT_\w+ | KAFKA_REST_\w+                                      # sidecars
    | ALLOW_(PLAINTEXT_LISTENER|ANONYMOUS_LOGIN) | BITNAMI_\w+ | KAFKA_(ENABLE_KRAFT|INIT_\w+|TLS_\w+|CERTIFICATE_\w+)
    | KAFKA_(CLIENT|INTER_BROKER|CONTROLLER)_(USERS?|PASSWORDS?) | KAFKA_ZOOKEEPER_(USER|PASSWORD)
    """,
    re.VERBOSE,
)
"""Variables that configure a JVM, a sidecar or the scripts of an image."""

_SERVICE_LINK: Final = re.compile(
    r"KAFKA_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP)(_\w+)?)|KAFKA_(ENV_\w+|NAME)"
)
"""Variables that Kubernetes and Docker's links set for a service named `kafka`."""

_UNPREFIXED: Final = {
    "ADVERTISED_HOST": "KAFKA_ADVERTISED_HOST_NAME",
    "ZOOKEEPER_CONNECT": "KAFKA_ZOOKEEPER_CONNECT",
    "BROKER_ID": "KAFKA_BROKER_ID",
    "NODE_ID": "KAFKA_BROKER_ID",
    "ADVERTISED_HOST_NAME": "KAFKA_ADVERTISED_HOST_NAME",
    "ADVERTISED_PORT": "KAFKA_ADVERTISED_PORT",
    "HOST_NAME": "KAFKA_HOST_NAME",
    "PORT": "KAFKA_PORT",
    "CREATE_TOPICS": "KAFKA_CREATE_TOPICS",
}
"""Names of Debezium's image and of spotify's (`ADVERTISED_HOST`), with the other images' names for the same."""

_SIGNS: Final = frozenset({"ZOOKEEPER_CONNECT", "BROKER_ID", "NODE_ID", "ADVERTISED_HOST"})
"""Variables of these images that other programs do not have."""

_ROLES: Final = {"combined": "broker,controller", "broker": "broker", "controller": "controller"}
"""Values of Debezium's `NODE_ROLE`, with the values of `process.roles`."""


class KafkaVariables(NamedTuple):
    """The variables of one container, sorted."""

    properties: dict[str, str]
    """Properties by key."""
    names: dict[str, str]
    """The variable that gave each property, for messages."""
    others: dict[str, str]
    """The variables that are no properties and have an effect, such as `KAFKA_CREATE_TOPICS`."""
    ignored: tuple[str, ...]
    """The variables without an effect, in order."""

    def named(self, message: str) -> str:
        """Return `message` with the variables in front that gave the keys it names."""
        words = set(re.findall(r"[a-z][\w.-]*[a-z]", message))
        concerned = sorted(name for key, name in self.names.items() if key in words)
        return f"{', '.join(concerned)}: {message}" if concerned else message


def read_variables(environment: Mapping[str, str]) -> KafkaVariables:
    """Sort the variables of an environment. A variable that is empty counts as not set."""
    given = _with_prefixes({name: value.strip() for name, value in environment.items() if value.strip()})
    properties: dict[str, str] = {}
    names: dict[str, str] = {}
    for prefix in reversed(_PREFIXES):
        for name in sorted(given):
            if prefix == _prefix(name) and name not in _USED:
                key = property_key(name.removeprefix(prefix))
                properties[key], names[key] = given[name], name
    others = {name: value for name, value in given.items() if name in _USED and not value.startswith("tcp://")}
    ignored = tuple(sorted(name for name in given if _IGNORED.fullmatch(name)))
    return KafkaVariables(properties, names, others, ignored)


def property_key(rest: str) -> str:
    """Return the property that a variable without its prefix names: `_` is `.`, `__` is `_` and `___` is `-`."""
    return rest.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _prefix(name: str) -> str | None:
    """Return the prefix of a variable that is a property; None for every other variable."""
    if name in _OF_THE_IMAGE or _IGNORED.fullmatch(name) or _SERVICE_LINK.fullmatch(name):
        return None
    return next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)


def _with_prefixes(given: dict[str, str]) -> dict[str, str]:
    """Add the names of other images for names without a prefix, if one of them shows that it is for such an image."""
    if not given.keys() & _SIGNS:
        return given
    named = {other: given[name] for name, other in _UNPREFIXED.items() if name in given}
    if "CLUSTER_ID" in given and "NODE_ID" in given:
        role = given.get("NODE_ROLE", "combined")
        named["KAFKA_PROCESS_ROLES"] = _ROLES.get(role, role)
    return named | given
