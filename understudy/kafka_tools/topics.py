"""`understudy topics`: list, describe, create, alter and delete topics. Mirrors Kafka's `TopicCommand`."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from understudy.brokers.config.config_def import ConfigError, InvalidConfiguration
from understudy.brokers.config.topic_config import TOPIC_TABLE
from understudy.brokers.metadata.topic_names import has_collision_characters
from understudy.foundation.cluster.errors import Errors
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import Console, Surroundings, Tool, print_trace, print_uncaught
from understudy.kafka_tools.errors import (
    COMMAND_FAILED,
    CONFIG,
    OPERATION_FAILED,
    ToolError,
    UsageError,
    illegal_argument,
    invalid_configuration,
)
from understudy.kafka_tools.json_input import duplicates
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, COMMAND_CONFIG, Flag, Options, java_split, parse_int
from understudy.kafka_tools.topic_descriptions import NEED_CONFIGS, REPORTS, describe_topics
from understudy.kafka_tools.topic_filter import existing_topics, matching_topics
from understudy.kafka_tools.zookeeper.session import NotConnected, zookeeper_session
from understudy.kafka_tools.zookeeper.topics import LOGGER, Wanted, ZooKeeperTopics

ACTIONS = ("create", "list", "alter", "describe", "delete")
MAX_SHORT = 32767

FLAGS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag("zookeeper", "ZooKeeper, in place of brokers, as up to Kafka 2.8.", "HOST:PORT,…/CHROOT"),
    Flag("list", "List the topics."),
    Flag("create", "Create a topic."),
    Flag("delete", "Delete topics."),
    Flag("alter", "Increase the number of partitions of topics."),
    Flag("describe", "Show topics, their partitions, replicas and configuration."),
    Flag("topic", "The topic; but for --create a regular expression.", "TOPIC"),
    Flag("topic-id", "The id of the topic to describe.", "ID"),
    Flag("config", "A configuration of the topic to create; may be given several times.", "NAME=VALUE"),
    Flag("delete-config", "With --zookeeper: a configuration to remove; may be given several times.", "NAME"),
    Flag("partitions", "How many partitions the topic gets, or has after --alter.", "COUNT"),
    Flag("replication-factor", "How many replicas each partition of a new topic gets.", "COUNT"),
    Flag("replica-assignment", "The brokers of each partition, of all partitions also with --alter.", "1:2,2:3,…"),
    Flag("under-replicated-partitions", "Describe only partitions with replicas out of sync."),
    Flag("unavailable-partitions", "Describe only partitions without a live leader."),
    Flag("under-min-isr-partitions", "Describe only partitions with fewer replicas in sync than the minimum."),
    Flag("at-min-isr-partitions", "Describe only partitions with exactly the minimum of replicas in sync."),
    Flag("topics-with-overrides", "Describe only topics with a configuration of their own."),
    Flag("if-exists", "With --alter, --delete and --describe: a topic that does not exist is no error."),
    Flag("if-not-exists", "With --create: a topic that exists is no error."),
    Flag("exclude-internal", "With --list and --describe: leave out internal topics."),
    Flag("partition-size-limit-per-response", "Accepted; one response always has all partitions.", "N"),
    Flag("disable-rack-aware", "With --zookeeper: place replicas regardless of racks."),
    Flag("force", "Accepted; this tool asks nothing."),
)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    action = options.only_one_of(ACTIONS, listed="--list, --describe, --create, --alter or --delete")
    _check(options, surroundings.console)
    if options.has("zookeeper"):
        return await _run_with_zookeeper(action, options, surroundings)
    cluster = surroundings.connect(options)
    actions = {"create": create, "list": list_topics, "alter": alter, "describe": describe_topics, "delete": delete}
    try:
        async with cluster:
            await actions[action](options, cluster, surroundings.console)
    except ToolError as error:
        surroundings.console.print(f"Error while executing topic command : {error.shown_message}")
        surroundings.console.log("ERROR", error.trace, "org.apache.kafka.tools.TopicCommand")
        return 1
    return 0


async def _run_with_zookeeper(action: str, options: Options, surroundings: Surroundings) -> int:
    console, source = surroundings.console, random.Random(int(surroundings.clock.wall_ms()))
    try:
        async with zookeeper_session(surroundings, options.value("zookeeper") or "") as session:
            topics = ZooKeeperTopics(session.zk, options, console, source)
            actions = {
                "create": topics.create,
                "list": topics.list,
                "alter": topics.alter,
                "describe": topics.describe,
                "delete": topics.delete,
            }
            wanted = Wanted(
                replica_assignment(options.value("replica-assignment")),
                topic_configs(options.values("config")),
                topic_config_names(options.values("delete-config")),
            )
            await actions[action](wanted)
    except NotConnected as error:
        print_uncaught(error, (), console)
        return 1
    except ToolError as error:
        console.print(f"Error while executing topic command : {error.shown_message}")
        console.log("ERROR", error.trace, LOGGER)
        return 1
    return 0


TOOL = Tool("topics", "Create, delete, describe, or change a topic.", FLAGS, run, print_trace)


def _check(options: Options, console: Console) -> None:
    """Raise UsageError or ToolError if flags are missing or contradict each other."""
    is_with_zookeeper = options.has("zookeeper")
    if is_with_zookeeper and options.has("bootstrap-server"):
        raise illegal_argument("Only one of --bootstrap-server or --zookeeper must be specified")
    if not is_with_zookeeper and not options.has("bootstrap-server"):
        raise illegal_argument("--bootstrap-server must be specified")
    if options.has("describe") and options.has("if-exists"):
        if not options.has("topic") and not options.has("topic-id"):
            raise UsageError("--topic or --topic-id is required to describe a topic")
        if options.has("topic") and options.has("topic-id"):
            console.print(
                "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
                "Uuid.ZERO_UUID"
            )
    if not options.has("list") and not options.has("describe"):
        options.require("topic")
    if is_with_zookeeper and options.has("create") and not options.has("replica-assignment"):
        options.require("partitions", "replication-factor")
    if options.has("alter") and not is_with_zookeeper:
        if options.has("config"):
            raise UsageError(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]" '
                "(the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)"
            )
        options.require("partitions")
    _check_combinations(options)


def _check_combinations(options: Options) -> None:
    def only_with(used: str, *allowed: str, also_not: Sequence[str] = ()) -> None:
        options.forbid(used, *(action for action in ACTIONS if action not in allowed), *also_not)

    only_with("config", "alter", "create")
    only_with("delete-config", "alter", also_not=["bootstrap-server"])
    only_with("partitions", "alter", "create")
    only_with("replication-factor", "create")
    only_with("replica-assignment", "alter", "create")
    if options.has("create"):
        options.forbid("replica-assignment", "partitions", "replication-factor")
    for report in REPORTS:
        also_not = ["topics-with-overrides", *(["zookeeper"] if report in NEED_CONFIGS else [])]
        only_with(report, "describe", also_not=also_not)
    only_with("topics-with-overrides", "describe", also_not=REPORTS)
    only_with("if-exists", "alter", "delete", "describe")
    only_with("if-not-exists", "create")
    only_with("exclude-internal", "list", "describe")


# ---------------------------------------------------------------------- create


async def create(options: Options, cluster: KafkaCluster, console: Console) -> None:
    """Create the topic."""
    name = options.value("topic") or ""
    partitions, factor = options.number("partitions"), options.number("replication-factor")
    assignment = replica_assignment(options.value("replica-assignment"))
    configs = topic_configs(options.values("config"))
    if has_collision_characters(name):
        console.print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    if factor is not None and not 1 <= factor <= MAX_SHORT:
        raise illegal_argument(f"The replication factor must be between 1 and {MAX_SHORT} inclusive")
    if partitions is not None and partitions < 1:
        raise illegal_argument("The partitions must be greater than 0")
    try:
        await cluster.create_topic(
            name,
            partitions=-1 if partitions is None else partitions,
            replication_factor=-1 if factor is None else factor,
            assignment=dict(enumerate(assignment)),
            configs=configs,
        )
    except ToolError as error:
        if error.code == Errors.TOPIC_ALREADY_EXISTS and options.has("if-not-exists"):
            return
        raise
    console.print(f"Created topic {name}.")


def replica_assignment(text: str | None) -> list[list[int]]:
    """Parse the brokers of each partition, `1:2,2:3`; none for None. Raises ToolError."""
    found: list[list[int]] = []
    for index, part in enumerate(java_split(text, ",") if text else ()):
        brokers = [parse_int(broker.strip()) for broker in java_split(part, ":")]
        if twice := duplicates(brokers):
            listed = ",".join(map(str, twice))
            raise ToolError(COMMAND_FAILED, f"Partition replica lists may not contain duplicate entries: {listed}")
        found.append(brokers)
        if len(brokers) != len(found[0]):
            raise ToolError(OPERATION_FAILED, f"Partition {index} has different replication factor: {brokers}")
    return found


def topic_configs(assignments: Sequence[str]) -> dict[str, str]:
    """Parse and check `NAME=VALUE` pairs, as Kafka's tool does before it asks a broker. Raises ToolError."""
    pairs = [re.split(r"\s*=\s*", assignment) for assignment in assignments]
    if any(len(pair) != 2 for pair in pairs):
        raise illegal_argument(
            'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
        )
    configs = {key.strip(): value.strip() for key, value in pairs}
    for name in configs:
        if name not in TOPIC_TABLE:
            raise invalid_configuration(f"Unknown topic config name: {name}")
    try:
        values = {name: key.parse(configs[name]) for name, key in TOPIC_TABLE.items() if name in configs}
    except InvalidConfiguration as error:
        raise invalid_configuration(str(error)) from None
    except ConfigError as error:
        raise ToolError(CONFIG, str(error)) from None
    least, most = values.get("min.compaction.lag.ms", 0), values.get("max.compaction.lag.ms", 2**63 - 1)
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise invalid_configuration(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    return configs


def topic_config_names(names: Sequence[str]) -> list[str]:
    """Check the names of configs to remove. Raises ToolError."""
    found = [name.strip() for name in names]
    for name in found:
        if name not in TOPIC_TABLE:
            raise invalid_configuration(f"Unknown topic config name: {name}")
    return found


# ---------------------------------------------------------------------- list, alter, delete


async def list_topics(options: Options, cluster: KafkaCluster, console: Console) -> None:
    console.print("\n".join(await matching_topics(options, cluster)))


async def alter(options: Options, cluster: KafkaCluster, console: Console) -> None:
    partitions = options.number("partitions")
    assignment = replica_assignment(options.value("replica-assignment"))
    names = await existing_topics(options, cluster)
    if not names:
        return
    topics = await cluster.topics()
    counts = {name: len(topics[name].partitions) if name in topics else 0 for name in names}
    await cluster.create_partitions_of(
        {name: assignment[count:] if assignment else None for name, count in counts.items()},
        partitions or 0,
    )


async def delete(options: Options, cluster: KafkaCluster, console: Console) -> None:
    if names := await existing_topics(options, cluster):
        await cluster.delete_topics(*names)
