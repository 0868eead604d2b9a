"""`understudy configs`: show and change the configuration of topics, brokers and loggers. Mirrors `ConfigCommand`."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from understudy.clusters.clients.config_requests import BROKER, BROKER_LOGGER, TOPIC
from understudy.foundation.cluster.java_order import in_order, strings
from understudy.foundation.wire.messages.describe_configs import DescribeConfigsResourceResult
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import Console, Surroundings, Tool, read_properties
from understudy.kafka_tools.errors import (
    ILLEGAL_ARGUMENT,
    INVALID_CONFIGURATION,
    JOPTSIMPLE,
    TIMEOUT,
    ToolError,
    UsageError,
    executed,
    illegal_argument,
    invalid_configuration,
)
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, COMMAND_CONFIG, Flag, Options
from understudy.kafka_tools.zookeeper.configs import ENTITY_TYPES as ZOOKEEPER_TYPES
from understudy.kafka_tools.zookeeper.configs import ZooKeeperConfigs, entity_of
from understudy.kafka_tools.zookeeper.session import zookeeper_session

SOURCES = (
    "UNKNOWN",
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG",
    "DYNAMIC_CLIENT_METRICS_CONFIG",
)
"""The names of `config_source`, by its number. Mirrors `ConfigEntry.ConfigSource`."""
TYPES = {"topics": TOPIC, "brokers": BROKER, "broker-loggers": BROKER_LOGGER}
"""The types of resources, by the types of entities."""
ENTITY_TYPES = ("topics", "clients", "users", "brokers", "ips", "broker-loggers", "client-metrics")
NAMED = {name: f"{name}s" for name in ("topic", "client", "user", "broker", "broker-logger", "ip")}
"""The type of entity that a flag names."""
DEFAULTS = {f"{name}-defaults": NAMED[name] for name in ("client", "user", "broker", "ip")}
_NOT_IN_BRACKETS = r"(?=[^\]]*(?:\[|$))"

FLAGS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag("bootstrap-controller", "Not supported: KRaft controllers.", "HOST:PORT,…"),
    Flag("zookeeper", "ZooKeeper, in place of brokers, as up to Kafka 2.8.", "HOST:PORT,…/CHROOT"),
    Flag("zk-tls-config-file", "Not supported.", "FILE"),
    Flag("alter", "Change the configuration."),
    Flag("describe", "Show the configuration."),
    Flag("all", "With --describe: show also keys that are not set for the entity itself."),
    Flag("entity-type", "topics, brokers or broker-loggers.", "TYPE"),
    Flag("entity-name", "A topic, or a broker's id.", "NAME"),
    Flag("entity-default", "The defaults of all brokers."),
    Flag("add-config", "What to set: key=value, with square brackets around a value with commas.", "K=V,K=[V,V],…"),
    Flag("add-config-file", "A properties file of what to set.", "FILE"),
    Flag("delete-config", "The keys to remove.", "K,K,…"),
    Flag("force", "Accepted; this tool asks nothing."),
    *(Flag(name, f"Short for --entity-type {kind} --entity-name.", "NAME") for name, kind in NAMED.items()),
    *(Flag(name, f"Short for --entity-type {kind} --entity-default.") for name, kind in DEFAULTS.items()),
)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    types, names = entity_types(options), entity_names(options)
    _check(options, types, names)
    if options.has("zookeeper"):
        await _run_with_zookeeper(options, surroundings, types, names)
        return 0
    kind = types[0]
    if kind not in TYPES:
        raise illegal_argument(
            f"Entity type {kind} is not supported; expected one of {', '.join(TYPES)}: there are no quotas, users or "
            "client metrics here"
        )
    if options.has("alter") and len(types) != len(names):
        raise illegal_argument("An entity name must be specified for every entity type")
    async with surroundings.connect(options) as cluster:
        if options.has("alter"):
            await _alter(options, cluster, surroundings.console, kind, names[0])
        else:
            await _describe(options, cluster, surroundings.console, kind, names)
    return 0


async def _run_with_zookeeper(
    options: Options, surroundings: Surroundings, types: Sequence[str], names: Sequence[str]
) -> None:
    console, source = surroundings.console, random.Random(int(surroundings.clock.wall_ms()))
    console.print(
        "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.\n"
        "Use --bootstrap-server instead to specify a broker to connect to."
    )
    async with zookeeper_session(surroundings, options.value("zookeeper") or "") as session:
        configs = ZooKeeperConfigs(session.zk, console, source)
        entity = entity_of(types, names, alters=options.has("alter"))
        if options.has("alter"):
            await configs.alter(entity, configs_to_add(options), configs_to_delete(options))
        else:
            await configs.describe(entity)


def _fails(error: ToolError, words: Sequence[str], console: Console) -> None:
    direct = (ILLEGAL_ARGUMENT, INVALID_CONFIGURATION)
    if error.kind in direct or error.kind.startswith(JOPTSIMPLE):
        console.error(error.shown_message)
        return
    console.error(f"Error while executing config command with args '{' '.join(words)}'")
    console.error(error.trace, end="")


TOOL = Tool(
    "configs",
    "This tool helps to manipulate and describe entity config for a topic, broker or broker logger.",
    FLAGS,
    run,
    _fails,
)


# ---------------------------------------------------------------------- the command line


def entity_types(options: Options) -> list[str]:
    """Return the types of the entities that the flags name."""
    short = {**NAMED, **DEFAULTS}
    return [*options.values("entity-type"), *(kind for name, kind in short.items() if options.has(name))]


def entity_names(options: Options) -> list[str]:
    """Return the names of the entities, empty for the defaults of all."""
    named = iter(options.values("entity-name"))
    return [
        *(
            next(named) if name == "entity-name" else ""
            for name in options.names
            if name in ("entity-name", "entity-default")
        ),
        *(options.value(name) or "" for name in NAMED if options.has(name)),
        *("" for name in DEFAULTS if options.has(name)),
    ]


def _check(options: Options, types: Sequence[str], names: Sequence[str]) -> None:
    """Raise UsageError or ToolError if flags are missing or contradict each other."""
    if options.has("alter") == options.has("describe"):
        raise UsageError("Command must include exactly one action: --describe, --alter")
    options.forbid("describe", "add-config", "delete-config")
    twice = [kind for place, kind in enumerate(types) if kind in types[:place]]
    if twice:
        raise illegal_argument(f"Duplicate entity type(s) specified: {','.join(twice)}")
    for kind in types:
        if options.has("zookeeper") and kind not in ZOOKEEPER_TYPES:
            raise illegal_argument(
                f"Invalid entity type {kind}, the entity type must be one of {','.join(ZOOKEEPER_TYPES)} with the "
                "--zookeeper argument"
            )
        if kind not in ENTITY_TYPES:
            raise illegal_argument(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(ENTITY_TYPES)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise illegal_argument("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise illegal_argument("Only 'users' and 'clients' entity types may be specified together")
    long, short = ("entity-name", "entity-type", "entity-default"), (*NAMED, *DEFAULTS)
    if any(map(options.has, long)) and any(map(options.has, short)):
        raise illegal_argument(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    _check_connection(options)
    _check_names(options, types, names)


def _check_connection(options: Options) -> None:
    ways = [name for name in ("bootstrap-server", "bootstrap-controller", "zookeeper") if options.has(name)]
    if not ways:
        raise illegal_argument(
            "One of the required --bootstrap-server, --boostrap-controller, or --zookeeper arguments must be specified"
        )
    if len(ways) > 1:
        raise illegal_argument(
            "Only one of --bootstrap-server, --boostrap-controller, and --zookeeper can be specified"
        )
    for name in ("bootstrap-controller", "zk-tls-config-file"):
        if options.has(name):
            raise illegal_argument(f"--{name} is not supported; give --bootstrap-server HOST:PORT")
    if options.has("zookeeper") and options.has("all"):
        raise illegal_argument("--bootstrap-server must be specified for --all")


def _check_names(options: Options, types: Sequence[str], names: Sequence[str]) -> None:
    kind = types[0]
    has_name, has_default = any(names), "" in names
    for name in names:
        if name and kind in ("brokers", "broker-loggers") and not re.fullmatch(r"[+-]?\d+", name):
            raise illegal_argument(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")
    if options.has("describe") and kind == "broker-loggers" and not has_name:
        raise illegal_argument("an entity name must be specified with --describe of broker-loggers")
    if not options.has("alter"):
        return
    if kind in ("users", "clients", "brokers", "ips"):
        if not has_name and not has_default:
            raise illegal_argument(
                "an entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            )
    elif not has_name:
        raise illegal_argument(f"an entity name must be specified with --alter of {','.join(types)}")
    if options.has("add-config") and options.has("add-config-file"):
        raise illegal_argument("Only one of --add-config or --add-config-file must be specified")
    if not any(map(options.has, ("add-config", "add-config-file", "delete-config"))):
        raise illegal_argument(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )


def configs_to_add(options: Options) -> dict[str, str]:
    """Return what `--add-config` and `--add-config-file` set. Raises ToolError."""
    found, text = read_properties(options.value("add-config-file")), options.value("add-config")
    if text is not None:
        pairs = [re.split(r"\s*=\s*" + _NOT_IN_BRACKETS, part) for part in re.split("," + _NOT_IN_BRACKETS, text)]
        if any(len(pair) != 2 for pair in pairs):
            raise illegal_argument(
                'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val".'
            )
        found |= {key.strip(): re.sub(r"\[?\]?", "", value).strip() for key, value in pairs}
    for key in found:
        if not re.fullmatch(r"[a-zA-Z0-9._-]*", key):
            raise illegal_argument(f"Invalid character found for config key: {key}")
    return found


def configs_to_delete(options: Options) -> list[str]:
    """Return the keys that `--delete-config` removes."""
    return [key.strip() for value in options.values("delete-config") for key in value.split(",")]


# ---------------------------------------------------------------------- describe


async def _describe(options: Options, cluster: KafkaCluster, console: Console, kind: str, names: Sequence[str]) -> None:
    shown = names[:1]
    if not shown and kind == "topics":
        shown = strings(await cluster.topics())
    elif not shown:
        metadata = await cluster.metadata((), call="listNodes")
        # Kafka answers in no order; its client keeps brokers in a hash map, whose keys' hash codes are the ids.
        brokers = in_order([broker.node_id for broker in metadata.brokers], int)
        shown = [*map(str, brokers), ""]
    for name in shown:
        if name:
            console.print(f"{'All' if options.has('all') else 'Dynamic'} configs for {kind[:-1]} {name} are:")
        else:
            console.print(f"Default configs for {kind} in the cluster are:")
        for entry in await _own_configs(cluster, kind, name, everything=options.has("all")):
            synonyms = ", ".join(f"{SOURCES[each.source]}:{each.name}={_shown(each.value)}" for each in entry.synonyms)
            console.print(
                f"  {entry.name}={_shown(entry.value)} sensitive={str(entry.is_sensitive).lower()} "
                f"synonyms={{{synonyms}}}"
            )


async def _own_configs(
    cluster: KafkaCluster, kind: str, name: str, *, everything: bool = False
) -> list[DescribeConfigsResourceResult]:
    """Return the configuration that is set for an entity itself, or `everything` that applies to it, sorted by key."""
    source = {
        "topics": "DYNAMIC_TOPIC_CONFIG",
        "brokers": "DYNAMIC_BROKER_CONFIG" if name else "DYNAMIC_DEFAULT_BROKER_CONFIG",
    }.get(kind)
    try:
        configs = await cluster.describe_config(TYPES[kind], name)
    except ToolError as error:
        raise _waited(error) from None
    return sorted(
        (entry for entry in configs.values() if everything or source in (None, SOURCES[entry.config_source])),
        key=lambda entry: entry.name,
    )


def _waited(error: ToolError) -> ToolError:
    """Return the exception that waiting 30 or 60 s for a Java future raises if it failed because of `error`."""
    return ToolError("java.util.concurrent.TimeoutException") if error.kind == TIMEOUT else executed(error)


def _shown(value: str | None) -> str:
    return "null" if value is None else value


# ---------------------------------------------------------------------- alter


async def _alter(options: Options, cluster: KafkaCluster, console: Console, kind: str, name: str) -> None:
    added = configs_to_add(options)
    deleted = configs_to_delete(options)
    before = {entry.name: entry for entry in await _own_configs(cluster, kind, name)}
    unknown = [key for key in deleted if key not in before]
    if kind == "broker-loggers":
        unknown += [key for key in added if key not in before]
        if unknown:
            raise invalid_configuration(f"Invalid broker logger(s): {','.join(unknown)}")
    elif unknown:
        raise invalid_configuration(f"Invalid config(s): {','.join(unknown)}")
    after = {key: entry.value for key, entry in before.items()} | added
    values = {key: value for key, value in after.items() if key not in deleted}
    hidden = [key for key, value in values.items() if value is None]
    if kind == "brokers" and hidden:
        raise invalid_configuration(
            "All sensitive broker config entries must be specified for --alter, missing entries: "
            f"Set({', '.join(hidden)})"
        )
    try:
        if kind == "brokers":
            await cluster.replace_config(BROKER, name, values)
        else:
            await cluster.alter_config(TYPES[kind], name, added | dict.fromkeys(deleted))
    except ToolError as error:
        raise _waited(error) from None
    if name:
        console.print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        console.print(f"Completed updating default config for {kind} in the cluster.")
