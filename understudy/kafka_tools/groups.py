"""`understudy groups`: list, describe and delete consumer groups, and reset or delete their offsets.

Mirrors Kafka's `ConsumerGroupCommand`, with its exit codes: an error in what a coordinator answers exits with 0.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from understudy.foundation.cluster.errors import Errors, error_name
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java_order import partitions as in_java_order
from understudy.foundation.cluster.java_order import strings
from understudy.foundation.wire.messages.list_offsets import LATEST_TIMESTAMP
from understudy.foundation.wire.nested_topics import by_topic
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import Console, Surroundings, Tool, print_uncaught
from understudy.kafka_tools.errors import ILLEGAL_ARGUMENT, ToolError, UsageError, error_of, executed, illegal_argument
from understudy.kafka_tools.group_descriptions import GroupDescription, describe_groups
from understudy.kafka_tools.group_reset import (
    TARGETS,
    Offsets,
    as_csv,
    bracketed,
    committed_offsets,
    log_offsets,
    new_offsets,
    partitions_of,
    wrapped,
)
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, COMMAND_CONFIG, Flag, Options, java_number
from understudy.kafka_tools.zookeeper.groups import NOTE, ZooKeeperGroups
from understudy.kafka_tools.zookeeper.groups import check as check_with_zookeeper
from understudy.kafka_tools.zookeeper.session import NotConnected, zookeeper_session

MISSING = "-"
DEFAULT_TIMEOUT_MS = 5_000
ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
STATES = {
    state.lower(): state
    for state in ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
}
GROUP_TYPES = {"consumer": "Consumer", "classic": "Classic"}
_REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})

FLAGS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag("zookeeper", "ZooKeeper, for consumers from before Kafka 0.9, as up to Kafka 1.1.", "HOST:PORT,…/CHROOT"),
    Flag("new-consumer", "Accepted, as up to Kafka 1.1: all consumers are new ones."),
    Flag("group", "The group; may be given several times.", "GROUP"),
    Flag("all-groups", "All groups."),
    Flag("topic", "TOPIC or TOPIC:0,1,…; may be given several times.", "TOPIC"),
    Flag("all-topics", "With --reset-offsets: all topics of which the group has committed offsets."),
    Flag("list", "List the groups."),
    Flag("describe", "Show groups: their offsets, or --members or --state."),
    Flag("delete", "Delete groups without members."),
    Flag("reset-offsets", "Set the offsets of a group without members."),
    Flag("delete-offsets", "Delete offsets of a group."),
    Flag("timeout", "Milliseconds that one call may take; 5000 by default.", "MS"),
    Flag("dry-run", "With --reset-offsets: only show the new offsets; the default."),
    Flag("execute", "With --reset-offsets: commit the new offsets."),
    Flag("export", "With --reset-offsets: show the new offsets as CSV, as --from-file reads it."),
    Flag("to-offset", "Reset to this offset.", "OFFSET"),
    Flag("from-file", "Reset to the offsets of a CSV file.", "FILE"),
    Flag("to-datetime", "Reset to the first records at or after a time.", "YYYY-MM-DDTHH:mm:SS.sss"),
    Flag("by-duration", "Reset to the first records that are not older than this.", "PnDTnHnMnS"),
    Flag("to-earliest", "Reset to the log's start."),
    Flag("to-latest", "Reset to the log's end."),
    Flag("to-current", "Reset to the committed offsets, or the log's end."),
    Flag("shift-by", "Reset by this number of records, back if it is negative.", "COUNT"),
    Flag("members", "With --describe: show the members."),
    Flag("verbose", "With --describe --members: show also the assigned partitions."),
    Flag("offsets", "With --describe: show the offsets; the default."),
    Flag(
        "state",
        "With --describe: show the state. With --list: show it, and list only these states.",
        "STATES",
        is_optional=True,
    ),
    Flag("type", "With --list: show the type, and list only these types.", "TYPES", is_optional=True),
)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    console = surroundings.console
    if options.has("zookeeper"):
        return await _run_with_zookeeper(options, surroundings)
    _check(options, console)
    action = options.only_one_of(ACTIONS)
    actions: dict[str, Callable[[Options, KafkaCluster, Console], Awaitable[None]]] = {
        "list": _list,
        "describe": _describe,
        "delete": _delete,
        "reset-offsets": partial(_reset, now_ms=int(surroundings.clock.wall_ms())),
        "delete-offsets": _delete_offsets,
    }
    try:
        timeout_ms = java_number(options, "timeout", DEFAULT_TIMEOUT_MS, is_long=True)
        async with surroundings.connect(options, api_timeout_ms=timeout_ms) as cluster:
            await actions[action](options, cluster, console)
    except ToolError as error:
        if error.kind == ILLEGAL_ARGUMENT:
            raise UsageError(error.shown_message) from None
        _print_error(console, f"Executing consumer group command failed due to {error.shown_message}")
        console.error(error.trace, end="")
    return 0


async def _run_with_zookeeper(options: Options, surroundings: Surroundings) -> int:
    console, action = surroundings.console, check_with_zookeeper(options)
    console.error(NOTE)
    try:
        async with zookeeper_session(surroundings, options.value("zookeeper") or "") as session:
            groups = ZooKeeperGroups(session, surroundings, options)
            await {"list": groups.list, "describe": groups.describe, "delete": groups.delete}[action]()
    except NotConnected:
        raise
    except ToolError as error:
        console.print(f"Error: Executing consumer group command failed due to {error.shown_message}")
    return 0


TOOL = Tool(
    "groups",
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset "
    "consumer group offsets.",
    FLAGS,
    run,
    print_uncaught,
)


# ---------------------------------------------------------------------- the command line


def _check(options: Options, console: Console) -> None:
    """Raise UsageError or ToolError if flags are missing or contradict each other."""
    options.require("bootstrap-server")
    has_scope = options.has("group") or options.has("all-groups")
    scopes = bracketed("group", "all-groups")
    if options.has("describe"):
        if not has_scope:
            listed = bracketed("list", "describe", "delete", "reset-offsets")
            raise UsageError(f"Option [describe] takes one of these options: {listed}")
        if sum(map(options.has, ("members", "offsets", "state"))) > 1:
            raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
        if options.value("state"):
            raise UsageError("Option [describe] does not take a value for [state]")
    if options.has("delete"):
        if not has_scope:
            raise UsageError(f"Option [delete] takes one of these options: {scopes}")
        if options.has("topic"):
            raise UsageError("The consumer does not support topic-specific offset deletion from a consumer group.")
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        raise UsageError(f"Option [delete-offsets] takes the following options: {scopes}")
    if options.has("reset-offsets"):
        _check_reset(options, console, has_scope, scopes)
    options.forbid("group", "all-groups")
    options.forbid("group", "list")
    options.forbid("topic", *(name for name in ("list", "describe")))


def _check_reset(options: Options, console: Console, has_scope: bool, scopes: str) -> None:
    if options.has("dry-run") and options.has("execute"):
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("dry-run") and not options.has("execute"):
        console.error(
            "WARN: No action will be performed as the --execute option is missing."
            "In a future major release, the default behavior of this command will be to prompt the user before "
            "executing the reset rather than doing a dry run. You should add the --dry-run option explicitly "
            "if you are scripting this command and want to keep the current default behavior without prompting."
        )
    if not has_scope:
        raise UsageError(f"Option [reset-offsets] takes one of these options: {scopes}")
    for target in TARGETS:
        options.forbid(target, *(other for other in TARGETS if other != target))


def _values(options: Options, name: str, known: Mapping[str, str], kind: str) -> list[str]:
    """Return the states or types that a flag lists. Raises ToolError for one that does not exist."""
    text = options.value(name)
    if not text:
        return []
    found = [known.get(part.strip().lower().replace("_", "")) for part in text.split(",")]
    if None in found:
        noun = "state" if kind == "states" else "types"
        raise illegal_argument(f"Invalid {noun} list '{text}'. Valid {kind} are: {', '.join(known.values())}")
    return [value for value in found if value is not None]


async def _names(options: Options, cluster: KafkaCluster) -> list[str]:
    if not options.has("all-groups"):
        return options.values("group")
    try:
        return strings(await cluster.list_groups())
    except ToolError as error:
        raise wrapped(error) from None


# ---------------------------------------------------------------------- list and delete


async def _list(options: Options, cluster: KafkaCluster, console: Console) -> None:
    if not options.has("state") and not options.has("type"):
        for name in await _names(_AllGroups, cluster):
            console.print(name)
        return
    types = _values(options, "type", GROUP_TYPES, "types")
    states = _values(options, "state", STATES, "states")
    try:
        found = await cluster.list_groups(states, types)
    except ToolError as error:
        raise executed(error) from None
    groups = [found[name] for name in strings(found)]
    width = max((max(15, len(group.group_id)) for group in groups), default=15) + 10
    rows = [("GROUP", "TYPE", "STATE")]
    rows += [
        (group.group_id, GROUP_TYPES.get(group.group_type.lower(), "Unknown"), group.group_state or "Unknown")
        for group in groups
    ]
    for name, kind, state in rows:
        line = f"{name:<{width}}"
        line += f" {kind:<20}" if options.has("type") else ""
        console.print(line + (f" {state:<20}" if options.has("state") else ""))


_AllGroups = Options([("all-groups", "")])


async def _delete(options: Options, cluster: KafkaCluster, console: Console) -> None:
    results: dict[str, ToolError | None] = {}
    for name in await _names(options, cluster):
        try:
            await cluster.delete_group(name)
            results[name] = None
        except ToolError as refused:
            results[name] = refused
    deleted = strings(name for name, error in results.items() if error is None)
    failed = [(name, error) for name in strings(results) if (error := results[name]) is not None]
    if not failed:
        console.print(f"Deletion of requested consumer groups ('{', '.join(deleted)}') was successful.")
        return
    _print_error(console, "Deletion of some consumer groups failed:")
    for name, error in failed:
        console.print(f"* Group '{name}' could not be deleted due to: {executed(error)}")
    if deleted:
        listed = "'".join(deleted)
        console.print(f"\nThese consumer groups were deleted successfully: '{listed}', '")


# ---------------------------------------------------------------------- describe


class _GroupRow(NamedTuple):
    """One line of offsets; the cells as they are shown."""

    group: str
    topic: str
    partition: str
    offset: str
    end: str
    lag: str
    member: str
    host: str
    client: str


async def _describe(options: Options, cluster: KafkaCluster, console: Console) -> None:
    try:
        groups = await describe_groups(cluster, await _names(options, cluster))
    except ToolError as error:
        raise error if error.cause or error.kind == ILLEGAL_ARGUMENT else executed(error) from None
    for name in sorted(groups):
        group = groups[name]
        if options.has("members"):
            _print_members(console, group, verbose=options.has("verbose"))
        elif options.has("state"):
            _print_state(console, group)
        else:
            _print_offsets(console, group, await _rows(cluster, group))


def _is_shown(console: Console, group: GroupDescription, rows: int) -> bool:
    """Print the warning about a group's state, if there is one, and return whether its rows are shown."""
    if group.state == "Dead":
        _print_error(console, f"Consumer group '{group.name}' does not exist.")
    elif group.state == "Empty":
        console.error(f"\nConsumer group '{group.name}' has no active members.")
    elif group.state in _REBALANCING:
        console.error(f"\nWarning: Consumer group '{group.name}' is rebalancing.")
    return group.state != "Dead" and rows > 0


