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
from understudy.kafka_tools.java_uuid import parse_uuid
from understudy.kafka_tools.names import NAMES
from understudy.kafka_tools.options import java_split
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


OWN_COMMAND_LINES = {"producer-perf", "cluster", "zookeeper-shell"}
"""Tools whose command lines joptsimple does not parse."""


@pytest.mark.parametrize("tool", [name for name in TOOLS if name not in OWN_COMMAND_LINES])
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


@pytest.mark.parametrize("tool", [name for name in TOOLS if name != "zookeeper-shell"])
def test_an_unknown_flag_is_named_and_exits_with_1(tool: str) -> None:
    result = run(tool, "--nosuch")
    assert result.code == 1
    is_own = tool in OWN_COMMAND_LINES
    expected = "unrecognized arguments: '--nosuch'" if is_own else "nosuch is not a recognized option"
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
    "groups --list --zookeeper zk:2181": "Option [bootstrap-server] is not valid with [zookeeper].",
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


NOT_A_NUMBER = """\
joptsimple.OptionArgumentConversionException: Cannot parse argument '{0}' of option {1}
Caused by: joptsimple.internal.ReflectionException: java.lang.NumberFormatException: For input string: "{0}"
Caused by: java.lang.NumberFormatException: For input string: "{0}"
"""


@pytest.mark.parametrize("action", ["--create", "--alter"])
@pytest.mark.parametrize("value", ["x", "1.5", " 1", "2147483648", "1_0"])
def test_a_number_of_kafka_topics_that_is_none_is_an_error_of_the_command(action: str, value: str) -> None:
    result = run("topics", action, "--topic", "a", "--partitions", value, *SERVER)
    assert result.code == 1
    assert result.out == f"Error while executing topic command : Cannot parse argument '{value}' of option partitions\n"
    assert (
        result.err == f"[now] ERROR {NOT_A_NUMBER.format(value, 'partitions')} (org.apache.kafka.tools.TopicCommand)\n"
    )


