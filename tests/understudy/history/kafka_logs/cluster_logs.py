"""Logs of brokers for tests: the recorded samples, and small ones from lines of Kafka's."""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from understudy.foundation.eventlog.records import Envelope, Payload
from understudy.history.kafka_logs.importer import ImportReport, LogInputs, import_logs
from understudy.history.kafka_logs.pattern import LinePattern
from understudy.history.kafka_logs.survey import EntryKind
from understudy.history.reading.reader import read

SAMPLES = Path(__file__).parent / "samples"
BROKERS = (1, 2, 3)

_LOGGERS = {
    EntryKind.CONTROLLER: "kafka.controller.KafkaController",
    EntryKind.STATE_CHANGE: "state.change.logger",
    EntryKind.SERVER: "kafka.server.KafkaServer",
}
_NAMES_LOGGER = re.compile(r" \((kafka|org)\.[\w.$]+\)$")


def unpacked(folder: Path, target: Path) -> Path:
    """Unpack the compressed files of a folder of the samples."""
    target.mkdir(parents=True)
    for packed in sorted(folder.glob("*.gz")):
        (target / packed.name.removesuffix(".gz")).write_bytes(gzip.decompress(packed.read_bytes()))
    return target


def written_log(path: Path, kind: EntryKind, lines: Sequence[str]) -> Path:
    """Write a log. A line is `SECOND LEVEL MESSAGE`, with the usual logger, or a line of a stack trace after a tab."""
    text = []
    for line in lines:
        if line.startswith("\t") or line[:1].isalpha():
            text.append(line)
            continue
        second, level, message = line.split(" ", 2)
        logger = "" if _NAMES_LOGGER.search(message) else f" ({_LOGGERS[kind]})"
        text.append(f"[2026-05-01 12:00:{second}] {level} {message}{logger}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in text))
    return path


def imported(
    tmp_path: Path, logs: Mapping[tuple[int, EntryKind], Sequence[str]]
) -> tuple[tuple[Envelope, ...], ImportReport]:
    """Import small logs; return the records in order, and the report."""
    files = [
        (broker, written_log(tmp_path / f"logs-{broker}" / kind.value, kind, lines))
        for (broker, kind), lines in logs.items()
    ]
    report = import_logs(LogInputs(files=files, pattern=LinePattern()), tmp_path / "events")
    reading = read([tmp_path / "events"])
    assert reading.findings == ()
    return reading.records, report


def payloads(records: Sequence[Envelope], kind: type[Payload]) -> list[Payload]:
    return [record.data for record in records if isinstance(record.data, kind)]


_TIME = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]", re.MULTILINE)
_FORM = "%Y-%m-%d %H:%M:%S,%f"


def with_another_clock(file: Path, moved_ms: Callable[[int], float]) -> None:
    """Rewrite the times of a log as another wall clock would have shown them, cut to whole milliseconds.

    Args:
        moved_ms: returns the other clock, in milliseconds since 1970, at a time of the log.
    """

    def moved(found: re.Match[str]) -> str:
        ms = round(datetime.strptime(found[1], _FORM).replace(tzinfo=UTC).timestamp() * 1000)
        time = datetime.fromtimestamp(math.floor(moved_ms(ms)) / 1000, UTC)
        return f"[{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03}]"

    file.write_text(_TIME.sub(moved, file.read_text()))
