"""Writes the event logs of a run with very many records: ten simulated minutes, again and again, each time later.

The simulator itself would take too long for a million records. In each repetition the nodes have later incarnations,
and the clocks and controller epochs continue, so that its decisions replace the earlier ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from understudy.foundation.eventlog.files import LogFile, log_files
from understudy.history.reading.lines import decode_header
from understudy.trials.seeds.seeds import run_seed

SEED: Final = 1
SIMULATED_S: Final = 600
_EPOCHS: Final = ("controller_epoch", "request_controller_epoch", "epoch")
_STATES: Final = ("partitions", "leaders", "followers")
_EPOCH_OF_STATE, _VALUES_OF_STATE = 6, 8
_MORE_EPOCHS: Final = 10_000
"""More than a simulated run has controllers."""


def write_long_run(folder: Path, records: int) -> None:
    """Write the logs of one run with `records` records into a run folder: NODE/events."""
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as simulated:
        run_seed(SEED, SIMULATED_S, events=Path(simulated))
        events = sorted(Path(simulated).glob("*/events"))
        files = [file for each in events for file in log_files(each)]
        lines = sorted((decode_header(line).mono_ms, file, line) for file in files for line in _lines(file))
        incarnations = max(file.incarnation for file in files)
        written = 0
        for repetition in range(1 + records // len(lines)):
            texts: dict[Path, list[bytes]] = {}
            for _, file, line in lines[: records - written]:
                incarnation = file.incarnation + repetition * incarnations
                path = folder / file.node / "events" / f"{file.node}-{incarnation:04d}-{file.file:04d}.jsonl"
                texts.setdefault(path, []).append(_later(line, repetition, incarnation))
                written += 1
            for path, text in texts.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"".join(text))


def _lines(file: LogFile) -> Iterator[bytes]:
    return iter(file.path.read_bytes().splitlines(keepends=True))


def _later(line: bytes, repetition: int, incarnation: int) -> bytes:
    """The line in a later repetition."""
    record: dict[str, Any] = msgspec.json.decode(line)
    record["incarnation"] = incarnation
    for clock in ("mono_ms", "wall_ms"):
        record[clock] += repetition * SIMULATED_S * 1000
    more = repetition * _MORE_EPOCHS
    data = record["data"]
    for holder in (record, data):
        for name in _EPOCHS:
            if holder.get(name, 0) > 0:
                holder[name] += more
    for name in _STATES:
        for state in data[name] if isinstance(data.get(name), list) else ():
            if len(state) == _VALUES_OF_STATE:
                state[_EPOCH_OF_STATE] += more
    return msgspec.json.encode(record) + b"\n"