@pytest.mark.parametrize("flag", ["throttle", "replica-alter-log-dirs-throttle", "timeout"])
@pytest.mark.parametrize("value", ["x", "9223372036854775808"])
def test_a_number_of_kafka_reassign_partitions_that_is_none_is_an_error_on_the_output(
    flag: str, value: str, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("not looked at before the numbers")
    result = run("reassign", "--execute", "--reassignment-json-file", str(plan), f"--{flag}", value, *SERVER)
    error = f"Error: Cannot parse argument '{value}' of option {flag}\n{NOT_A_NUMBER.format(value, flag)}\n"
    assert result == Result(1, error, "")


def test_a_number_is_converted_when_kafkas_tool_asks_for_it(tmp_path: Path) -> None:
    """After errors in the combination of flags and in files, and of several values the first wrong one counts."""
    assert 'Missing required argument "[topic]"' in run("topics", "--create", "--partitions", "x", *SERVER).err
    assert "can't be used with option" in run("topics", "--delete", "--topic", "a", "--partitions", "x", *SERVER).err
    missing = ("--reassignment-json-file", str(tmp_path / "none"))
    unread = run("reassign", "--execute", *missing, "--throttle", "x", *SERVER)
    assert unread.out.startswith(f"Error: Unable to read file {missing[1]}\njava.io.IOException: Unable to read file")
    twice = run("topics", "--create", "--topic", "a", "--partitions", "1", "--partitions", "y", *SERVER)
    assert "Cannot parse argument 'y' of option partitions" in twice.out


def test_a_number_of_kafka_consumer_groups_that_is_none_ends_with_0() -> None:
    """As every error of that tool after its check of the flags."""
    result = run("groups", "--list", "--timeout", "x", *SERVER)
    message = "Executing consumer group command failed due to Cannot parse argument 'x' of option timeout"
    assert result == Result(0, f"\nError: {message}\n", NOT_A_NUMBER.format("x", "timeout"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1:x", 'For input string: "x"'),
        ("1:2147483648", 'For input string: "2147483648"'),
        ("1,,2", 'For input string: ""'),
    ],
)
def test_brokers_of_an_assignment_are_numbers_of_32_bits(text: str, why: str) -> None:
    result = run("topics", "--create", "--topic", "a", "--replica-assignment", text, *SERVER)
    assert result.out == f"Error while executing topic command : {why}\n"


def test_javas_split_leaves_out_empty_parts_at_the_end() -> None:
    assert [java_split(text, ",") for text in ("1,2", "1,2,,", ",1", "", ",,")] == [
        ["1", "2"],
        ["1", "2"],
        ["", "1"],
        [""],
        [],
    ]


IDS = {
    "x": "Input byte[] should at least have 2 bytes for base64 bytes",
    "x+x": "Illegal base64 character 2b",
    "": "Input string `` decoded as 0 bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID",
    "AAAAA": "Last unit does not have enough valid bits",
    "AA=A": "Input byte array has wrong 4-byte ending unit",
    "AAA=": (
        "Input string `AAA=` decoded as 2 bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID"
    ),
    "AAA=A": "Input byte array has incorrect ending byte at 4",
    "AAAA=": "Input byte array has wrong 4-byte ending unit",
    "0123456789012345678901234": (
        "Input string with prefix `012345678901234567890123` is too long to be decoded as a base64 UUID"
    ),
}
"""The errors of Kafka 3.9.1 on Java 17."""


@pytest.mark.parametrize("text", IDS)
def test_the_id_of_a_topic_is_read_as_java_reads_it(text: str) -> None:
    result = run("topics", "--describe", f"--topic-id={text}", *SERVER)
    assert (result.code, result.out) == (1, f"Error while executing topic command : {IDS[text]}\n")


def test_a_padded_id_is_the_same_topic() -> None:
    assert parse_uuid("AAAAAAAAAAAAAAAAAAAAAA==") == parse_uuid("AAAAAAAAAAAAAAAAAAAAAA") == "AAAAAAAAAAAAAAAAAAAAAA"


def test_an_address_that_cannot_be_used_makes_no_client() -> None:
    """Kafka's client of administrators names its own failure, and the reason as its cause."""
    result = run("topics", "--list", "--bootstrap-server=localhost")
    made = "Failed to create new KafkaAdminClient"
    cause = "Caused by: org.apache.kafka.common.config.ConfigException: Invalid url in bootstrap.servers: localhost\n"
    assert result == Result(1, "", f"{made}\norg.apache.kafka.common.KafkaException: {made}\n{cause}\n")


@pytest.mark.parametrize(
    "line",
    [
        "get-offsets --offsets 1 --max-wait-ms 1000",
        "consume --new-consumer --topic a",
        "consumer-perf --new-consumer --topic a --messages 1",
        "groups --new-consumer --list",
        "topics --list --force --disable-rack-aware",
    ],
)
def test_flags_of_older_releases_are_accepted(line: str) -> None:
    tool, *words = line.split()
    refused = run(tool, "--bootstrap-server", "no-port", *words)
    assert "is not a recognized option" not in refused.out + refused.err
    assert "no-port" in refused.out + refused.err or "valid host:port" in refused.err


def test_a_consumer_that_kept_its_offsets_in_zookeeper_is_gone() -> None:
    assert "zookeeper is not a recognized option" in run("consume", "--zookeeper", "zk:2181", "--topic", "a").err


CLUSTER_ERRORS = {
    "": "kafka-cluster: error: too few arguments",
    "foo": "kafka-cluster: error:  invalid  choice:  'foo'  (choose  from 'cluster-id',\n'unregister')",
    "cluster-id": "of   the  arguments  --bootstrap-server/-b  --\nbootstrap-controller/-C is required",
    "cluster-id -b": "kafka-cluster:  error:   argument   --bootstrap-server/-b:   expected   one\nargument",
    "cluster-id --boot h:1": "ambiguous  option:  --boot  could  match --bootstrap-\ncontroller, --bootstrap-server",
    "cluster-id -b h:1 -C h:1": "argument --bootstrap-controller/-C:  not allowed with\nargument --bootstrap-server/-b",
    "cluster-id -b h:1 more": "kafka-cluster: error: unrecognized arguments: 'more'",
    "cluster-id -b h:1 --id 1": "kafka-cluster: error: unrecognized arguments: '--id'",
    "unregister -b h:1": "kafka-cluster: error: argument --id/-i is required",
    "unregister -b h:1 -i x": "kafka-cluster: error: argument --id/-i:  could  not  convert 'x' to Integer\n(For input "
    'string: "x")',
}


@pytest.mark.parametrize("line", CLUSTER_ERRORS)
def test_a_wrong_command_line_of_the_cluster_tool_prints_the_message_of_argparse4j(line: str) -> None:
    result = run("cluster", *line.split())
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("usage: kafka-cluster ")
    assert result.err.endswith(CLUSTER_ERRORS[line] + "\n")


def test_the_cluster_tool_needs_addresses_of_brokers() -> None:
    wrong = run("cluster", "cluster-id", "--bootstrap-server", "localhost")
    assert wrong.err.startswith("Failed to create new KafkaAdminClient\n")
    assert "Caused by: org.apache.kafka.common.config.ConfigException: Invalid url" in wrong.err
    assert "there are no KRaft controllers here" in run("cluster", "cluster-id", "-C", "localhost:9093").err


def test_a_health_check_of_versions_ends_at_once_if_no_broker_answers() -> None:
    result = run("api-versions", "--bootstrap-server", "a:1,b:2")
    assert (result.code, result.out) == (1, "")
    assert result.err.endswith(
        'Exception in thread "main" java.lang.RuntimeException: Request METADATA failed on brokers '
        "List(a:1 (id: -1 rack: null), b:2 (id: -2 rack: null))\n"
    )
    assert result.err.count("could not be established. Node may not be available.") == 2


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
    unread = f"Unable to read file {missing}\n"
    assert run("delete-records", *SERVER, "--offset-json-file", missing).err.startswith(unread)
