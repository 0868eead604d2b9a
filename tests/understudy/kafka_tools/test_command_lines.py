"""The tools' command lines: refusals before a broker is asked, with Kafka's messages and exit codes."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from tests.brokers.parts import StillClock
from understudy.foundation.wire.network import Connection, ConnectionFailed, ServerSocket
from understudy.kafka_tools.console import Console, Surroundings
from understudy.kafka_tools.names import NAMES
from understudy.kafka_tools.tools import TOOLS

SERVER = ["--bootstrap-server", "localhost:9092"]


class NoNetwork:
    """A network on which no server listens."""

    async def connect(self, host: str, port: int, *, timeout_ms: int) -> NoReturn:
        raise ConnectionFailed(f"{host}:{port} refuses")

    async def bind(self, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]) -> ServerSocket:
        raise AssertionError("tools serve nothing")


class Result(NamedTuple):
    code: int
    out: str
    err: str


def run(tool: str, *words: str) -> Result:
    out, err = io.StringIO(), io.StringIO()
    surroundings = Surroundings(Console(out, err, lambda: "[now]"), NoNetwork(), StillClock(), "1.2.3")
    return Result(asyncio.run(TOOLS[tool].main(words, surroundings)), out.getvalue(), err.getvalue())


def test_the_help_of_the_command_line_names_every_tool() -> None:
    assert {name: tool.kafka for name, tool in TOOLS.items()} == {name: script for name, (script, _) in NAMES.items()}


@pytest.mark.parametrize("tool", [name for name in TOOLS if name != "producer-perf"])
def test_without_flags_a_tool_prints_its_usage_and_exits_with_1(tool: str) -> None:
    result = run(tool)
    assert result.code == 1
    assert result.out == ""
    assert result.err.startswith(TOOLS[tool].purpose + "\n")
    assert f"usage: understudy {tool}" in result.err


def test_without_flags_the_measurement_of_producers_prints_its_help() -> None:
    # Its parser is not the one of Kafka's other tools.
    assert run("producer-perf") == Result(0, TOOLS["producer-perf"].usage, "")


@pytest.mark.parametrize("tool", TOOLS)
def test_the_help_and_the_version_exit_with_0(tool: str) -> None:
    assert run(tool, "--help") == Result(0, TOOLS[tool].usage, "")
    assert run(tool, "--version") == Result(0, "1.2.3\n", "")


@pytest.mark.parametrize("tool", TOOLS)
def test_an_unknown_flag_is_named_and_exits_with_1(tool: str) -> None:
    result = run(tool, "--nosuch")
    assert result.code == 1
    expected = "unrecognized arguments: '--nosuch'" if tool == "producer-perf" else "nosuch is not a recognized option"
    assert expected in result.out + result.err


USAGE_ERRORS = {
    "topics --list --create": "Command must include exactly one action: --list, --describe, --create, --alter or",
    "topics --create": 'Missing required argument "[topic]"',
    "topics --list --partitions 3": 'Option "[partitions]" can\'t be used with option "[list]"',
    "topics --create --topic a --replica-assignment 1 --partitions 1": 'Option "[replica-assignment]" can\'t be used',
    "topics --alter --topic a --config b=c": "the kafka-configs CLI supports altering topic configs",
    "topics --describe --if-exists": "--topic or --topic-id is required to describe a topic",
    "configs --alter --describe --entity-type topics": "Command must include exactly one action: --describe, --alter",
    "configs --describe --entity-type topics --add-config a=b": 'Option "[describe]" can\'t be used with option "[add',
    "groups --describe": "Option [describe] takes one of these options: ",
    "groups --describe --group a --members --state": "takes at most one of these options: [members], [offsets],",
    "groups --list --describe --all-groups": "Command must include exactly one action: --list, --describe, --delete",
    "groups --delete --group a --topic b": "The consumer does not support topic-specific offset deletion",
    "groups --reset-offsets --group a --dry-run --execute": "only accepts one of [execute] and [dry-run]",
    "groups --reset-offsets --group a --to-latest --to-current --dry-run": "can't be used with option \"[to-",
    "groups --list --state asleep": "Invalid state list 'asleep'. Valid states are: PreparingRebalance, Completing",
    "reassign --verify --list": "Command must include exactly one action: --generate, --execute, --verify, --cancel",
    "reassign --execute": 'Missing required argument "[reassignment-json-file]"',
    "reassign --list --additional": 'Option "[additional]" can\'t be used with action "[list]"',
    "log-dirs --topic-list a": 'Missing required argument "[describe]"',
    "delete-records": 'Missing required argument "[offset-json-file]"',
}


@pytest.mark.parametrize("line", USAGE_ERRORS)
def test_a_wrong_command_line_prints_kafkas_message_and_the_usage(line: str) -> None:
    tool, *words = line.split()
    result = run(tool, *words, *SERVER)
    assert (result.code, result.out) == (1, "")
    assert USAGE_ERRORS[line] in result.err
    assert f"usage: understudy {tool}" in result.err


ERRORS = {
    "configs --describe --entity-type things": "Invalid entity type things, the entity type must be one of topics,",
    "configs --describe --entity-type brokers --entity-name one": "must be a valid integer broker id, but it is: one",
    "configs --describe --entity-type users": "Entity type users is not supported; expected one of topics, brokers,",
    "configs --alter --entity-type topics --entity-name a": "At least one of --add-config, --add-config-file, or",
    "get-offsets --time noon": "Error occurred: Malformed time argument noon.",
    "get-offsets --partitions zero": "expects a comma separated list of numeric partition ids, but received: zero",
    "get-offsets --topic-partitions a:b": "Invalid rule specification: a:b",
    "groups --describe --group a --timeout soon": "Cannot parse argument 'soon' of option timeout",
    "leader-election --election-type preferred": "One and only one of the following options is required: topic,",
    "leader-election --topic a --partition 0": "Missing required option(s): election-type",
    "log-dirs --describe --broker-list one": 'For input string: "one"',
    "topics --create --topic a --partitions many": "Cannot parse argument 'many' of option partitions",
    "topics --create --topic a --partitions": "Option partitions requires an argument",
    "topics --list --topic a --topic b": "Found multiple arguments for option topic, but you asked for only one",
}


@pytest.mark.parametrize("line", ERRORS)
def test_a_wrong_value_is_named_in_kafkas_words(line: str) -> None:
    tool, *words = line.split()
    result = run(tool, *SERVER, *words)
    assert result.code == 1
    assert ERRORS[line] in result.out + result.err


def test_a_server_is_needed_and_checked() -> None:
    assert "--bootstrap-server must be specified" in run("topics", "--list").err
    assert "Missing required option(s) [bootstrap-server]" in run("get-offsets", "--time", "latest").err
    assert "Please provide valid host:port" in run("get-offsets", "--bootstrap-server", "localhost").err
    assert "Invalid url in bootstrap.servers: localhost" in run("topics", "--list", "--bootstrap-server=localhost").err


def test_a_configuration_that_asks_for_security_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    result = run("topics", "--list", *SERVER, "--command-config", str(config))
    assert result.code == 1
    assert f"security.protocol=SSL in {config} is not supported; expected PLAINTEXT" in result.err


def test_where_no_broker_answers_a_tool_ends_after_its_timeout(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=50\n")
    result = run("topics", "--list", *SERVER, "--command-config", str(config))
    assert result.code == 1
    assert result.out == (
        "Error while executing topic command : Timed out waiting for a node assignment. Call: listTopics\n"
    )
    assert result.err.startswith("[now] ERROR org.apache.kafka.common.errors.TimeoutException: Timed out")


def test_json_files_are_checked(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    execute = ("reassign", "--execute", *SERVER, "--reassignment-json-file", str(plan))
    plan.write_text("not json")
    assert run(*execute).out.startswith("Error: The input string is not a valid JSON\n")
    plan.write_text('{"version": 2}')
    assert run(*execute).out.startswith("Error: Not supported version field value 2\n")
    plan.write_text('{"partitions": []}')
    assert run(*execute).out.startswith("Error: Partition reassignment list cannot be empty\n")
    plan.write_text('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}')
    assert "duplicate entries: a-0 contains multiple entries for 1\n" in run(*execute).out
    plan.write_text('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["/data"]}]}')
    assert 'log_dirs of a-0 names /data; expected "any"' in run(*execute).out
    plan.write_text('{"partitions": [{"topic": "a", "partition": "0", "replicas": [1]}]}')
    assert 'Expected `Integer` value, received "0"' in run(*execute).out
    missing = str(tmp_path / "missing.json")
    assert run("delete-records", *SERVER, "--offset-json-file", missing).err.startswith(f"{missing}\n")
