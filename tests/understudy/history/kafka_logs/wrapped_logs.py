"""Writes lines as Docker, Docker Compose and kubectl print or keep them; `tests/compose` compares it with an engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Final, TypeAlias

PIECE: Final = 16 * 1024
TIME: Final = "2026-05-01T12:00:00.123456789Z"
COLOURS: Final = ("\x1b[36m", "\x1b[33m", "\x1b[32m")

Lines: TypeAlias = Sequence[str]
Containers: TypeAlias = Mapping[str, Lines]
"""The lines of each container, by its name."""
Interleave: TypeAlias = Callable[[Containers], Iterable[tuple[str, str]]]


def pieces(line: str) -> list[str]:
    """Cut a line as the engine does, after each 16 KiB; only ASCII characters are in such lines here."""
    return [line[start : start + PIECE] for start in range(0, len(line), PIECE)] or [""]


def timed(line: str) -> str:
    """A line with the engine's time before each piece of it, as `docker logs -t` prints it."""
    return "".join(f"{TIME} {piece}" for piece in pieces(line))


def in_turns(containers: Containers) -> Iterable[tuple[str, str]]:
    """The lines of all containers, one of each in turn."""
    for turn in zip_longest(*containers.values()):
        for name, line in zip(containers, turn, strict=True):
            if line is not None:
                yield name, line


# -- one file for each container


def plain(lines: Lines) -> str:
    return "".join(f"{line}\n" for line in lines)


def docker_logs_t(lines: Lines) -> str:
    return "".join(f"{timed(line)}\n" for line in lines)


def kubectl_timestamps(lines: Lines) -> str:
    """`kubectl logs --timestamps` has one time before each line, however long it is."""
    return "".join(f"{TIME} {line}\n" for line in lines)


def json_file(lines: Lines) -> str:
    """Docker's `json-file` log driver: an object for each piece, the last of a line with its end."""
    text = []
    for line in lines:
        *cut, last = pieces(line)
        text += [json.dumps({"log": log, "stream": "stdout", "time": TIME}) for log in (*cut, f"{last}\n")]
    return plain(text)


def terminal(lines: Lines) -> str:
    """`docker logs` of a container with a terminal."""
    return "".join(f"{line}\r\n" for line in lines)


FILES: Final[Mapping[str, Callable[[Lines], str]]] = {
    "plain": plain,
    "docker logs -t": docker_logs_t,
    "kubectl logs --timestamps": kubectl_timestamps,
    "Docker's JSON file": json_file,
    "terminal": terminal,
}
"""Forms of a file with the lines of one container."""


# -- one file for all containers


def compose_v1(containers: Containers, interleave: Interleave = in_turns) -> str:
    """`docker-compose logs` of version 1 on a terminal: the colour ends before the blank."""
    names = {name: name.replace("-", "_") for name in containers}
    width = max(map(len, names.values()))
    colours = dict(zip(containers, COLOURS, strict=False))
    return "".join(f"{colours[name]}{names[name]:<{width}} |\x1b[0m {line}\n" for name, line in interleave(containers))


def compose(containers: Containers, interleave: Interleave = in_turns) -> str:
    width = max(map(len, containers))
    return "".join(f"{name:<{width}}  | {line}\n" for name, line in interleave(containers))


def compose_coloured(containers: Containers, interleave: Interleave = in_turns) -> str:
    width = max(map(len, containers))
    colours = dict(zip(containers, COLOURS, strict=False))
    return "".join(f"{colours[name]}{name:<{width}}  | \x1b[0m{line}\n" for name, line in interleave(containers))


def compose_t(containers: Containers, interleave: Interleave = in_turns) -> str:
    width = max(map(len, containers))
    return "".join(f"{name:<{width}}  | {timed(line)}\n" for name, line in interleave(containers))


def compose_up(containers: Containers, interleave: Interleave = in_turns) -> str:
    """`docker compose up`: the lines of its own are without a name."""
    names = ", ".join(containers)
    ends = "".join(f"{name} exited with code 137\n" for name in containers)
    return f"Attaching to {names}\n{compose(containers, interleave)}{ends}"


def kubectl_prefix(containers: Containers, interleave: Interleave = in_turns) -> str:
    return "".join(f"[pod/{name}/kafka] {line}\n" for name, line in interleave(containers))


def kubectl_prefix_timestamps(containers: Containers, interleave: Interleave = in_turns) -> str:
    return "".join(f"[pod/{name}/kafka] {TIME} {line}\n" for name, line in interleave(containers))


SHARED_FILES: Final[Mapping[str, Callable[[Containers, Interleave], str]]] = {
    "docker-compose logs, version 1": compose_v1,
    "docker compose logs": compose,
    "docker compose logs, coloured": compose_coloured,
    "docker compose logs -t": compose_t,
    "docker compose up": compose_up,
    "kubectl logs --prefix": kubectl_prefix,
    "kubectl logs --prefix --timestamps": kubectl_prefix_timestamps,
}
"""Forms of a file with the lines of several containers."""
