"""`understudy zookeeper-shell` prints what the shell of ZooKeeper 3.8 prints without JLine.

The expected output was recorded with the shell that Kafka 3.9.1 ships.
"""

from __future__ import annotations

import re

import pytest

from tests.understudy.kafka_tools.test_command_lines import NoNetwork
from tests.understudy.kafka_tools.zookeeper.bed import CONNECT, Printed, ZooKeeperBed
from understudy.kafka_tools.zookeeper.shell_arguments import Arguments, CommandError, check_path, words_of

CONNECTED = f"Connecting to {CONNECT}\n\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n"
WELCOME = (
    f"Connecting to {CONNECT}\nWelcome to ZooKeeper!\nJLine support is disabled\n"
    "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n"
)


def shell(bed: ZooKeeperBed, *words: str) -> Printed:
    """The output of one command, without the lines about the connection."""
    done = bed.run("zookeeper-shell", CONNECT, *words)
    assert done.out.startswith(CONNECTED)
    return done._replace(out=done.out.removeprefix(CONNECTED))


def typed(bed: ZooKeeperBed, *lines: str) -> Printed:
    """The output of lines on the standard input, without the lines at the start."""
    done = bed.run("zookeeper-shell", CONNECT, lines=lines)
    assert done.out.startswith(WELCOME)
    return done._replace(out=done.out.removeprefix(WELCOME))


def failed(message: str, code: int = 1) -> Printed:
    exiting = f"[now] ERROR Exiting JVM with code {code} (org.apache.zookeeper.util.ServiceUtils)\n"
    return Printed(code, "", f"{message}\n{exiting}")


def test_children_are_listed_in_order(bed: ZooKeeperBed) -> None:
    bed.make("/app/b/c", "/app/a")
    assert shell(bed, "ls", "/app") == Printed(0, "[a, b]\n", "")
    assert shell(bed, "ls", "/app/a").out == "[]\n"
    assert shell(bed, "ls", "-R", "/app").out == "/app\n/app/a\n/app/b\n/app/b/c\n"
    assert shell(bed, "ls", "-s", "/app").out.startswith("[a, b]\ncZxid = 0x1\n")
    assert shell(bed, "ls", "/app", "watch").err.startswith("'ls path [watch]' has been deprecated.")
    assert shell(bed, "getAllChildrenNumber", "/app").out == "3\n"


def test_data_is_printed_and_null_is_told_from_empty(bed: ZooKeeperBed) -> None:
    bed.make("/null")
    bed.make("/empty", data=b"")
    bed.make("/full", data="größe".encode())
    assert [shell(bed, "get", path).out for path in ("/null", "/empty", "/full")] == ["null\n", "\n", "größe\n"]
    stat = shell(bed, "get", "-s", "/full").out.splitlines()
    assert stat[0] == "größe"
    names = ["cZxid", "ctime", "mZxid", "mtime", "pZxid", "cversion", "dataVersion", "aclVersion"]
    assert [line.split(" = ")[0] for line in stat[1:]] == [*names, "ephemeralOwner", "dataLength", "numChildren"]
    assert re.fullmatch(r"ctime = \w{3} \w{3} \d\d \d\d:\d\d:\d\d \S+ \d{4}", stat[2])
    assert "dataLength = 7" in stat
    assert shell(bed, "stat", "/full").out.splitlines() == stat[1:]


def test_a_znode_is_created_changed_and_deleted(bed: ZooKeeperBed) -> None:
    assert shell(bed, "create", "/app", "one") == Printed(0, "", "Created /app\n")
    assert shell(bed, "create", "-s", "/app/s-").err == "Created /app/s-0000000000\n"
    assert shell(bed, "set", "/app", "two").code == 0
    assert bed.data("/app") == "two"
    assert "dataVersion = 2" in shell(bed, "set", "-s", "-v", "1", "/app", "three").out
    assert shell(bed, "delete", "/app") == failed("Node not empty: /app")
    assert shell(bed, "delete", "-v", "0", "/app/s-0000000000").code == 0
    bed.make("/app/a/b/c", "/app/d")
    assert shell(bed, "deleteall", "/app") == Printed(0, "", "")
    assert bed.data("/app") is None


def test_an_ephemeral_znode_lives_as_long_as_the_shell(bed: ZooKeeperBed) -> None:
    assert typed(bed, "create -e /here x", "get /here").out == "x\n"
    assert bed.data("/here") is None


REFUSALS = {
    "get /none": "Node does not exist: /none",
    "stat /none": "Node does not exist: /none",
    "ls /none": "Node does not exist: /none",
    "deleteall /none": "Node does not exist: /none",
    "set /none x": "Node does not exist: /none",
    "create /none/a x": "Node does not exist: /none/a",
    "create /app x": "Node already exists: /app",
    "set -v 9 /app x": "version No is not valid : /app",
    "delete -v 9 /app": "version No is not valid : /app",
    "delete /": "Arguments are not valid : /",
    "ls app": "Path must start with / character",
    "ls /app/": "Path must not end with / character",
    "get /app//a": 'Invalid path string "/app//a" caused by empty node name specified @5',
    "ls": "ls [-s] [-w] [-R] path",
    "get": "get [-s] [-w] path",
    "set /app": "set [-s] [-v version] path data",
    "create": "create [-s] [-e] [-c] [-t ttl] path [data] [acl]",
    "ls -x /": "org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: -x",
    "delete -v": "org.apache.commons.cli.MissingArgumentException: Missing argument for option: v",
    "getAcl /app": "getAcl is not supported by this shell",
    "create -c /box": "-c is not supported by this shell: it creates no znodes with container znodes",
    "create /box x digest:me:r": "The ACL digest:me:r is not supported by this shell; leave it out, or give "
    "world:anyone:cdrwa",
}


