"""Draws docs/pictures/architecture.svg: the four folders, the rooms of brokers/ in the order of their import contract,
and the three worlds.

Plain shapes and text, so that it shows wherever the page does.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

from devtools.pages.source import ROOT

NAME = "pictures/architecture.svg"

INK, FADED, FRAME = "#1d2733", "#5b6876", "#9fb6d0"
LEFT, WIDTH, ROW, GAP = 30, 560, 27, 28

UNDERSTUDY = (
    ("cli · spark · page · trials", "the command; actions on a cluster and views of it"),
    ("clusters", "real processes, containers, virtual time"),
    ("history · checks", "event logs read; what must always hold"),
)
ROOMS = {
    "__main__": "one broker as a process",
    "machine": "sockets, files, clock, kazoo",
    "exits": "exit codes",
    "broker": "start and shutdown of the whole",
    "mbeans": "the list of all metrics",
    "network": "connections; from a frame to its handler",
    "apis": "one file per request",
    "coordinator": "who coordinates a group; producer ids",
    "replication": "partitions held here, fetching, ISR",
    "membership": "session, registration, way to the controller",
    "metadata": "what UpdateMetadata said of the cluster",
    "log": "logs of partitions",
    "world": "what a broker may ask of its surroundings",
    "config": "keys, server.properties, changes at run time",
    "metrics": "counters, gauges, the page for Prometheus",
    "supervisor": "keeps the long-lived tasks",
}
SMALL = {"__main__", "exits", "mbeans", "supervisor"}
"""Rooms that are a single small module; the picture leaves them out."""
CONTROLLER = (
    ("events, procedures", "one event at a time; state machines"),
    ("channels/", "control requests for each broker, in order"),
)
FOUNDATION = (
    ("wire · zk", "Kafka's protocol; ZooKeeper as Kafka uses it"),
    ("metrics", "meters, histograms, timers"),
    ("eventlog", "what happened, as records"),
    ("cluster", "brokers, partitions, assignments, errors"),
)
WORLDS = (
    ("processes", "kazoo, sockets, files", "#e6f0fb"),
    ("docker compose", "the same, in containers", "#e6f0fb"),
    ("simulator", "virtual time; a seed is a history", "#fdf1dc"),
)


def rooms_of_brokers() -> list[tuple[str, ...]]:
    """The layers of the import contract of brokers/, the highest first; rooms in one layer do not import each other."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract.get("containers") == ["understudy.brokers"])
    return [tuple(room.strip() for room in layer.split("|")) for layer in layers]


def page() -> str:
    rooms = [room for layer in rooms_of_brokers() for room in layer if room not in SMALL]
    brokers, world = GAP + 46 + 24 * len(UNDERSTUDY) + GAP, rooms.index("world")
    controller = brokers + 52 + ROW * len(rooms) + GAP
    foundation = controller + 46 + 24 * len(CONTROLLER) + GAP
    bottom = foundation + 46 + 24 * len(FOUNDATION)
    world_at = brokers + 40 + ROW * world + 12
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {bottom + 24}"'
            ' font-family="system-ui, sans-serif" role="img" aria-label="Four packages, one above the other;'
            ' the rooms of brokers in their order; one broker over a World, and three worlds">',
            '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
            f' orient="auto"><path d="M0 0L10 5L0 10z" fill="{INK}"/></marker></defs>',
            f'<rect width="960" height="{bottom + 24}" fill="#ffffff"/>',
            f'<g font-size="14" fill="{INK}">',
            *_package(GAP, "understudy/", "what people do with a cluster", "#fdf1dc", UNDERSTUDY),
            *_box(LEFT, brokers, WIDTH, 52 + ROW * len(rooms), "#e6f0fb"),
            *_title(brokers, "brokers/", "the process; a room imports only those below it"),
            *(line for number, room in enumerate(rooms) for line in _room(brokers + 40 + ROW * number, room)),
            *_package(controller, "controller/", "the role that one broker at a time has", "#e8f6ea", CONTROLLER),
            *_package(foundation, "foundation/", "ports and values", "#f0eef8", FOUNDATION),
            *(_arrow(310, end - GAP, 310, end - 2) for end in (brokers, controller, foundation)),
            *_worlds(world_at),
            _arrow(LEFT + WIDTH - 14, world_at, 658, world_at),
            "</g>",
            "</svg>",
            "",
        ]
    )


def _package(top: int, name: str, what: str, fill: str, rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield from _box(LEFT, top, WIDTH, 46 + 24 * len(rows), fill)
    yield from _title(top, name, what)
    for number, (label, text) in enumerate(rows):
        yield _text(LEFT + 18, top + 52 + 24 * number, label)
        yield _text(LEFT + 190, top + 52 + 24 * number, text, FADED)


def _room(top: int, room: str) -> Iterator[str]:
    yield f'<rect x="{LEFT + 14}" y="{top}" width="{WIDTH - 28}" height="23" rx="4" fill="#ffffff" stroke="{FRAME}"/>'
    yield _text(LEFT + 24, top + 16, room, weight=600)
    yield _text(LEFT + 190, top + 16, ROOMS[room], FADED)


def _worlds(at: int) -> Iterator[str]:
    yield from _box(660, at - 48, 270, 96, "#ffffff", dashed=True)
    yield _text(678, at - 20, "World", size=16, weight=700)
    yield _text(678, at + 6, "ZooKeeper · network · clock")
    yield _text(678, at + 30, "random · disk · event log")
    for number, (name, text, fill) in enumerate(WORLDS):
        top = at + 84 + 70 * number
        yield from _box(660, top, 270, 56, fill)
        yield _text(678, top + 24, name, weight=700)
        yield _text(678, top + 44, text, FADED)
    yield _arrow(795, at + 84, 795, at + 50)


def _title(top: int, name: str, what: str) -> Iterator[str]:
    yield _text(LEFT + 18, top + 26, name, size=16, weight=700)
    yield _text(LEFT + 190, top + 26, what, FADED)


def _box(x: int, y: int, width: int, height: int, fill: str, *, dashed: bool = False) -> Iterator[str]:
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    size = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    yield f'<rect {size} rx="8" fill="{fill}" stroke="{INK}" stroke-width="1.2"{dashes}/>'


def _text(x: int, y: int, text: str, fill: str = INK, *, size: int = 14, weight: int = 400) -> str:
    return f'<text x="{x}" y="{y}" fill="{fill}" font-size="{size}" font-weight="{weight}">{text}</text>'


def _arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    return f'<path d="M{x1} {y1}L{x2} {y2}" stroke="{INK}" stroke-width="1.6" fill="none" marker-end="url(#arrow)"/>'
