"""The surroundings of a tool: its output, the network and the clock; and `Tool`, which runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from understudy.brokers.config.properties import MalformedProperties, parse_properties
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.network import Network
from understudy.foundation.zk.client import ZooKeeper
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.errors import CONFIG, KAFKA_EXCEPTION, TERSE, ToolError, UsageError, illegal_argument
from understudy.kafka_tools.names import NAMES
from understudy.kafka_tools.options import Flag, Options, parse, usage

REQUEST_TIMEOUT_MS = 30_000
API_TIMEOUT_MS = 60_000
"""`request.timeout.ms` and `default.api.timeout.ms` of Kafka's admin client."""
CLIENT_ID = "adminclient-1"
"""The client id of Kafka's admin client if its configuration gives none."""


@dataclass(frozen=True, slots=True)
class Console:
    """The output of a tool.

    Attributes:
        stamp: returns the time as in the lines of Kafka's tools, `[2024-01-31 12:00:00,000]`.
    """

    out: TextIO
    err: TextIO
    stamp: Callable[[], str]

    def print(self, text: str = "", end: str = "\n") -> None:
        self.out.write(text + end)

    def write(self, data: bytes) -> None:
        """Print bytes as they are, which need not be text."""
        buffer = getattr(self.out, "buffer", None)
        if buffer is None:
            self.out.write(data.decode("utf-8", "replace"))
        else:
            self.out.flush()
            buffer.write(data)

    def flush(self) -> None:
        """Flush the standard output and the standard error."""
        self.out.flush()
        self.err.flush()

    def error(self, text: str = "", end: str = "\n") -> None:
        self.err.write(text + end)

    def log(self, level: str, text: str, logger: str) -> None:
        """Print a line of the log on the standard error, as Kafka's tools do."""
        self.err.write(f"{self.stamp()} {level} {text} ({logger})\n")


ReadLine = Callable[[], Awaitable[bytes | None]]
ReachZooKeeper = Callable[[str], ZooKeeper]
"""Returns the ensemble at a connect string, `host:port,host:port/chroot`; raises ValueError for another string."""


async def _no_line() -> None:
    return None


def _no_zookeeper(connect: str) -> ZooKeeper:
    raise ValueError(f"{connect}: there is no ZooKeeper here")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The output, network, clock and input of a tool.

    Attributes:
        version: of this software.
        read_line: returns the next line of the standard input without its end; None after the last one.
        zookeeper: for `--zookeeper` and the shell; opening a session creates no chroot.
    """

    console: Console
    network: Network
    clock: Clock
    version: str
    read_line: ReadLine = _no_line
    zookeeper: ReachZooKeeper = _no_zookeeper

    def connect(
        self,
        options: Options,
        *,
        config: str = "command-config",
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        api_timeout_ms: int = API_TIMEOUT_MS,
    ) -> KafkaCluster:
        """Return a client of the cluster that the flags name.

        Args:
            config: the flag of the client's properties file.
            request_timeout_ms, api_timeout_ms: the timeouts if the file has none.

        Raises:
            ToolError: an address is wrong, or the file cannot be read or asks for more than plain connections.
        """
        bootstrap = options.value("bootstrap-server") or options.value("broker-list") or ""
        settings = _settings(options.value(config))
        try:
            if not bootstrap:
                raise ToolError(CONFIG, "You must set either bootstrap.servers or bootstrap.controllers")
            servers = addresses(bootstrap)
        except ToolError as error:
            raise ToolError(KAFKA_EXCEPTION, "Failed to create new KafkaAdminClient", cause=error) from None
        return KafkaCluster(
            self.network,
            servers,
            client_id=settings.get("client.id", CLIENT_ID),
            request_timeout_ms=int(settings.get("request.timeout.ms", request_timeout_ms)),
            api_timeout_ms=int(settings.get("default.api.timeout.ms", api_timeout_ms)),
        )


Run = Callable[[Options, Surroundings], Awaitable[int]]
"""Runs a tool and returns its exit code; raises ToolError and UsageError."""


class Tool(NamedTuple):
    """One tool.

    Attributes:
        name: as a verb of `understudy`.
        purpose: one sentence for the help.
        fails: prints an error that ended the tool.
    """

    name: str
    purpose: str
    flags: Sequence[Flag]
    run: Run
    fails: Callable[[ToolError, Sequence[str], Console], None]

    @property
    def kafka(self) -> str:
        """Kafka's script."""
        return NAMES[self.name][0]

    @property
    def usage(self) -> str:
        purpose = f"{self.purpose}\n\nIt has the flags, output and exit codes of {self.kafka}."
        return usage(self.name, purpose, self.flags)

    async def main(self, words: Sequence[str], surroundings: Surroundings) -> int:
        """Run one command line and return the exit code, which is 0 or 1 as with Kafka."""
        console = surroundings.console
        try:
            if not words:
                raise UsageError(self.purpose)
            options = parse(self.flags, words)
            if options.has("help"):
                console.print(self.usage, end="")
                return 0
            if options.has("version"):
                console.print(surroundings.version)
                return 0
            return await self.run(options, surroundings)
        except UsageError as error:
            console.error(f"{error}\n{self.usage}", end="")
        except ToolError as error:
            self.fails(error, words, console)
        return 1


def print_trace(error: ToolError, words: Sequence[str], console: Console) -> None:
    """Print the message and the class of an error on the standard error, as most tools do."""
    console.error(error.shown_message)
    if error.kind != TERSE:
        console.error(error.trace)


def print_uncaught(error: ToolError, words: Sequence[str], console: Console) -> None:
    """Print an error as Java prints an exception that nothing has caught."""
    console.error(f'Exception in thread "main" {error.trace}', end="")


def addresses(bootstrap: str) -> list[str]:
    """Return the `host:port` pairs; raises ToolError as Kafka's `ClientUtils` does."""
    found = [part.strip() for part in bootstrap.split(",") if part.strip()]
    for address in found:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ToolError(CONFIG, f"Invalid url in bootstrap.servers: {address}")
    if not found:
        raise ToolError(CONFIG, "No bootstrap urls given in bootstrap.servers")
    return found


def read_file(path: str) -> str:
    """Return the text of a file; raises ToolError with the path, as Java's `NoSuchFileException` has it."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ToolError("java.nio.file.NoSuchFileException", path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError("java.io.IOException", f"{path}: {error}") from None


def read_text(path: str) -> str:
    """Return the text of a file; raises ToolError as Kafka's `Utils.readFileAsString` does."""
    try:
        return read_file(path)
    except ToolError as error:
        raise ToolError("java.io.IOException", f"Unable to read file {path}", cause=error) from None


def read_properties(path: str | None) -> dict[str, str]:
    """Return the properties in a file, none without one; raises ToolError."""
    try:
        return {} if path is None else parse_properties(read_file(path))
    except MalformedProperties as error:
        raise illegal_argument(f"{path}: {error}") from None


def _settings(config: str | None) -> dict[str, str]:
    """Return the client's properties; a file that asks for security is refused, for these tools have none."""
    settings = read_properties(config)
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol != "PLAINTEXT":
        raise illegal_argument(f"security.protocol={protocol} in {config} is not supported; expected PLAINTEXT")
    for name in ("request.timeout.ms", "default.api.timeout.ms"):
        if not settings.get(name, "1").isdecimal():
            raise illegal_argument(f"{name}={settings[name]} in {config} is not a number of milliseconds")
    return settings