async def _rows(cluster: KafkaCluster, group: GroupDescription) -> list[_GroupRow]:
    committed = await committed_offsets(cluster, group.name) if group.state != "Dead" else {}
    rows: list[_GroupRow] = []
    for member, partitions in sorted(group.members.items(), key=lambda item: -len(item[1])):
        if partitions:
            who = (member.member_id, member.client_host, member.client_id)
            rows += await _rows_of(cluster, group.name, partitions, committed, who)
    assigned = {each for partitions in group.members.values() for each in partitions}
    rest = [each for each in committed if each not in assigned]
    if rest:
        rows += await _rows_of(cluster, group.name, rest, committed, (MISSING, MISSING, MISSING))
    return rows


async def _rows_of(
    cluster: KafkaCluster,
    group: str,
    partitions: Collection[TopicPartition],
    committed: Mapping[TopicPartition, int],
    who: tuple[str, str, str],
) -> list[_GroupRow]:
    ordered = sorted(in_java_order(partitions), key=lambda each: each.partition)
    ends = await log_offsets(cluster, in_java_order(ordered), LATEST_TIMESTAMP)
    rows = []
    for each, end in ends.items():
        offset = committed.get(each)
        lag = MISSING if offset is None else str(end - offset)
        shown = MISSING if offset is None else str(offset)
        rows.append(_GroupRow(group, each.topic, str(each.partition), shown, str(end), lag, *who))
    return rows


