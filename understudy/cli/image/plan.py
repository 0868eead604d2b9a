"""Decides what a container runs, from its environment and the properties file it was given.

Without any variable it is one broker on localhost:9092, as apache/kafka starts, with a ZooKeeper server of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.reading import read_config
from understudy.cli.image.create_topics import TopicToCreate, read_topics
from understudy.cli.image.kraft import ROLES, Translation, is_kraft, translate
from understudy.cli.image.listeners import DEFAULT_PORT as KAFKA_PORT
from understudy.cli.image.listeners import EMPTY_HOST, derived_listeners
from understudy.cli.image.variables import CLUSTER_ID, KafkaVariables, read_variables
from understudy.cli.image.zookeeper_variables import (
    DEFAULT_PORT,
    ZooKeeperVariables,
    is_zookeeper,
    read_zookeeper_variables,
    standalone,
)

LOG_DIR: Final = "/var/lib/kafka/data"
BITNAMI_LOG_DIR: Final = "/bitnami/kafka/data"

_ALONE: Final = {
    "zookeeper.connect": f"127.0.0.1:{DEFAULT_PORT}",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""Defaults of a broker that is alone, as in the configurations of Kafka's images for one broker."""


_ROLES_WITHOUT_EFFECT: Final = (
    "process.roles is without effect beside zookeeper.connect: this is a broker in ZooKeeper mode, with the ZooKeeper "
    "server at {connect}."
)


class Plan(NamedTuple):
    """What a container runs: a broker, a ZooKeeper server, both, or nothing until it is stopped."""

    broker: KafkaConfig | None = None
    """The broker's configuration; `originals` has the properties for its file."""
    zookeeper: ZooKeeperVariables | None = None
    """The ZooKeeper server that runs here."""
    topics: tuple[TopicToCreate, ...] = ()
    """Topics to create when the broker serves."""
    in_place_of_kraft: bool = False
    """Whether a KRaft node was configured."""
    log_level: str | None = None
    """The level of the broker's log; None for the default."""
    notes: tuple[str, ...] = ()
    """Sentences for the log, before anything starts."""


def plan_of(
    environment: Mapping[str, str],
    *,
    is_local: Callable[[str], bool],
    file: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Plan:
    """Return the plan of a container.

    Args:
        is_local: whether a host is this container.
        file: properties of the file that the command names; variables win over them.
        overrides: properties of the command line, which win over both.

    Raises:
        ConfigError: a value cannot be used; the message names the variable.
    """
    if file is None and is_zookeeper(environment):
        server = read_zookeeper_variables(environment)
        return Plan(zookeeper=server, notes=_ignored(server.ignored))
    variables = read_variables(environment)
    try:
        return _broker_plan(variables, {**(file or {}), **variables.properties, **(overrides or {})}, is_local)
    except ConfigError as error:
        raise ConfigError(variables.named(str(error))) from None


def _broker_plan(variables: KafkaVariables, properties: dict[str, str], is_local: Callable[[str], bool]) -> Plan:
    translation = translate(properties, is_local) if is_kraft(properties) else _in_zookeeper_mode(properties)
    settings = {**_defaults(variables, translation.properties), **translation.properties}
    server = None
    if translation.zookeeper_port is not None:
        # In the volume of the broker's data, because a KRaft node has no other.
        server = standalone(translation.zookeeper_port, f"{settings['log.dirs']}/zookeeper")
    return Plan(
        broker=read_config(settings) if translation.runs_broker else None,
        zookeeper=server,
        topics=read_topics(variables.others),
        in_place_of_kraft=bool(translation.sentences),
        log_level=variables.others.get("KAFKA_LOG4J_ROOT_LOGLEVEL"),
        notes=(*_ignored(variables.ignored), *translation.sentences),
    )


def _defaults(variables: KafkaVariables, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a broker that its settings leave open."""
    is_bitnamis = any(name.startswith("KAFKA_CFG_") for name in variables.names.values())
    log_dir = properties.get("log.dir", BITNAMI_LOG_DIR if is_bitnamis else LOG_DIR)
    defaults = {"log.dirs": log_dir, **EMPTY_HOST, **derived_listeners(properties, variables.others)}
    if "listener.security.protocol.map" not in properties:
        kafkas = KafkaConfig.listener_security_protocol_map
        defaults["listener.security.protocol.map"] = f"{kafkas},CONTROLLER:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
    if cluster_id := next((variables.others[name] for name in CLUSTER_ID if name in variables.others), None):
        defaults["understudy.cluster.id"] = cluster_id
    if "zookeeper.connect" not in properties:
        defaults |= _ALONE
        if "node.id" not in properties:
            defaults["broker.id"] = "1"
        if not {"listeners", "advertised.listeners"} & properties.keys():
            defaults.setdefault("advertised.listeners", f"PLAINTEXT://localhost:{KAFKA_PORT}")
    return defaults


def _in_zookeeper_mode(properties: dict[str, str]) -> Translation:
    """Return a node that is configured for ZooKeeper mode; without `zookeeper.connect` it has a server of its own."""
    kept = {key: value for key, value in properties.items() if key != ROLES}
    if (connect := kept.get("zookeeper.connect")) is None:
        return Translation(kept, True, DEFAULT_PORT, ())
    sentences = (_ROLES_WITHOUT_EFFECT.format(connect=connect),) if ROLES in properties else ()
    return Translation(kept, True, None, sentences)


def _ignored(names: tuple[str, ...]) -> tuple[str, ...]:
    return (f"Without effect here: {', '.join(names)}.",) if names else ()
