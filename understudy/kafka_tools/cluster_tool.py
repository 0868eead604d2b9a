"""`understudy cluster`: show the id of a cluster, or unregister a broker. Mirrors Kafka's `ClusterTool`.

Only KRaft clusters unregister brokers: in ZooKeeper mode a registration ends with the broker's session.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from understudy.foundation.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from understudy.kafka_tools.argparse4j import ARGPARSE, wrapped
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import Console, Surroundings, Tool, print_trace
from understudy.kafka_tools.errors import ToolError, executed
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, Flag, Options

UNREGISTER_BROKER: Final = 64
"""The key of the API that unregisters a broker."""
COMMANDS: Final = ("cluster-id", "unregister")
SHORT: Final = {"-b": "bootstrap-server", "-C": "bootstrap-controller", "-c": "config", "-i": "id"}
_SHOWN: Final = {long: f"--{long}/{short}" for short, long in SHORT.items()}
_SERVERS: Final = ("bootstrap-server", "bootstrap-controller")
_USAGE: Final = "usage: kafka-cluster [-h] {cluster-id,unregister} ...\n"
_COMMAND_USAGE: Final = """\
usage: kafka-cluster {command} [-h] [--config CONFIG]{id}
                     (--bootstrap-server BOOTSTRAP_SERVER |
                     --bootstrap-controller BOOTSTRAP_CONTROLLER)
"""

FLAGS = (
    BOOTSTRAP_SERVER,
    Flag("bootstrap-controller", "Not supported: KRaft controllers.", "HOST:PORT,…"),
    Flag("config", "A properties file with the client's configuration.", "FILE"),
    Flag("id", "With unregister: the broker's id.", "NUMBER"),
)


class _ClusterTool(Tool):
    """The tool with commands, whose command line is not joptsimple's."""

    __slots__ = ()

    async def main(self, words: Sequence[str], surroundings: Surroundings) -> int:
        console = surroundings.console
        if {"--help", "-h"} & set(words):
            console.print(self.usage, end="")
            return 0
        if list(words) == ["--version"]:
            console.print(surroundings.version)
            return 0
        command = words[0] if words and words[0] in COMMANDS else ""
        try:
            return await _run(command, parse(command, words), surroundings)
        except ToolError as error:
            if error.kind == ARGPARSE:
                console.error(usage_of(command) + wrapped(f"kafka-cluster: error: {error.shown_message}"))
            else:
                self.fails(error, words, console)
        return 1


async def _run(command: str, options: Options, surroundings: Surroundings) -> int:
    if options.has("bootstrap-controller"):
        raise ToolError(
            "java.lang.UnsupportedOperationException",
            "--bootstrap-controller is not supported: there are no KRaft controllers here; give --bootstrap-server "
            "HOST:PORT",
        )
    async with _connected(options, surroundings) as cluster:
        try:
            if command == "cluster-id":
                await _print_cluster_id(cluster, surroundings.console)
            else:
                await _unregister(cluster, surroundings.console)
        except ToolError as error:
            raise executed(error) from None
    return 0


TOOL = _ClusterTool(
    "cluster",
    "The Kafka cluster tool: `cluster-id` shows the id of a cluster, `unregister --id N` unregisters a broker.",
    FLAGS,
    lambda options, surroundings: _run("cluster-id", options, surroundings),
    print_trace,
)


def parse(command: str, words: Sequence[str]) -> Options:
    """Return the flags of a command line. Raises ToolError of the class ARGPARSE, with argparse4j's message.

    Args:
        command: the command that `words` begin with; empty if they begin with none.
    """
    if not command:
        raise _wrong(_why_no_command(words))
    known = [flag.name for flag in FLAGS if flag.name != "id" or command == "unregister"]
    given: dict[str, str] = {}
    left = list(words[1:])
    while left:
        word = left.pop(0)
        name, value = _flag(word, known)
        if value is None:
            if not left or left[0].startswith("-"):
                raise _wrong(f"argument {_SHOWN[name]}: expected one argument")
            value = left.pop(0)
        if other := next((each for each in _SERVERS if each in given and each != name and name in _SERVERS), None):
            raise _wrong(f"argument {_SHOWN[name]}: not allowed with argument {_SHOWN[other]}")
        if name == "id" and not re.fullmatch(r"[+-]?\d+", value):
            raise _wrong(
                f"argument {_SHOWN[name]}: could not convert '{value}' to Integer (For input string: \"{value}\")"
            )
        given[name] = value
    if command == "unregister" and "id" not in given:
        raise _wrong(f"argument {_SHOWN['id']} is required")
    if not any(name in given for name in _SERVERS):
        raise _wrong(f"one of the arguments {' '.join(_SHOWN[name] for name in _SERVERS)} is required")
    return Options([*given.items()])


def usage_of(command: str) -> str:
    """Return argparse4j's usage of a command; of the tool for none."""
    if not command:
        return _USAGE
    return _COMMAND_USAGE.format(command=command, id=" --id ID" if command == "unregister" else "")


def _why_no_command(words: Sequence[str]) -> str:
    if not words:
        return "too few arguments"
    if words[0].startswith("-"):
        return f"unrecognized arguments: '{words[0]}'"
    return f"invalid choice: '{words[0]}' (choose from {', '.join(map(repr, COMMANDS))})"


def _flag(word: str, known: Sequence[str]) -> tuple[str, str | None]:
    """Return the flag that a word names, by a prefix as well, and the value after its `=`; None without one."""
    if SHORT.get(word) in known:
        return SHORT[word], None
    name, equals, value = word.removeprefix("--").partition("=")
    found = [name] if name in known else sorted(each for each in known if each.startswith(name))
    if not word.startswith("--") or not found:
        raise _wrong(f"unrecognized arguments: '{word}'")
    if len(found) > 1:
        listed = ", ".join(f"--{each}" for each in found)
        raise _wrong(f"ambiguous option: --{name} could match {listed}")
    return found[0], value if equals else None


def _wrong(message: str) -> ToolError:
    return ToolError(ARGPARSE, message)


def _connected(options: Options, surroundings: Surroundings) -> KafkaCluster:
    try:
        return surroundings.connect(options, config="config")
    except ToolError as error:
        failed = "Failed to create new KafkaAdminClient"
        raise ToolError("org.apache.kafka.common.KafkaException", failed, cause=error) from None


async def _print_cluster_id(cluster: KafkaCluster, console: Console) -> None:
    metadata = await cluster.metadata((), call="describeCluster")
    if metadata.cluster_id is None:
        console.print("No cluster ID found. The Kafka version is probably too old.")
    else:
        console.print(f"Cluster ID: {metadata.cluster_id}")


async def _unregister(cluster: KafkaCluster, console: Console) -> None:
    served = await cluster.ask_any(ApiVersionsRequest(), ApiVersionsResponse, call="unregisterBroker", max_version=0)
    if any(api.api_key == UNREGISTER_BROKER for api in served.api_keys):
        raise ToolError(
            "java.lang.UnsupportedOperationException",
            "the cluster is in KRaft mode, in which this tool unregisters no broker; use kafka-cluster.sh of Kafka",
        )
    console.print("The target cluster does not support the broker unregistration API.")
