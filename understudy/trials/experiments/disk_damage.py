"""Damages the files of a broker that does not run, of a process or a simulated node, through the `Disk` port."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from understudy.brokers.log.log_files import DELETE_FOLDER, LEADER_EPOCH_CHECKPOINT, LOG
from understudy.brokers.world import Disk
from understudy.trials.experiments.injecting import CannotInject

CHECKPOINTS: Final = (
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)

Damage: TypeAlias = Callable[[Disk, int], None]
"""Function that damages a disk. The number is how many bytes it damages; some functions ignore it."""


class DiskCopy(NamedTuple):
    """The files of a disk, and its folders, each after the folder that it is in."""

    folders: tuple[str, ...]
    files: Mapping[str, bytes]


def active_segments(disk: Disk) -> list[str]:
    """The path of the last segment of each log that has records.

    Raises:
        CannotInject: there is none.
    """
    found = []
    for folder in disk.list_folder(""):
        if not disk.is_folder(folder) or folder.endswith(DELETE_FOLDER):
            continue
        segments = [f"{folder}/{name}" for name in disk.list_folder(folder) if name.endswith(LOG)]
        found += [path for path in segments if disk.size(path)][-1:]
    if not found:
        raise CannotInject("the disk has no log with records")
    return found


def _corrupt(disk: Disk, count: int) -> None:
    for path in active_segments(disk):
        data = bytearray(disk.read(path) or b"")
        for place in range(max(0, len(data) - count), len(data)):
            data[place] ^= 0xFF
        disk.write(path, bytes(data))


def _shorten(disk: Disk, count: int) -> None:
    for path in active_segments(disk):
        data = disk.read(path) or b""
        disk.write(path, data[: max(0, len(data) - count)])


def _lose_checkpoints(disk: Disk, count: int) -> None:
    folders = [name for name in disk.list_folder("") if disk.is_folder(name)]
    paths = [*CHECKPOINTS, *(f"{folder}/{LEADER_EPOCH_CHECKPOINT}" for folder in folders)]
    found = [path for path in paths if disk.size(path) is not None]
    if not found:
        raise CannotInject("the disk has no checkpoint")
    for path in found:
        disk.delete(path)


def wipe(disk: Disk, count: int = 0) -> None:
    """Delete every file and folder."""
    for name in disk.list_folder(""):
        if disk.is_folder(name):
            disk.delete_folder(name)
        else:
            disk.delete(name)


def copy(disk: Disk) -> DiskCopy:
    """Read every file. Checkpoints are read before their logs, which may grow meanwhile."""
    folders: list[str] = []
    files: dict[str, bytes] = {}

    def read(folder: str) -> None:
        names = disk.list_folder(folder)
        paths = [f"{folder}/{name}" if folder else name for name in names]
        for path in sorted(paths, key=lambda each: (disk.is_folder(each), each)):
            if disk.is_folder(path):
                folders.append(path)
                read(path)
            elif (data := disk.read(path)) is not None:
                files[path] = data

    read("")
    return DiskCopy(tuple(folders), files)


def restore(disk: Disk, copied: DiskCopy) -> None:
    """Replace all files and folders by the copied ones."""
    wipe(disk)
    for folder in copied.folders:
        disk.make_folder(folder)
    for path, data in copied.files.items():
        disk.write(path, data)


DAMAGES: Final[Mapping[str, Damage]] = MappingProxyType(
    {
        "corrupt-log": _corrupt,
        "shorten-log": _shorten,
        "lose-checkpoints": _lose_checkpoints,
        "wipe-disk": wipe,
    }
)
"""Damage that an action does to the disk of a killed broker, by action."""
