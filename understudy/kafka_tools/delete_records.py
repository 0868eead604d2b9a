"""`understudy delete-records`: delete the records of partitions before an offset. Mirrors `DeleteRecordsCommand`."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.clusters.clients.cluster_requests import TryAgain
from understudy.foundation.cluster.errors import Errors, error_name
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import CLIENT_ID, Console, Surroundings, Tool, print_trace, read_file
from understudy.kafka_tools.errors import COMMAND_FAILED, OPERATION_FAILED, TIMEOUT, ToolError, error_of, executed
from understudy.kafka_tools.java_order import partitions as in_java_order
from understudy.kafka_tools.json_input import parse_object
from understudy.kafka_tools.offsets import by_topic, leaders_of
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, COMMAND_CONFIG, Flag, Options

VERSION = 1
TIMEOUT_MS = 30_000
_LATER = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.REPLICA_NOT_AVAILABLE,
        Errors.KAFKA_STORAGE_ERROR,
    }
)

FLAGS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag(
        "offset-json-file",
        "The first offset of each partition that is kept: "
        '{"partitions": [{"topic": "a", "partition": 0, "offset": 7}, …], "version": 1}; -1 is the high watermark.',
        "FILE",
    ),
)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool; its exit code."""
    options.require("bootstrap-server", "offset-json-file")
    console = surroundings.console
    cluster = surroundings.connect(options.value("bootstrap-server") or "", options.value("command-config"))
    offsets = parse_offsets(read_file(options.value("offset-json-file") or ""))
    async with cluster:
        console.print("Executing records delete operation")
        console.print("Records delete operation completed:")
        results = await _delete(cluster, console, offsets)
    for partition in in_java_order(offsets):
        result = results[partition]
        if isinstance(result, ToolError):
            console.print(f"partition: {partition}\terror: {executed(result).shown_message}")
        else:
            console.print(f"partition: {partition}\tlow_watermark: {result}")
    return 0


TOOL = Tool(
    "delete-records",
    "kafka-delete-records.sh",
    "This tool helps to delete records of the given partitions down to the specified offset.",
    FLAGS,
    run,
    print_trace,
)


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Return the offsets in the JSON of `--offset-json-file`. Raises ToolError."""
    data = parse_object(text, ToolError(OPERATION_FAILED, "The input string is not a valid JSON"))
    version = data.number("version", VERSION)
    if version != VERSION:
        raise ToolError(OPERATION_FAILED, f"Not supported version field value {version}")
    if "partitions" not in data:
        raise ToolError(OPERATION_FAILED, "Missing partitions field")
    found: dict[TopicPartition, int] = {}
    twice = []
    for each in data.objects("partitions"):
        partition = TopicPartition(each.text("topic"), each.number("partition"))
        if partition in found:
            twice.append(partition)
        found[partition] = each.number("offset")
    if twice:
        listed = ",".join(map(str, in_java_order(twice)))
        raise ToolError(COMMAND_FAILED, f"Offset json file contains duplicate topic partitions: {listed}")
    return found


async def _delete(
    cluster: KafkaCluster, console: Console, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | ToolError]:
    """Return the low watermark of each partition, or why its records were not deleted."""
    found: dict[TopicPartition, int | ToolError] = {}

    async def attempt() -> DeleteRecordsResponse:
        left = [each for each in offsets if each not in found]
        leaders = await leaders_of(cluster, left)
        for leader in sorted(set(leaders.values())):
            asked = [each for each in left if leaders.get(each) == leader]
            await _ask(cluster, console, leader, {each: offsets[each] for each in asked}, found)
        if len(found) < len(offsets):
            raise TryAgain("partitions have no leader")
        return DeleteRecordsResponse()

    try:
        await cluster.retried(attempt, call="deleteRecords")
    except ToolError as error:
        if error.kind == TIMEOUT:
            error = ToolError(TIMEOUT, "Call(callName=deleteRecords) timed out waiting for a node assignment.")
        for each in offsets:
            found.setdefault(each, error)
    return found


async def _ask(
    cluster: KafkaCluster,
    console: Console,
    leader: int,
    offsets: Mapping[TopicPartition, int],
    found: dict[TopicPartition, int | ToolError],
) -> None:
    topics = tuple(
        DeleteRecordsTopic(
            name=topic,
            partitions=tuple(
                DeleteRecordsPartition(partition_index=number, offset=offsets[TopicPartition(topic, number)])
                for number in numbers
            ),
        )
        for topic, numbers in by_topic(offsets).items()
    )
    request = DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    answer = await cluster.ask_broker(leader, request, DeleteRecordsResponse, call="deleteRecords")
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if not each.error_code:
                found[partition] = each.low_watermark
            elif each.error_code not in _LATER:
                found[partition] = error_of(each.error_code)
                console.log(
                    "ERROR",
                    f"[AdminClient clientId={CLIENT_ID}] DeleteRecords request for topic partition {partition} failed "
                    f"due to an unexpected error {error_name(each.error_code)}",
                    "org.apache.kafka.clients.admin.internals.DeleteRecordsHandler",
                )
