"""The files of a soak in its run folder, and the lock that prevents a second soak.

RUN/soak/run.lock             locked while a soak runs; the system unlocks it when the process ends, however it ends
RUN/soak/state.json           the state with which the same command continues
RUN/soak/faults.jsonl         each verb, before it was done
RUN/soak/minutes.jsonl        each minute, with what clients have seen and what memory the processes take
RUN/soak/minute-NNN.yaml      the faults of a minute as an experiment file
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from understudy.clusters.processes.run_lock import RunLock
from understudy.trials.soak.totals import STATE_VERSION, FaultRecord, MinuteRecord, SoakTotals

FOLDER: Final = "soak"

_LINES: Final = {FaultRecord: "faults.jsonl", MinuteRecord: "minutes.jsonl"}
"""The file of each kind of record."""

R = TypeVar("R", FaultRecord, MinuteRecord)


class BadState(Exception):
    """`state.json` cannot be used. The message says why and what to do."""


class SoakFiles:
    """The files of one run folder."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER
        self.lock = RunLock(self.folder, "soak")
        """Lock that prevents other soaks until this process ends or releases it."""

    def read_totals(self) -> SoakTotals | None:
        """Return the totals of the earlier sessions; None if there were none. Raises BadState."""
        path = self.folder / "state.json"
        try:
            totals = msgspec.json.decode(path.read_bytes(), type=SoakTotals)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise BadState(f"{path} cannot be read: {error}; move {self.folder} away to begin anew") from None
        if totals.version != STATE_VERSION:
            raise BadState(
                f"{path} has version {totals.version}, and this program reads {STATE_VERSION}; "
                f"move {self.folder} away to begin anew"
            )
        return totals

    def write_totals(self, totals: SoakTotals) -> None:
        """Replace `state.json` in one step."""
        beside = self.folder / ".state.json.new"
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(totals), indent=2) + b"\n")
        beside.replace(self.folder / "state.json")

    def write_experiment(self, minute: int, text: str) -> Path:
        """Write the experiment file of a minute, and return its path."""
        path = self.folder / f"minute-{minute:03d}.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    def add(self, record: FaultRecord | MinuteRecord) -> None:
        """Append a line in one write."""
        path = self.folder / _LINES[type(record)]
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, b"\n" * is_torn + msgspec.json.encode(record) + b"\n")
        finally:
            os.close(descriptor)

    def read(self, kind: type[R]) -> Iterator[R]:
        """Yield the faults or the minutes, in order; a line that a killed soak has not finished is left out."""
        path = self.folder / _LINES[kind]
        if not path.exists():
            return
        decoder = msgspec.json.Decoder(kind)
        with path.open("rb") as file:
            for line in file:
                try:
                    yield decoder.decode(line)
                except msgspec.DecodeError:
                    continue