def _print_offsets(console: Console, group: GroupDescription, rows: list[_GroupRow]) -> None:
    if not _is_shown(console, group, len(rows)):
        return
    group_width, topic_width, member_width, host_width = (
        max(15, *(len(getattr(row, name)) for row in rows)) for name in ("group", "topic", "member", "host")
    )
    header = _GroupRow(
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"
    )
    for row in (header, *rows):
        console.print(
            f"\n{row.group:<{group_width}} {row.topic:<{topic_width}} {row.partition:<10} {row.offset:<15} "
            f"{row.end:<15} {row.lag:<15} {row.member:<{member_width}} {row.host:<{host_width}} {row.client}",
            end="",
        )


def _print_members(console: Console, group: GroupDescription, *, verbose: bool) -> None:
    members = group.members if _is_shown(console, group, len(group.members)) else ()
    has_instances = any(member.group_instance_id for member in members)
    header = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
    rows = [
        (
            group.name,
            member.member_id,
            member.group_instance_id or "",
            member.client_host,
            member.client_id,
            str(len(partitions)),
        )
        for member, partitions in group.members.items()
    ]
    least = (15, 15, 17, 15, 15, 15)
    # Kafka's tool finds the widths of what it shows, without the number of partitions.
    widths = [
        max(least[place], *(len(row[place]) for row in rows)) if members and place < 5 else least[place]
        for place in range(len(header))
    ]
    console.print()
    assignments = ["ASSIGNMENT", *map(_assignment, group.members.values())]
    for row, assignment in zip([header, *rows], assignments, strict=True):
        cells = [f"{cell:<{width}} " for cell, width in zip(row, widths, strict=True)]
        if not has_instances:
            del cells[2]
        console.print("".join(cells) + (assignment if verbose else ""))


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    """Return assigned partitions as Kafka's tool shows them, without the topics' names."""
    found = by_topic(partitions).values()
    return ", ".join(sorted(f"({','.join(sorted(map(str, numbers)))})" for numbers in found)) or MISSING


