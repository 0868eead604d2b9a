"""Keeps the runs of a lesson in one compressed file, so that a class needs no cluster, and unpacks them again.

A side that is not simulated exists only there. It comes from the folder of a run, for example of `understudy sweep`.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from understudy.history.writing import counted
from understudy.trials.lessons.document import ONE, OTHER, Lesson
from understudy.trials.lessons.side_run import FACTS, RECORDED, SIMULATED, TABLE, SideRun, read_side

META: Final = "lesson.json"
_VERSION_OF_SOFTWARE: Final = b'"type":"RunDescribed"'
_EVENTS: Final = "events"


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """The description of an archive, which the archive contains.

    Attributes:
        content: SHA-256 of its event logs, without the record that names the version of the software.
    """

    lesson: str
    seed: int
    content: str


class BadRecording(Exception):
    """A recorded lesson cannot be read. The message names the file."""


def content_hash(folder: Path) -> str:
    """Return the SHA-256 of the event logs and numbers of a lesson's runs. It is the same for every version of
    Understudy that runs them in the same way."""
    digest = hashlib.sha256()
    for path in _files(folder):
        digest.update(f"{path.relative_to(folder).as_posix()}\n".encode())
        lines = path.read_bytes().splitlines()
        digest.update(b"\n".join(line for line in lines if _VERSION_OF_SOFTWARE not in line))
    return digest.hexdigest()


def pack(lesson: Lesson, folder: Path, archive: Path) -> None:
    """Write the runs below a folder, `one` and `other`, to an archive. Raises OSError."""
    meta = Recording(lesson=lesson.name, seed=lesson.seed, content=content_hash(folder))
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz", preset=9) as opened:
        _add(opened, META, msgspec.json.encode(meta))
        for path in _files(folder):
            _add(opened, path.relative_to(folder).as_posix(), path.read_bytes())


def unpack(lesson: Lesson, archive: Path, folder: Path) -> tuple[SideRun, SideRun]:
    """Unpack an archive, and read the runs in it.

    Raises:
        BadRecording: there is none, or it is damaged.
        OSError: the folder cannot be written.
    """
    _extract(archive, folder, (ONE, OTHER), "there is no recording of this lesson; run it with --simulated")
    one = read_side(lesson.called, SIMULATED, folder / ONE)
    other = read_side(lesson.other.called, RECORDED if lesson.other.recording else SIMULATED, folder / OTHER)
    return one, other


def unpack_other(lesson: Lesson, archive: Path, folder: Path) -> SideRun:
    """Unpack the recording of the second side of a lesson, and read it. Errors are as in `unpack`."""
    remedy = (
        f"there is no recording of {lesson.other.called!r}, and this side is not simulated; make a run with "
        f"`{lesson.other.recording}`, and keep it with `understudy lesson {lesson.name} --record --other RUN`"
    )
    _extract(archive, folder, (OTHER,), remedy)
    return read_side(lesson.other.called, RECORDED, folder / OTHER)


def take_other(lesson: Lesson, source: Path, folder: Path) -> SideRun:
    """Copy the event logs of a run as the second side of a lesson, and read it.

    Raises:
        BadRecording: the folder has no event logs, or event logs of several runs.
        LessonNotShown, OSError: as `read_side`.
    """
    made = f"make a run with `{lesson.other.recording}`, and give its folder"
    logs = sorted((source / _EVENTS if (source / _EVENTS).is_dir() else source).glob("*.jsonl"))
    if not logs:
        raise BadRecording(f"{source}: it has no event logs; {made}")
    events = folder / OTHER / _EVENTS
    events.mkdir(parents=True)
    for log in logs:
        shutil.copy(log, events)
    (folder / OTHER / FACTS).write_bytes(b"{}")
    run = read_side(lesson.other.called, RECORDED, folder / OTHER)
    if len(names := {each.run for each in run.records}) != 1:
        raise BadRecording(f"{source}: it has the event logs of {counted(len(names), 'run')}; {made}")
    return run


def _extract(archive: Path, folder: Path, sides: tuple[str, ...], missing: str) -> None:
    """Extract the files of some sides. Raises BadRecording, with the text `missing` if the archive is."""
    try:
        with tarfile.open(archive, "r:xz") as opened:
            members = [each for each in opened.getmembers() if each.name.partition("/")[0] in sides]
            opened.extractall(folder, members, filter="data")
    except FileNotFoundError:
        raise BadRecording(f"{archive}: {missing}") from None
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise BadRecording(f"{archive}: it is damaged ({error}); install Understudy again") from None
    if found := [side for side in sides if not (folder / side).is_dir()]:
        raise BadRecording(f"{archive}: it has no run of the side {found[0]}: {missing}")


def described(archive: Path) -> Recording:
    """Read the description in an archive. Raises OSError and BadRecording."""
    with tarfile.open(archive, "r:xz") as opened:
        member = opened.extractfile(META)
        if member is None:
            raise BadRecording(f"{archive}: it has no {META}")
        return msgspec.json.decode(member.read(), type=Recording)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the event logs and the numbers of both sides, in the order of their names."""
    for side in (ONE, OTHER):
        paths = sorted((folder / side).rglob("*"))
        yield from (path for path in paths if path.suffix == ".jsonl" or path.name in (FACTS, TABLE))


def _add(opened: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    opened.addfile(member, io.BytesIO(content))