@pytest.mark.parametrize("line", REFUSALS)
def test_a_command_that_fails_prints_the_reason_and_exits_with_1(bed: ZooKeeperBed, line: str) -> None:
    bed.make("/app")
    assert shell(bed, *line.split()) == failed(REFUSALS[line])


def test_a_command_that_does_not_exist_prints_all_that_do(bed: ZooKeeperBed) -> None:
    refused = shell(bed, "foo")
    assert refused.code == 127
    lines = refused.err.splitlines()
    assert lines[0] == "ZooKeeper -server host:port [-zk-tls-config-file <file>] cmd args"
    assert "\tls [-s] [-w] [-R] path" in lines
    assert lines[-2] == "Command not found: Command not found foo"


def test_lines_are_run_until_the_end_or_quit(bed: ZooKeeperBed) -> None:
    done = typed(bed, 'create /app "two words"', "", "get /app", "ls /none", "quit", "get /app")
    assert done.out == "two words\n\nWATCHER::\n\nWatchedEvent state:Closed type:None path:null\n"
    assert done.err.startswith("Created /app\nNode does not exist: /none\n")
    # The exit code is the one of the last command before `quit`.
    assert done.code == 1
    assert typed(bed, "ls /none", "ls /app") == Printed(0, "[]\n", "Node does not exist: /none\n")


def test_a_watch_is_printed_when_it_fires(bed: ZooKeeperBed) -> None:
    bed.make("/app")
    done = typed(bed, "get -w /app", "set /app x", "printwatches", "printwatches off", "get -w /app", "set /app y")
    fired = "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:NodeDataChanged path:/app\n"
    assert done.out == f"null\n{fired}printwatches is on\nx\n"


def test_earlier_lines_are_shown_and_run_again(bed: ZooKeeperBed) -> None:
    bed.make("/app")
    done = typed(bed, "ls /app", "history", "redo 0", "redo 9", "redo 2")
    assert done.out == "[]\n0 - ls /app\n1 - history\n[]\n[]\n"
    assert done.err.startswith("Command index out of range\n")


def test_a_closed_shell_can_connect_again(bed: ZooKeeperBed) -> None:
    bed.make("/app/a")
    done = typed(bed, "printwatches off", "close", "ls /", f"connect {CONNECT}/app", "ls /", "version")
    assert done.out == (
        "Not connected\n[a]\n"
        "ZooKeeper CLI version: 3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12 22:16 UTC\n"
    )


def test_a_server_that_refuses_connections_fails_a_command_at_once(bed: ZooKeeperBed) -> None:
    done = bed.run("zookeeper-shell", "a:1,b:2", "ls", "/", network=NoNetwork())
    assert done.code == 1
    assert done.out == "Connecting to a:1,b:2\n"
    assert "Session 0x0 for server b:2, Closing socket connection." in done.err
    assert "KeeperErrorCode = ConnectionLoss for /\n" in done.err


def test_an_address_comes_first(bed: ZooKeeperBed) -> None:
    usage = "USAGE: zookeeper-shell zookeeper_host:port[/path] [-zk-tls-config-file file] [args...]\n"
    assert bed.run("zookeeper-shell") == Printed(1, usage, "")
    assert "this shell has no TLS" in bed.run("zookeeper-shell", CONNECT, "-zk-tls-config-file", "f", "ls", "/").err
    assert shell(bed, "-timeout", "5000", "-waitforconnection", "stat", "/none").code == 1


def test_words_in_quotes_are_one() -> None:
    assert words_of("""create /a "b c" 'd "e"' {"x":1}""") == ["create", "/a", "b c", 'd "e"', '{"x":1}']
    assert words_of("") == []


def test_options_are_read_as_commons_cli_reads_them() -> None:
    flags = {"s": False, "v": True}
    given = Arguments(["set", "-sv", "3", "/a", "--", "-x"], flags)
    assert (given.has("s"), given.number("v", -1), given.args) == (True, 3, ["set", "/a", "-x"])
    assert Arguments(["set", "-v3", "-v=4"], flags).number("v", -1) == 4
    for words in (["set", "--long"], ["set", "-sx"], ["set", "/a", "-5"]):
        with pytest.raises(CommandError, match=f"Unrecognized option: {words[-1]}"):
            Arguments(words, flags)


@pytest.mark.parametrize("path", ["/", "/a", "/a/..b", "/a/b..", "/größe"])
def test_a_path_that_zookeeper_accepts_is_sent(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/a/../b", "relative paths not allowed @4"),
        ("/.", "relative paths not allowed @1"),
        ("/a\x00", "null character not allowed @2"),
        ("/a\x1f", "invalid character @2"),
    ],
)
def test_a_path_that_zookeeper_refuses_is_not_sent(path: str, reason: str) -> None:
    with pytest.raises(CommandError, match=re.escape(reason)):
        check_path(path)
