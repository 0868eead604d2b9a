"""`understudy leader-election`: elect preferred or unclean leaders. Mirrors Kafka's `LeaderElectionCommand`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.clusters.clients.topic_requests import PREFERRED, UNCLEAN
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java_order import partitions as in_java_order
from understudy.foundation.wire.messages.elect_leaders import PartitionResult
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import Console, Surroundings, Tool, print_trace, read_text
from understudy.kafka_tools.errors import (
    COMMAND_FAILED,
    JOPTSIMPLE,
    OPERATION_FAILED,
    RUNTIME,
    TIMEOUT,
    ToolError,
    because_of,
    error_of,
)
from understudy.kafka_tools.json_input import duplicates, parse_object
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, Flag, Options, cannot_parse

ELECTION_TYPES = {"PREFERRED": PREFERRED, "UNCLEAN": UNCLEAN}
TIMEOUT_MS = 30_000
ELECTION_TIMEOUT_MS = 15_000

FLAGS = (
    BOOTSTRAP_SERVER,
    Flag("admin.config", "A properties file with the client's configuration.", "FILE"),
    Flag("path-to-json-file", 'The partitions: {"partitions": [{"topic": "a", "partition": 0}, …]}.', "FILE"),
    Flag("topic", "The topic of the partition.", "TOPIC"),
    Flag("partition", "The partition of --topic.", "NUMBER"),
    Flag("all-topic-partitions", "Elect leaders of all partitions that need it."),
    Flag("election-type", "Which election: preferred or unclean.", "TYPE"),
)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    election_type = _election_type(options)
    _check(options)
    path = options.value("path-to-json-file")
    partitions = None if path is None else _partitions_in(path)
    topic, partition = options.value("topic"), options.number("partition")
    if topic is not None and partition is not None:
        partitions = [TopicPartition(topic, partition)]
    async with surroundings.connect(options, config="admin.config", api_timeout_ms=TIMEOUT_MS) as cluster:
        await _elect(cluster, surroundings.console, election_type, partitions)
    return 0


TOOL = Tool(
    "leader-election",
    "This tool attempts to elect a new leader for a set of topic partitions.",
    FLAGS,
    run,
    print_trace,
)


def _partitions_in(path: str) -> list[TopicPartition]:
    try:
        return read_partitions(read_text(path))
    except ToolError as error:
        if error.kind == OPERATION_FAILED:
            raise
        raise because_of(error, RUNTIME) from None


def read_partitions(text: str) -> list[TopicPartition]:
    """Return the partitions in the JSON of `--path-to-json-file`. Raises ToolError."""
    data = parse_object(text, ToolError(OPERATION_FAILED, "Replica election data is empty"))
    if "partitions" not in data:
        raise ToolError(OPERATION_FAILED, 'Replica election data is missing "partitions" field')
    found = [TopicPartition(each.text("topic"), each.number("partition")) for each in data.objects("partitions")]
    if twice := duplicates(found):
        raise ToolError(OPERATION_FAILED, f"Replica election data contains duplicate partitions: [{_listed(twice)}]")
    return found


def _election_type(options: Options) -> str:
    given = options.value("election-type")
    text = "PREFERRED" if given is None else given
    if text.upper() not in ELECTION_TYPES:
        cause = ToolError(
            f"{JOPTSIMPLE}ValueConversionException", f"Value [{text}] is not one of [[PREFERRED,UNCLEAN]]"
        )
        raise cannot_parse("election-type", text, cause)
    return text.upper()


def _check(options: Options) -> None:
    missing = [name for name in ("bootstrap-server", "election-type") if not options.has(name)]
    if missing:
        raise ToolError(COMMAND_FAILED, f"Missing required option(s): {', '.join(missing)}")
    ways = ("topic", "all-topic-partitions", "path-to-json-file")
    if sum(map(options.has, ways)) != 1:
        raise ToolError(COMMAND_FAILED, f"One and only one of the following options is required: {', '.join(ways)}")
    if options.has("topic") and not options.has("partition"):
        raise ToolError(COMMAND_FAILED, "Missing required option(s): partition")
    if options.has("partition") and not options.has("topic"):
        raise ToolError(COMMAND_FAILED, "Option partition is only allowed if topic is used")


async def _elect(
    cluster: KafkaCluster, console: Console, election_type: str, partitions: list[TopicPartition] | None
) -> None:
    results = await elected(cluster, console, partitions, ELECTION_TYPES[election_type], ELECTION_TIMEOUT_MS)
    _print_results(console, election_type, results)


async def elected(
    cluster: KafkaCluster,
    console: Console,
    partitions: Iterable[TopicPartition] | None,
    election_type: int,
    timeout_ms: int,
) -> Mapping[TopicPartition, PartitionResult]:
    """Ask the controller for elections, and return the result of each partition.

    Raises:
        ToolError: it did not answer in time, or refuses the request.
    """
    try:
        return await cluster.elect(partitions, election_type, timeout_ms=timeout_ms)
    except ToolError as error:
        if error.kind == TIMEOUT:
            message = "Timeout waiting for election results"
        elif error.is_a("ClusterAuthorizationException"):
            message = "Not authorized to perform leader election"
        else:
            raise
        console.print(message)
        raise ToolError(COMMAND_FAILED, message, cause=error) from None


def _print_results(console: Console, election_type: str, results: Mapping[TopicPartition, PartitionResult]) -> None:
    ordered = in_java_order(results)
    elected = [each for each in ordered if results[each].error_code == Errors.NONE]
    needless = [each for each in ordered if results[each].error_code == Errors.ELECTION_NOT_NEEDED]
    failed = [each for each in ordered if results[each].error_code not in (Errors.NONE, Errors.ELECTION_NOT_NEEDED)]
    if elected:
        console.print(f"Successfully completed leader election ({election_type}) for partitions {_listed(elected)}")
    if needless:
        console.print(f"Valid replica already elected for partitions {_listed(needless)}")
    errors = []
    for each in in_java_order(failed):
        error = error_of(results[each].error_code, results[each].error_message)
        console.print(f"Error completing leader election ({election_type}) for partition: {each}: {error}")
        errors.append(error)
    if errors:
        raise ToolError(COMMAND_FAILED, f"{len(errors)} replica(s) could not be elected", suppressed=errors)


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, in_java_order(partitions)))
