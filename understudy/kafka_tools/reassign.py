"""`understudy reassign`: move partitions to other brokers. Mirrors Kafka's `ReassignPartitionsCommand`."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from understudy.clusters.clients.config_requests import BROKER, TOPIC
from understudy.controller.replica_placement import assign_replicas_to_brokers
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.java_order import in_order, strings
from understudy.foundation.wire.messages.list_partition_reassignments import OngoingPartitionReassignment
from understudy.foundation.wire.nested_topics import by_partition, by_topic
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import Console, Surroundings, Tool, print_uncaught, read_text
from understudy.kafka_tools.errors import (
    API,
    COMMAND_FAILED,
    OPERATION_FAILED,
    TERSE,
    ToolError,
    UsageError,
    error_of,
    executed,
)
from understudy.kafka_tools.json_input import duplicates
from understudy.kafka_tools.options import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag,
    Options,
    java_number,
    java_split,
    parse_int,
)
from understudy.kafka_tools.reassignment_plan import (
    Assignment,
    as_json,
    check_reassignment,
    moves,
    parse_reassignment,
    parse_topics,
    throttled_replicas,
)

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

ACTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "generate": (("topics-to-move-json-file", "broker-list"), ("disable-rack-aware",)),
    "execute": (("reassignment-json-file",), ("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout")),
    "verify": (("reassignment-json-file",), ("preserve-throttles",)),
    "cancel": (("reassignment-json-file",), ("preserve-throttles", "timeout")),
    "list": ((), ()),
}
"""Flags that each action requires, and those that it also permits."""

FLAGS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag("verify", "Show whether a reassignment is completed, and remove its throttles if it is."),
    Flag("generate", "Propose a reassignment; it is not begun."),
    Flag("execute", "Begin a reassignment."),
    Flag("cancel", "Cancel a reassignment in progress."),
    Flag("list", "Show all reassignments in progress."),
    Flag(
        "reassignment-json-file",
        'The reassignment: {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1, 2]}, …]}.',
        "FILE",
    ),
    Flag("topics-to-move-json-file", 'With --generate: {"version": 1, "topics": [{"topic": "a"}, …]}.', "FILE"),
    Flag("broker-list", "With --generate: the brokers to move to.", "0,1,2"),
    Flag("disable-rack-aware", "With --generate: do not look at racks."),
    Flag("throttle", "With --execute: bytes per second between brokers.", "B/S"),
    Flag("replica-alter-log-dirs-throttle", "With --execute: bytes per second between log directories.", "B/S"),
    Flag("timeout", "Accepted; moves between log directories are not supported.", "MS"),
    Flag("additional", "With --execute: although there are reassignments in progress."),
    Flag("preserve-throttles", "With --verify and --cancel: leave the throttles."),
)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    console = surroundings.console
    action = _checked_action(options)
    try:
        async with surroundings.connect(options) as cluster:
            match action:
                case "verify":
                    await _verify(options, cluster, console)
                case "generate":
                    await _generate(options, cluster, console, random.Random(int(surroundings.clock.wall_ms())))
                case "execute":
                    await _execute(options, cluster, console)
                case "cancel":
                    await _cancel(options, cluster, console)
                case _:
                    await _list(cluster, console)
    except ToolError as error:
        if error.kind == TERSE:
            console.print(error.shown_message)
        else:
            console.print(f"Error: {error.shown_message}")
            console.print(error.trace)
        return 1
    return 0


TOOL = Tool(
    "reassign",
    "This tool helps to move topic partitions between replicas.",
    FLAGS,
    run,
    print_uncaught,
)


def _checked_action(options: Options) -> str:
    """Return the action; raises UsageError if flags are missing or do not belong to it."""
    action = options.only_one_of(tuple(ACTIONS))
    required, others = ACTIONS[action]
    if not options.has("bootstrap-server"):
        raise UsageError("Please specify --bootstrap-server")
    options.require(*required)
    permitted = {action, "bootstrap-server", "command-config", *required, *others}
    for name in options.names:
        if name not in permitted:
            raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


# ---------------------------------------------------------------------- verify and cancel


async def _verify(options: Options, cluster: KafkaCluster, console: Console) -> None:
    plan = parse_reassignment(read_text(options.value("reassignment-json-file") or ""))
    ongoing = await _ongoing(cluster)
    topics = {partition.topic for partition, _ in plan if partition not in ongoing}
    current = await _replicas_of(cluster, topics, missing_ok=True) if topics else {}
    console.print("Status of partition reassignment:")
    for partition, replicas in sorted(dict(plan).items()):
        if partition in ongoing:
            console.print(f"Reassignment of partition {partition} is still in progress.")
        elif list(current.get(partition, ())) == list(replicas):
            console.print(f"Reassignment of partition {partition} is completed.")
        else:
            console.print(
                f"There is no active reassignment of partition {partition}, but replica set is "
                f"{_listed(current.get(partition, ()))} rather than {_listed(replicas)}."
            )
    console.print()
    if not ongoing and not options.has("preserve-throttles"):
        await _clear_throttles(cluster, console, plan)


async def _cancel(options: Options, cluster: KafkaCluster, console: Console) -> None:
    text = read_text(options.value("reassignment-json-file") or "")
    options.number("timeout", is_long=True)
    plan = parse_reassignment(text)
    ongoing = await _ongoing(cluster, [partition for partition, _ in plan])
    # Kafka's tool leaves out a partition that only gets new replicas.
    active = sorted(
        partition for partition, state in ongoing.items() if not state.adding_replicas or state.removing_replicas
    )
    if active:
        errors = await _alter(cluster, dict.fromkeys(active))
        if errors:
            raise ToolError(TERSE, f"Error cancelling partition reassignment{_s(errors)} for:\n{_error_lines(errors)}")
        console.print(f"Successfully cancelled partition reassignment{_s(active)} for: {_listed(active)}")
    else:
        console.print("None of the specified partition reassignments are active.")
    console.print("None of the specified partition moves are active.", end="")
    if not options.has("preserve-throttles"):
        await _clear_throttles(cluster, console, plan)


async def _clear_throttles(
    cluster: KafkaCluster, console: Console, plan: Sequence[tuple[TopicPartition, Sequence[int]]]
) -> None:
    """Remove the throttles from all brokers, because all may have been sources, and from the topics of the plan."""
    metadata = await cluster.metadata((), call="describeCluster")
    brokers = {broker.node_id for broker in metadata.brokers} | {each for _, replicas in plan for each in replicas}
    ordered = in_order(sorted(brokers), int)
    console.print(f"Clearing broker-level throttles on broker{_s(ordered)} {_listed(ordered)}")
    rates = dict.fromkeys((LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE))
    await _change(cluster, {(BROKER, str(broker)): rates for broker in ordered})
    topics = strings(partition.topic for partition, _ in plan)
    console.print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
    await _change(cluster, {(TOPIC, topic): dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS)) for topic in topics})


# ---------------------------------------------------------------------- generate


async def _generate(options: Options, cluster: KafkaCluster, console: Console, source: random.Random) -> None:
    text = read_text(options.value("topics-to-move-json-file") or "")
    brokers = [parse_int(broker) for broker in java_split(options.value("broker-list") or "", ",")]
    if repeated := duplicates(brokers):
        raise ToolError(COMMAND_FAILED, f"Broker list contains duplicate entries: {repeated}")
    topics = parse_topics(text)
    if again := duplicates(topics):
        listed = ", ".join(map(str, again))
        raise ToolError(COMMAND_FAILED, f"List of topics to reassign contains duplicate entries: [{listed}]")
    current = await _replicas_of(cluster, topics)
    metadata = await cluster.metadata((), call="describeCluster")
    racks = {
        BrokerId(broker.node_id): None if options.has("disable-rack-aware") else broker.rack
        for broker in metadata.brokers
        if broker.node_id in brokers
    }
    if None in racks.values() and set(racks.values()) != {None}:
        raise ToolError(
            OPERATION_FAILED,
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information.",
        )
    proposed: dict[TopicPartition, Sequence[int]] = {}
    for topic, numbers in by_topic(sorted(current)).items():
        factor = len(current[TopicPartition(topic, numbers[0])])
        try:
            assigned = assign_replicas_to_brokers(racks, len(numbers), factor, source)
        except ApiError as error:
            raise error_of(error.error, error.message) from None
        proposed |= {TopicPartition(topic, number): replicas for number, replicas in assigned.items()}
    console.print(f"Current partition replica assignment\n{as_json(current)}\n")
    console.print(f"Proposed partition reassignment configuration\n{as_json(proposed)}")


# ---------------------------------------------------------------------- execute


async def _execute(options: Options, cluster: KafkaCluster, console: Console) -> None:
    text = read_text(options.value("reassignment-json-file") or "")
    throttle = java_number(options, "throttle", -1, is_long=True)
    log_dir_throttle = java_number(options, "replica-alter-log-dirs-throttle", -1, is_long=True)
    options.number("timeout", is_long=True)
    proposed = check_reassignment(parse_reassignment(text))
    ongoing = await _ongoing(cluster)
    if ongoing and not options.has("additional"):
        raise ToolError(
            TERSE,
            "Cannot execute because there is an existing partition assignment.  Use --additional to override this and "
            "create a new partition assignment in addition to the existing one. The --additional flag can also be "
            "used to change the throttle by resubmitting the current reassignment.",
        )
    metadata = await cluster.metadata((), call="describeCluster")
    known = {broker.node_id for broker in metadata.brokers}
    wanted = (broker for replicas in proposed.values() for broker in replicas)
    for broker in in_order(wanted, int):
        if broker not in known:
            raise ToolError(COMMAND_FAILED, f"Unknown broker id {broker}")
    current = await _current(cluster, proposed)
    console.print(f"Current partition replica assignment\n\n{as_json(current)}\n")
    console.print("Save this to use as the --reassignment-json-file option during rollback")
    if throttle >= 0 or log_dir_throttle >= 0:
        console.print(
            "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
            "removed."
        )
    if throttle >= 0:
        moving = moves(ongoing, proposed, current)
        replicas = throttled_replicas(moving)
        await _change(
            cluster,
            {
                (TOPIC, topic): {LEADER_REPLICAS: leaders, FOLLOWER_REPLICAS: followers}
                for topic, (leaders, followers) in replicas.items()
            },
        )
        brokers = sorted({broker for move in moving.values() for broker in move.sources | move.destinations})
        rates: dict[str, str | None] = {LEADER_RATE: str(throttle), FOLLOWER_RATE: str(throttle)}
        await _change(cluster, {(BROKER, str(broker)): rates for broker in brokers})
        console.print(f"The inter-broker throttle limit was set to {throttle} B/s")
    if log_dir_throttle >= 0:
        # Kafka sets it on the brokers whose replicas move between log directories, of which there are none.
        console.print(f"The replica-alter-dir throttle limit was set to {log_dir_throttle} B/s")
    errors = await _alter(cluster, proposed)
    if errors:
        raise ToolError(TERSE, f"Error reassigning partition(s):\n{_error_lines(errors)}")
    console.print(f"Successfully started partition reassignment{_s(proposed)} for {_listed(sorted(proposed))}")


async def _current(cluster: KafkaCluster, proposed: Assignment) -> Assignment:
    """Return the replicas of the partitions of `proposed`. Raises ToolError if one does not exist."""
    replicas = await _replicas_of(cluster, {partition.topic for partition in proposed})
    missing = [str(partition) for partition in proposed if partition not in replicas]
    if missing:
        raise executed(
            ToolError(f"{API}UnknownTopicOrPartitionException", f"Unable to find partition: {', '.join(missing)}")
        )
    return {partition: replicas[partition] for partition in proposed}


async def _list(cluster: KafkaCluster, console: Console) -> None:
    ongoing = await _ongoing(cluster)
    if not ongoing:
        console.print("No partition reassignments found.")
        return
    console.print("Current partition reassignments:")
    for partition, state in sorted(ongoing.items()):
        adding = f" adding: {_listed(state.adding_replicas)}." if state.adding_replicas else ""
        removing = f" removing: {_listed(state.removing_replicas)}." if state.removing_replicas else ""
        console.print(f"{partition}: replicas: {_listed(state.replicas)}.{adding}{removing}")


# ---------------------------------------------------------------------- requests


async def _ongoing(
    cluster: KafkaCluster, partitions: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, OngoingPartitionReassignment]:
    """Return the reassignments in progress, of all partitions for None. Raises ToolError."""
    try:
        return await cluster.list_partition_reassignments(partitions)
    except ToolError as error:
        raise error if error.code is None else executed(error) from None


async def _alter(
    cluster: KafkaCluster, reassignments: dict[TopicPartition, None] | Assignment
) -> dict[TopicPartition, ToolError]:
    """Begin reassignments, or cancel those with None, and return the errors. Raises ToolError."""
    try:
        results = await cluster.reassign(reassignments)
    except ToolError as error:
        if error.code is None:
            raise
        return dict.fromkeys(reassignments, error)
    return {each: error_of(got.error_code, got.error_message) for each, got in results.items() if got.error_code}


async def _replicas_of(
    cluster: KafkaCluster, topics: Collection[str], *, missing_ok: bool = False
) -> dict[TopicPartition, Sequence[int]]:
    """Return the replicas of all partitions of topics. Raises ToolError if one does not exist, unless `missing_ok`."""
    metadata = await cluster.metadata(topics, call="describeTopics")
    known = []
    for topic in metadata.topics:
        is_missing = topic.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
        if topic.error_code and not (is_missing and missing_ok):
            raise executed(error_of(topic.error_code, f"Topic {topic.name} not found." if is_missing else None))
        if not is_missing:
            known.append(topic)
    return {each: state.replica_nodes for each, state in by_partition(known).items()}


async def _change(cluster: KafkaCluster, changes: dict[tuple[int, str], dict[str, str | None]]) -> None:
    try:
        for (resource_type, name), values in changes.items():
            await cluster.alter_config(resource_type, name, values)
    except ToolError as error:
        raise executed(error) from None


def _error_lines(errors: dict[TopicPartition, ToolError]) -> str:
    return "\n".join(f"{partition}: {errors[partition].shown_message}" for partition in sorted(errors))


def _listed(items: Sequence[TopicPartition] | Sequence[int]) -> str:
    return ",".join(map(str, items))


def _s(items: Collection[object]) -> str:
    return "" if len(items) == 1 else "s"
