"""Writes the event logs of a run with very many records: ten simulated minutes, again and again, each time later.

The simulator itself would take too long for a million records. In each repetition the nodes have later incarnations,
and the clocks and controller epochs continue, so that its decisions replace the earlier ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from understudy.foundation.eventlog.files import LogFile, log_files
from understudy.history.reading.lines import decode_header
from understudy.trials.seeds.seeds import run_seed

SEED: Final = 1
SIMULATED_S: Final = 600
_EPOCHS: Final = ("controller_epoch", "request_controller_epoch", "epoch")
_BROKER_EPOCH: Final = "broker_epoch"
_STATES: Final = ("partitions", "leaders", "followers")
_EPOCH_OF_STATE, _VALUES_OF_STATE = 6, 8
_MORE_BROKER_EPOCHS: Final = 10**9
"""More than a simulated run has transactions of ZooKeeper."""


def write_long_run(folder: Path, records: int) -> None:
    """Write the logs of one run with `records` records into a run folder: NODE/events.

    No record of it is missing if the last repetition is whole.
    """
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as simulated:
        run_seed(SEED, SIMULATED_S, events=Path(simulated))
        events = sorted(Path(simulated).glob("*/events"))
        files = [file for each in events for file in log_files(each)]
        lines = sorted(
            ((decode_header(line).mono_ms, file, line) for file in files for line in _lines(file)),
            key=itemgetter(0, 1),
        )
        more = _More(
            incarnations={file.node: file.incarnation for file in sorted(files)},
            epochs=max(decode_header(line).controller_epoch for _, _, line in lines),
        )
        written = 0
        for repetition in range(1 + records // len(lines)):
            texts: dict[Path, list[bytes]] = {}
            for _, file, line in lines[: records - written]:
                incarnation = file.incarnation + repetition * more.incarnations[file.node]
                path = folder / file.node / "events" / f"{file.node}-{incarnation:04d}-{file.file:04d}.jsonl"
                texts.setdefault(path, []).append(_later(line, repetition, incarnation, more))
                written += 1
            for path, text in texts.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"".join(text))


def _lines(file: LogFile) -> Iterator[bytes]:
    return iter(file.path.read_bytes().splitlines(keepends=True))


class _More(NamedTuple):
    """By how much numbers grow from one repetition to the next."""

    incarnations: Mapping[str, int]
    """By node."""
    epochs: int


def _later(line: bytes, repetition: int, incarnation: int, each: _More) -> bytes:
    """The line in a later repetition."""
    record: dict[str, Any] = msgspec.json.decode(line)
    record["incarnation"] = incarnation
    for clock in ("mono_ms", "wall_ms"):
        record[clock] += repetition * SIMULATED_S * 1000
    more = repetition * each.epochs
    data = record["data"]
    if record["type"] == "LogSeen":
        data["incarnation"] += repetition * each.incarnations[data["node"]]
    if data.get(_BROKER_EPOCH, -1) >= 0:
        data[_BROKER_EPOCH] += repetition * _MORE_BROKER_EPOCHS
    for holder in (record, data):
        for name in _EPOCHS:
            if holder.get(name, 0) > 0:
                holder[name] += more
    for name in _STATES:
        for state in data[name] if isinstance(data.get(name), list) else ():
            if len(state) == _VALUES_OF_STATE:
                state[_EPOCH_OF_STATE] += more
    return msgspec.json.encode(record) + b"\n"
