"""`understudy delete-records`: delete the records of partitions before an offset. Mirrors `DeleteRecordsCommand`."""

from __future__ import annotations

from understudy.foundation.cluster.errors import error_name
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java_order import partitions as in_java_order
from understudy.kafka_tools.console import CLIENT_ID, Surroundings, Tool, print_trace, read_text
from understudy.kafka_tools.errors import COMMAND_FAILED, OPERATION_FAILED, ToolError, error_of, executed
from understudy.kafka_tools.json_input import duplicates, parse_versioned
from understudy.kafka_tools.offsets import timed_out
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, COMMAND_CONFIG, Flag, Options

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
    """Run one command line of the tool, and return its exit code."""
    options.require("bootstrap-server", "offset-json-file")
    console = surroundings.console
    cluster = surroundings.connect(options)
    offsets = parse_offsets(read_text(options.value("offset-json-file") or ""))
    async with cluster:
        console.print("Executing records delete operation")
        console.print("Records delete operation completed:")
        results = await cluster.delete_records(offsets)
    for partition, result in results.items():
        if result.error_code:
            console.log(
                "ERROR",
                f"[AdminClient clientId={CLIENT_ID}] DeleteRecords request for topic partition {partition} failed "
                f"due to an unexpected error {error_name(result.error_code)}",
                "org.apache.kafka.clients.admin.internals.DeleteRecordsHandler",
            )
    for partition in in_java_order(offsets):
        found = results.get(partition)
        if found is not None and not found.error_code:
            console.print(f"partition: {partition}\tlow_watermark: {found.low_watermark}")
            continue
        error = timed_out("deleteRecords") if found is None else error_of(found.error_code)
        console.print(f"partition: {partition}\terror: {executed(error).shown_message}")
    return 0


TOOL = Tool(
    "delete-records",
    "This tool helps to delete records of the given partitions down to the specified offset.",
    FLAGS,
    run,
    print_trace,
)


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Return the offsets in the JSON of `--offset-json-file`. Raises ToolError."""
    data = parse_versioned(text)
    if "partitions" not in data:
        raise ToolError(OPERATION_FAILED, "Missing partitions field")
    found = [
        (TopicPartition(each.text("topic"), each.number("partition")), each.number("offset"))
        for each in data.objects("partitions")
    ]
    if twice := duplicates(partition for partition, _ in found):
        listed = ",".join(map(str, in_java_order(twice)))
        raise ToolError(COMMAND_FAILED, f"Offset json file contains duplicate topic partitions: {listed}")
    return dict(found)
