"""`understudy log-dirs`: the log directories of brokers with the replicas in them. Mirrors `LogDirsCommand`."""

from __future__ import annotations

import json
from collections.abc import Collection

from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java_order import in_order, partitions, strings
from understudy.foundation.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
)
from understudy.foundation.wire.nested_topics import by_partition
from understudy.kafka_tools.console import Surroundings, Tool, print_trace
from understudy.kafka_tools.errors import TERSE, ToolError, error_of, executed
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, COMMAND_CONFIG, Flag, Options, parse_int

FLAGS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag("describe", "Show the log directories."),
    Flag("topic-list", "The topics; all without it.", "TOPIC,TOPIC,…"),
    Flag("broker-list", "The brokers; all without it.", "0,1,2"),
)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    options.require("bootstrap-server", "describe")
    topics = {topic for topic in (options.value("topic-list") or "").split(",") if topic}
    wanted = _brokers(options.value("broker-list") or "")
    console = surroundings.console
    async with surroundings.connect(options) as cluster:
        metadata = await cluster.metadata((), call="describeCluster")
        known = [broker.node_id for broker in metadata.brokers]
        unknown = [broker for broker in wanted if broker not in known]
        if unknown:
            raise ToolError(
                TERSE,
                f"ERROR: The given brokers do not exist from --broker-list: {_listed(unknown)}. "
                f"Current existent brokers: {_listed(known)}",
            )
        console.print("Querying brokers for log directories information")
        brokers = in_order(wanted or known, int)
        found = []
        for broker in brokers:
            answer = await cluster.describe_log_dirs(broker)
            if answer.error_code:
                raise executed(error_of(answer.error_code))
            found.append(_as_java({"broker": broker, "logDirs": _directories(answer.results, topics)}))
    console.print(f"Received log directory information from brokers {_listed(brokers)}")
    console.print(json.dumps(_as_java({"version": 1, "brokers": found}), separators=(",", ":"), ensure_ascii=False))
    return 0


TOOL = Tool(
    "log-dirs",
    "This tool helps to query log directory usage on the specified brokers.",
    FLAGS,
    run,
    print_trace,
)


def _brokers(text: str) -> list[int]:
    return [parse_int(part) for part in text.split(",") if part]


def _directories(results: Collection[DescribeLogDirsResult], topics: Collection[str]) -> list[object]:
    """Return the directories of one broker as the JSON has them, with the replicas of `topics`, or of all for none."""
    by_path = {result.log_dir: result for result in results}
    shown: list[object] = []
    for path in strings(by_path):
        result = by_path[path]
        replicas = by_partition(topic for topic in result.topics if not topics or topic.name in topics)
        shown.append(
            _as_java(
                {
                    "logDir": path,
                    "error": error_of(result.error_code).kind if result.error_code else None,
                    "partitions": [_replica(each, replicas[each]) for each in partitions(replicas)],
                }
            )
        )
    return shown


def _replica(partition: TopicPartition, replica: DescribeLogDirsPartition) -> object:
    return _as_java(
        {
            "partition": str(partition),
            "size": replica.partition_size,
            "offsetLag": replica.offset_lag,
            "isFuture": replica.is_future_key,
        }
    )


def _as_java(fields: dict[str, object]) -> dict[str, object]:
    """Return the fields of an object in the order of a hash map."""
    return {name: fields[name] for name in strings(fields)}


def _listed(brokers: Collection[int]) -> str:
    return ",".join(map(str, in_order(brokers, int)))
