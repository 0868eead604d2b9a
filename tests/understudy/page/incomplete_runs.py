"""Runs for tests of the page: records of one are missing, and the brokers of the other read two clocks."""

from __future__ import annotations

import json
from pathlib import Path

from tests.foundation.eventlog.stories import killed_controller

BOOTS = {"broker-1": "boot-a", "broker-2": "boot-b", "broker-3": "boot-a", "testbed": "boot-a"}
AHEAD_MS = 5_000_000.0
"""By how much the monotonic clock of `boot-b` is ahead of the other one."""


def without_controller() -> dict[str, list[bytes]]:
    """The run of `killed_controller` without the log of broker 2, which is the second controller."""
    return {name: lines for name, lines in killed_controller().lines.items() if not name.startswith("broker-2")}


def on_two_clocks() -> dict[str, list[bytes]]:
    """The run of `killed_controller`, whose broker 2 is on a machine of its own."""
    return {name: [_moved(line) for line in lines] for name, lines in killed_controller().lines.items()}


def _moved(line: bytes) -> bytes:
    record = json.loads(line)
    boot = BOOTS[record["node"]]
    if boot == "boot-b":
        record["mono_ms"] += AHEAD_MS
    if record["type"] == "ProcessStarted":
        record["data"] |= {"machine": f"host of {boot}", "boot": boot}
    return json.dumps(record).encode() + b"\n"


def write(lines: dict[str, list[bytes]], folder: Path) -> Path:
    """Write the logs into one folder, and return it."""
    folder.mkdir(exist_ok=True)
    for name, own in lines.items():
        (folder / name).write_bytes(b"".join(own))
    return folder


def write_run(lines: dict[str, list[bytes]], folder: Path) -> Path:
    """Write the logs as a run folder, NODE/events, and return it."""
    for name, own in lines.items():
        events = folder / name.rsplit("-", 2)[0] / "events"
        events.mkdir(parents=True, exist_ok=True)
        (events / name).write_bytes(b"".join(own))
    return folder
