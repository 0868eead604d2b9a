"""`understudy preferred-leaders`: elect preferred leaders, as `kafka-preferred-replica-election.sh` did.

Kafka had the tool up to 2.8; `leader-election` replaces it. With `--zookeeper` the request is a znode, which the
controller deletes when the elections are done. Mirrors `PreferredReplicaLeaderElectionCommand`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from understudy.clusters.clients.topic_requests import PREFERRED
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java_order import partitions as in_java_order
from understudy.foundation.cluster.scala import scala_set
from understudy.foundation.wire.messages.elect_leaders import PartitionResult
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import Console, Surroundings, Tool, print_uncaught, read_file
from understudy.kafka_tools.errors import (
    COMMAND_FAILED,
    OPERATION_FAILED,
    ToolError,
    UsageError,
    error_of,
)
from understudy.kafka_tools.json_input import duplicates, parse_object
from understudy.kafka_tools.leader_election import elected
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, Flag, Options
from understudy.kafka_tools.zookeeper.session import NotConnected, zookeeper_session

TIMEOUT_MS = 30_000

FLAGS = (
    BOOTSTRAP_SERVER,
    Flag("zookeeper", "ZooKeeper, in place of brokers.", "HOST:PORT,…/CHROOT"),
    Flag("path-to-json-file", 'The partitions: {"partitions": [{"topic": "a", "partition": 0}, …]}.', "FILE"),
    Flag("admin.config", "With --bootstrap-server: a properties file with the client's configuration.", "FILE"),
)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    console = surroundings.console
    console.print("This tool is deprecated. Please use kafka-leader-election tool. Tracking issue: KAFKA-8405")
    if options.has("zookeeper") == options.has("bootstrap-server"):
        raise UsageError("Exactly one of '[bootstrap-server]' or '[zookeeper]' must be provided")
    path = options.value("path-to-json-file")
    partitions = None if path is None else read_partitions(read_file(path))
    if options.has("zookeeper"):
        console.print(
            "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.\n"
            "Use --bootstrap-server instead to specify a broker to connect to."
        )
        try:
            async with zookeeper_session(surroundings, options.value("zookeeper") or "") as session:
                await _request(session.zk, console, partitions)
        except NotConnected:
            raise
        except ToolError as error:
            raise ToolError(COMMAND_FAILED, "Admin command failed", cause=error) from None
        return 0
    async with surroundings.connect(
        options, config="admin.config", request_timeout_ms=TIMEOUT_MS, api_timeout_ms=2 * TIMEOUT_MS
    ) as cluster:
        await _elect(cluster, console, partitions)
    return 0


TOOL = Tool(
    "preferred-leaders",
    "This tool helps to causes leadership for each partition to be transferred back to the 'preferred replica', it can "
    "be used to balance leadership among the servers.",
    FLAGS,
    run,
    print_uncaught,
)


def read_partitions(text: str) -> list[TopicPartition]:
    """Return the partitions in the JSON of `--path-to-json-file`. Raises ToolError."""
    empty = ToolError(OPERATION_FAILED, "Preferred replica election data is empty")
    data = parse_object(text, empty)
    if "partitions" not in data:
        raise empty
    found = [TopicPartition(each.text("topic"), each.number("partition")) for each in data.objects("partitions")]
    if twice := duplicates(found):
        listed = ",".join(map(str, twice))
        raise ToolError(OPERATION_FAILED, f"Preferred replica election data contains duplicate partitions: {listed}")
    return found


# ---------------------------------------------------------------------- with ZooKeeper


async def _request(zk: KafkaZkClient, console: Console, wanted: Sequence[TopicPartition] | None) -> None:
    """Ask the controller to elect preferred leaders, of all partitions for None."""
    topics = await zk.topics.names() if wanted is None else sorted({partition.topic for partition in wanted})
    assignments = await zk.topics.assignments(topics)
    existing = {partition: None for topic in assignments.values() for partition in sorted(topic.partitions)}
    valid = list(existing) if wanted is None else [each for each in wanted if each in existing]
    if not await zk.preferred_elections.create(valid):
        under_way = ",".join(map(str, await zk.preferred_elections.read() or ()))
        raise ToolError(
            OPERATION_FAILED,
            f"Preferred replica leader election currently in progress for {under_way}. Aborting operation",
        )
    console.print(f"Created preferred replica election path with {','.join(map(str, valid))}")
    console.print(f"Successfully started preferred replica election for partitions {scala_set(valid)}")
    for each in wanted or ():
        if each not in existing:
            console.print(f"Skipping preferred replica leader election for partition {each} since it doesn't exist.")


# ---------------------------------------------------------------------- with brokers


async def _elect(cluster: KafkaCluster, console: Console, wanted: Sequence[TopicPartition] | None) -> None:
    _print_results(console, await elected(cluster, console, wanted, PREFERRED, TIMEOUT_MS))


def _print_results(console: Console, results: Mapping[TopicPartition, PartitionResult]) -> None:
    ordered = in_java_order(results)
    elected = [each for each in ordered if results[each].error_code == Errors.NONE]
    needless = [each for each in ordered if results[each].error_code == Errors.ELECTION_NOT_NEEDED]
    if elected:
        console.print(f"Successfully completed preferred leader election for partitions {_listed(elected)}")
    if needless:
        console.print(f"Preferred replica already elected for partitions {_listed(needless)}")
    errors = []
    for each in ordered:
        if each not in elected and each not in needless:
            error = error_of(results[each].error_code, results[each].error_message)
            console.print(f"Error completing preferred leader election for partition: {each}: {error}")
            errors.append(error)
    if errors:
        raise ToolError(COMMAND_FAILED, f"{len(errors)} preferred replica(s) could not be elected", suppressed=errors)


def _listed(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