def _print_state(console: Console, group: GroupDescription) -> None:
    if not _is_shown(console, group, 1):
        return
    width = max(25, len(group.coordinator))
    rows = (
        ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"),
        (group.name, group.coordinator, group.assignor, group.state, str(len(group.members))),
    )
    for name, coordinator, assignor, state, members in rows:
        console.print(f"\n{name:<{width}} {coordinator:<25} {assignor:<20} {state:<15} {members}", end="")
    console.print()


# ---------------------------------------------------------------------- reset and delete offsets


async def _reset(options: Options, cluster: KafkaCluster, console: Console, now_ms: int) -> None:
    found: dict[str, Offsets] = {}
    names = await _names(options, cluster)
    try:
        groups = await describe_groups(cluster, names)
    except ToolError as error:
        raise error if error.kind == ILLEGAL_ARGUMENT else wrapped(error) from None
    for name in strings(groups):
        state = groups[name].state
        if state not in ("Empty", "Dead"):
            _print_error(
                console,
                f"Assignments can only be reset if the group '{name}' is inactive, but the current state is {state}.",
            )
            found[name] = {}
            continue
        offsets = found[name] = await new_offsets(options, cluster, console, name, now_ms)
        if options.has("execute") and offsets:
            try:
                await cluster.commit_offsets(name, offsets)
            except ToolError as error:
                raise wrapped(error) from None
    ordered = {name: found[name] for name in strings(found)}
    if options.has("export"):
        console.print(as_csv(ordered, with_group=len(options.values("group")) != 1))
        return
    if ordered:
        console.print("\n" + _new_offset("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), end="")
    for name, offsets in ordered.items():
        for each, offset in offsets.items():
            # Kafka 3.9's tool ends no line here.
            console.print(_new_offset(name, each.topic, str(each.partition), str(offset)), end="")


def _new_offset(group: str, topic: str, partition: str, offset: str) -> str:
    return f"{group:<30} {topic:<30} {partition:<10} {offset:<15}"


async def _delete_offsets(options: Options, cluster: KafkaCluster, console: Console) -> None:
    group, topics = options.value("group") or "", options.values("topic")
    partitions, errors = await partitions_of(cluster, topics)
    statuses = {
        TopicPartition(topic, -1): f"Error: :{executed(error).shown_message}" for topic, error in errors.items()
    }
    code, codes = await cluster.delete_offsets(group, partitions)
    for each in dict.fromkeys(partitions):
        failed = code or codes.get(each, Errors.UNKNOWN_SERVER_ERROR)
        statuses[each] = f"Error: :{executed(error_of(failed)).shown_message}" if failed else "Successful"
    _print_deletion(console, group, topics, code or next(filter(None, codes.values()), 0))
    console.print(f"\n{'TOPIC':<30} {'PARTITION':<15} {'STATUS':<15}", end="")
    for each in sorted(statuses, key=lambda each: f"{each.topic}{each.partition}"):
        number = str(each.partition) if each.partition >= 0 else "Not Provided"
        console.print(f"{each.topic:<30} {number:<15} {statuses[each]:<15}", end="")


def _print_deletion(console: Console, group: str, topics: Sequence[str], code: int) -> None:
    match error_name(code):
        case "NONE":
            console.print(f"Request succeed for deleting offsets with topic {', '.join(topics)} group {group}")
        case "INVALID_GROUP_ID":
            _print_error(console, f"'{group}' is not valid.")
        case "GROUP_ID_NOT_FOUND":
            _print_error(console, f"'{group}' does not exist.")
        case "GROUP_AUTHORIZATION_FAILED":
            _print_error(console, f"Access to '{group}' is not authorized.")
        case "NON_EMPTY_GROUP":
            _print_error(
                console, f"Deleting offsets of a consumer group '{group}' is forbidden if the group is not empty."
            )
        case "GROUP_SUBSCRIBED_TO_TOPIC" | "TOPIC_AUTHORIZATION_FAILED" | "UNKNOWN_TOPIC_OR_PARTITION":
            _print_error(console, "Encounter some partition level error, see the follow-up details:")
        case name:
            _print_error(console, f"Encounter some unknown error: {name}")


def _print_error(console: Console, message: str) -> None:
    console.print(f"\nError: {message}")
