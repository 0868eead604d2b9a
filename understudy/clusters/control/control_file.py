"""RUN/control.json: the address of a cluster's control port and its token, readable only by its user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from understudy.clusters.processes.run_folder import ProcessEntry

CONTROL_FILE: Final = "control.json"
CONTROL_FILE_VERSION: Final = 1


class NoControlPort(Exception):
    """A folder has no control port that can be called. The message names the folder, the reason and what to do."""


class ControlEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `control.json`."""

    version: int
    host: str
    port: int
    token: str
    owner: ProcessEntry
    """The process of `understudy up`."""

    @property
    def address(self) -> str:
        """`host:port`, with an IPv6 address in brackets: the value of the header Host."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def write_control_file(folder: Path, entry: ControlEntry) -> None:
    """Replace `control.json` in one step. Other users can never read it."""
    beside = folder / f".{CONTROL_FILE}.new"
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(entry), indent=2) + b"\n")
    beside.replace(folder / CONTROL_FILE)


def read_control_file(folder: Path) -> ControlEntry:
    """Read the `control.json` in `folder`.

    Raises:
        NoControlPort: there is no such file, it cannot be read, or the cluster has ended.
    """
    path = folder / CONTROL_FILE
    try:
        entry = msgspec.json.decode(path.read_bytes(), type=ControlEntry)
    except FileNotFoundError:
        raise NoControlPort(
            f"{folder} has no {CONTROL_FILE}: give the run folder of a cluster that `understudy up` runs now"
        ) from None
    except OSError as error:
        raise NoControlPort(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise NoControlPort(f"{path} cannot be read: {error}") from None
    if entry.version != CONTROL_FILE_VERSION:
        raise NoControlPort(
            f"{path} has version {entry.version}, and this program reads {CONTROL_FILE_VERSION}; "
            "use the version of understudy that wrote it"
        )
    if not entry.owner.is_running:
        raise NoControlPort(f"the cluster of {folder} has ended")
    return entry
