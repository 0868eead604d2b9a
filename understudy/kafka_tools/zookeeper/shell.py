"""`understudy zookeeper-shell`: ZooKeeper's shell, for one command or for lines of the standard input.

It prints what the shell of ZooKeeper 3.8 prints without JLine, as Kafka 3.9.1 ships it. Mirrors `ZooKeeperMain` and
`ZooKeeperMainWithTlsSupportForKafka`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from understudy.foundation.wire.network import ConnectionFailed
from understudy.foundation.zk.client import (
    Notification,
    SessionExpired,
    SessionResumed,
    SessionSuspended,
    WatchFired,
    WatchKind,
    ZooKeeperClient,
    ZooKeeperUnreachable,
)
from understudy.kafka_tools.console import Surroundings, Tool, print_trace
from understudy.kafka_tools.errors import ToolError
from understudy.kafka_tools.options import Flag, Options
from understudy.kafka_tools.zookeeper.shell_arguments import COMMANDS, NOT_FOUND, CommandError, words_of
from understudy.kafka_tools.zookeeper.shell_commands import ON_ZNODES, VERSION

DEFAULT_PORT: Final = 2181
CONNECT_TIMEOUT_MS: Final = 10_000
"""Time that one server may take to accept a connection."""
HISTORY: Final = 10
"""Number of earlier commands that `history` shows."""

_USAGE: Final = "USAGE: zookeeper-shell zookeeper_host:port[/path] [-zk-tls-config-file file] [args...]"
_TLS: Final = "-zk-tls-config-file"
_WITH_VALUE: Final = ("-server", "-timeout", "-client-configuration")
_CHANGES: Final = {
    WatchKind.CREATED: "NodeCreated",
    WatchKind.DELETED: "NodeDeleted",
    WatchKind.CHANGED: "NodeDataChanged",
    WatchKind.CHILDREN: "NodeChildrenChanged",
}


class _ZooKeeperShell(Tool):
    """The tool whose first word is an address, and whose flags have one hyphen."""

    __slots__ = ()

    async def main(self, words: Sequence[str], surroundings: Surroundings) -> int:
        console = surroundings.console
        if not words:
            console.print(_USAGE)
            return 1
        if words[0] in ("--help", "--version"):
            console.print(self.usage if words[0] == "--help" else f"{surroundings.version}\n", end="")
            return 0
        if _TLS in words:
            console.error(f"{_TLS} is not supported: this shell has no TLS; leave it out")
            return 1
        shell = Shell(words[0], surroundings)
        try:
            code = await shell.run(command_of(words[1:]))
        finally:
            await shell.close()
        if code:
            console.log("ERROR", f"Exiting JVM with code {code}", "org.apache.zookeeper.util.ServiceUtils")
        return code


async def _run(options: Options, surroundings: Surroundings) -> int:
    raise ToolError("java.lang.IllegalStateException", "the shell's words are no flags")


TOOL = _ZooKeeperShell(
    "zookeeper-shell",
    "ZooKeeper's shell: HOST:PORT[/CHROOT] and a command, or commands on the lines of the standard input:\n"
    + "\n".join(f"  {name} {COMMANDS[name]}" for name in sorted([*ON_ZNODES, "version", "quit"])),
    (Flag("zk-tls-config-file", "Not supported.", "FILE"),),
    _run,
    print_trace,
)


def command_of(words: Sequence[str]) -> list[str]:
    """Return the command among the words after the address; empty if there are only flags."""
    left = list(words)
    while left and left[0].startswith("-"):
        del left[: 2 if left[0] in _WITH_VALUE else 1]
    return left


class Shell:
    """A shell with its session.

    Args:
        connect: `host:port,host:port/chroot`.
    """

    def __init__(self, connect: str, surroundings: Surroundings) -> None:
        self._connect_string = connect
        self._surroundings = surroundings
        self._console = surroundings.console
        self._client: ZooKeeperClient | None = None
        self._is_closed = False
        self._prints_watches = True
        self._lines: list[str] = []
        self._code = 0

    async def run(self, command: Sequence[str]) -> int:
        """Run one command, or those on the standard input for none. Returns the exit code of the last one."""
        self._console.print(f"Connecting to {self._connect_string}")
        if command:
            await self._connect()
            await self._do(command)
            return self._code
        self._console.print("Welcome to ZooKeeper!\nJLine support is disabled")
        await self._connect()
        self._console.flush()
        while (line := await self._surroundings.read_line()) is not None:
            text = line.decode("utf-8", "replace")
            if not text:
                continue
            words = words_of(text)
            self._lines.append(text)
            await self._do(words)
            if words and words[0] == "quit":
                break
            self._console.flush()
        return self._code

    async def close(self) -> None:
        """End the session."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    # ------------------------------------------------------------------ commands

    async def _do(self, words: Sequence[str]) -> None:
        """Run a command, and print the message of one that fails."""
        try:
            await self._command(words)
            if words[0] != "quit":
                self._code = 0
        except CommandError as error:
            self._code = error.code
            self._console.error(str(error))

    async def _command(self, words: Sequence[str]) -> None:
        name = words[0] if words else ""
        if name not in COMMANDS:
            self._console.error("ZooKeeper -server host:port [-zk-tls-config-file <file>] cmd args")
            for each, arguments in COMMANDS.items():
                self._console.error(f"\t{each} {arguments}")
            raise CommandError(f"Command not found: Command not found {name}", NOT_FOUND)
        match name:
            case "quit":
                await self._end_session()
            case "redo" if len(words) > 1:
                await self._redo(words[1])
            case "history":
                last = len(self._lines) - 1
                for number in range(max(last - HISTORY, 0), last + 1):
                    self._console.print(f"{number} - {self._lines[number]}")
            case "printwatches":
                self._print_watches(words[1:])
            case "connect":
                await self._reconnect(*words[1:2])
            case "close":
                await self._end_session()
                self._is_closed = True
            case "version":
                self._console.print(f"ZooKeeper CLI version: {VERSION}")
            case _:
                await self._on_znodes(name, words)

    async def _on_znodes(self, name: str, words: Sequence[str]) -> None:
        if self._is_closed:
            self._console.print("Not connected")
            return
        if name not in ON_ZNODES:
            raise CommandError(f"{name} is not supported by this shell")
        if self._client is None:
            raise CommandError(f"KeeperErrorCode = ConnectionLoss for {words[-1]}")
        await ON_ZNODES[name](self._client, words, self._console)

    async def _redo(self, number: str) -> None:
        last = len(self._lines) - 1
        if not number.isdecimal() or int(number) >= last:
            raise CommandError("Command index out of range")
        line = self._lines[int(number)]
        words = words_of(line)
        if words[0] == "redo":
            raise CommandError("No redoing redos")
        self._lines[last] = line
        await self._command(words)

    def _print_watches(self, words: Sequence[str]) -> None:
        if words:
            self._prints_watches = words[0] == "on"
        else:
            self._console.print(f"printwatches is {'on' if self._prints_watches else 'off'}")

    # ------------------------------------------------------------------ the session

    async def _reconnect(self, connect: str | None = None) -> None:
        await self._end_session()
        self._connect_string = connect or self._connect_string
        await self._connect()

    async def _end_session(self) -> None:
        """End the session, as a command does: with a notification."""
        if self._client is not None:
            await self.close()
            self._print_event("Closed")

    async def _connect(self) -> None:
        """Open a session. Without one the commands on znodes fail, at once if no server accepts connections."""
        self._is_closed = False
        try:
            if not await self._accepts_connections():
                return
            self._client = await self._surroundings.zookeeper(self._connect_string).connect(self._notified)
        except ValueError as error:
            self._console.error(str(error))
        except ZooKeeperUnreachable:
            pass  # the next command says so
        else:
            self._print_event("SyncConnected")

    async def _accepts_connections(self) -> bool:
        """Whether a server can be reached. Java's client reports the first refusal; kazoo's tries on."""
        for server in self._connect_string.partition("/")[0].split(","):
            host, colon, port = server.strip().rpartition(":")
            address = (host, int(port)) if colon and port.isdecimal() else (server.strip(), DEFAULT_PORT)
            try:
                connection = await self._surroundings.network.connect(
                    address[0].strip("[]"), address[1], timeout_ms=CONNECT_TIMEOUT_MS
                )
            except ConnectionFailed as error:
                self._console.log(
                    "WARN",
                    f"Session 0x0 for server {address[0]}:{address[1]}, Closing socket connection. Attempting "
                    "reconnect except it is a SessionExpiredException.",
                    "org.apache.zookeeper.ClientCnxn",
                )
                self._console.error(f"java.net.ConnectException: {error}")
            else:
                connection.close()
                return True
        return False

    def _notified(self, notification: Notification) -> None:
        match notification:
            case WatchFired(path, kind):
                self._print_event("SyncConnected", _CHANGES[kind], path)
            case SessionSuspended():
                self._print_event("Disconnected")
            case SessionResumed():
                self._print_event("SyncConnected")
            case SessionExpired():
                self._print_event("Expired")

    def _print_event(self, state: str, kind: str = "None", path: str = "null") -> None:
        if self._prints_watches:
            self._console.print(f"\nWATCHER::\n\nWatchedEvent state:{state} type:{kind} path:{path}")
            self._console.flush()
