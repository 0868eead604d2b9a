"""The one program of the image: it runs what its name or its first argument says.

Under its own name, `understudy-image`, it is the entry point of the image. Under the name of one of Kafka's scripts it
is that script.
"""

from __future__ import annotations

import base64
import os
import signal
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from understudy.cli.image import names

RUN: Final = "run"
CONFIGURE: Final = "configure"
_RUNS: Final = frozenset({"", RUN, "start", "kafka", "zookeeper", CONFIGURE})
_KAFKA: Final = "kafka"
_ZOOKEEPER: Final = "zookeeper"
_BAD_USAGE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program that `arguments` name, the first of them by its file name; return its exit code."""
    path, *words = sys.argv if arguments is None else arguments
    name = Path(path).name.removesuffix(".sh")
    if verb := names.TOOL_SCRIPTS.get(name):
        return _understudy([verb, *words])
    if server := names.SERVERS.get(name):
        return _serve(server, words)
    match name:
        case "cub" | "ub":
            from understudy.cli.image.cub import main as cub  # noqa: PLC0415  the scripts of Kafka's tools do not need it

            return cub(words)
        case "nc":
            from understudy.cli.image.netcat import main as netcat  # noqa: PLC0415  the scripts of Kafka's tools do not need it

            return netcat(words)
        case "kafka-run-class":
            return _run_class(words)
        case "kafka-storage":
            return _storage(words)
        case "kafka-server-stop" | "zookeeper-server-stop":
            os.kill(1, signal.SIGTERM)
            return 0
        case "zkServer":
            return _zookeeper_server(words)
        case "zkCli":
            server = words[1] if words[:1] == ["-server"] and len(words) > 1 else f"localhost:{_zookeeper_port()}"
            return _understudy(["zookeeper-shell", server, *(words[2:] if words[:1] == ["-server"] else words)])
        case _:
            return _entry_point(words)


def _entry_point(words: Sequence[str]) -> int:
    """Run a container, a verb of `understudy`, or any other command."""
    first, *rest = words or [""]
    if first in _RUNS and not (first == "start" and rest) and not (first == _ZOOKEEPER and "--dir" in rest):
        if first == CONFIGURE:
            return _check()
        return _serve(_ZOOKEEPER if first == _ZOOKEEPER else _KAFKA, rest)
    from understudy.cli.overview import VERBS  # noqa: PLC0415  the scripts of Kafka's tools do not need it

    if first in VERBS or first.startswith("-"):
        return _understudy(words)
    if first == "understudy":
        return _understudy(rest)
    try:
        os.execvp(first, list(words))
    except OSError as error:
        print(f"understudy: {first}: {error.strerror}; expected a verb of understudy or a command", file=sys.stderr)
        return 127


def _understudy(words: Sequence[str]) -> int:
    from understudy.cli.main import main as understudy  # noqa: PLC0415  it is slower to import than this module

    return understudy(words)


def _serve(server: str, words: Sequence[str]) -> int:
    from understudy.cli.image.__main__ import main as image  # noqa: PLC0415  the scripts of Kafka's tools do not need it

    return image([server, *words])


def _check() -> int:
    from understudy.cli.image.__main__ import check  # noqa: PLC0415  the scripts of Kafka's tools do not need it

    return check()


def _zookeeper_server(words: Sequence[str]) -> int:
    """Answer ZooKeeper's `zkServer.sh`: start a server, say whether it serves, or end it."""
    match words:
        case ["start" | "start-foreground", *file]:
            return _serve(_ZOOKEEPER, file)
        case ["status", *_]:
            return _understudy(["health", "--zookeeper", f"localhost:{_zookeeper_port()}"])
        case ["stop", *_]:
            os.kill(1, signal.SIGTERM)
            return 0
    print("usage: zkServer.sh {start | start-foreground | status | stop} [FILE]", file=sys.stderr)
    return _BAD_USAGE


def _zookeeper_port() -> str:
    return os.environ.get("ZOOKEEPER_CLIENT_PORT") or os.environ.get("ZOO_PORT_NUMBER") or "2181"


def _run_class(words: Sequence[str]) -> int:
    verb = names.CLASSES.get(words[0]) if words else None
    if verb is None:
        print(
            f"kafka-run-class: {words[0] if words else '(no class)'} is not here, as nothing in this image is Java; "
            f"expected one of {', '.join(sorted(names.CLASSES))}",
            file=sys.stderr,
        )
        return 1
    return _understudy([verb, *words[1:]])


def _storage(words: Sequence[str]) -> int:
    """Answer `kafka-storage`: a new id for `random-uuid`; a broker in ZooKeeper mode needs no other preparation."""
    if words[:1] == ["random-uuid"]:
        print(base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))
    elif words[:1] == ["format"]:
        print("understudy: brokers run in ZooKeeper mode, in which no storage is formatted")
    else:
        print("usage: kafka-storage {random-uuid | format}", file=sys.stderr)
        return _BAD_USAGE
    return 0
