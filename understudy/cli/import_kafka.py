"""`understudy import-kafka`: turn the logs of an Apache Kafka cluster, in ZooKeeper mode or KRaft, into event logs."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from understudy.cli.arguments import BadInput, Failed, accept_old_words, count, reported_as
from understudy.history.kafka_logs.entries import files_of_broker
from understudy.history.kafka_logs.importer import ImportReport, LogInputs, import_logs
from understudy.history.kafka_logs.pattern import DEFAULT_PATTERN, LinePattern, WrongPattern, parse_zone
from understudy.history.kafka_logs.wrapping import LogError
from understudy.history.kraft_logs.importer import MetadataReport, import_metadata
from understudy.history.reading.missing import MissingRecords
from understudy.history.writing import counted

_CLOCKS = "wall clocks: the time added to each for the time of the run, and by how much it may be wrong"
SHOWN_CLASSES = 10
"""Number of classes of lines not understood that are listed; `--verbose` lists all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log",
        "--controller-log",
        "--state-change-log",
        "--server-log",
        dest="logs",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="a log of any brokers: a file of Kafka's, or the output of docker compose logs, docker logs or kubectl "
        "logs, or Docker's JSON files; rotated and compressed files too; its lines name the broker",
    )
    parser.add_argument(
        "--broker",
        type=_broker_folder,
        action="append",
        default=[],
        metavar="ID=DIR",
        help="a folder with the logs of one broker, under the names that Kafka or Docker gives them",
    )
    parser.add_argument(
        "--metadata-log",
        type=_metadata_folder,
        nargs="+",
        action="extend",
        default=[],
        metavar="[NODE=]DIR",
        help="of a KRaft cluster: a node's folder __cluster_metadata-0, or the log directory that contains it",
    )
    parser.add_argument(
        "--broker-session-timeout",
        type=count,
        metavar="MS",
        help="broker.session.timeout.ms of a KRaft cluster's controllers, if no server.log of them is given",
    )
    parser.add_argument("--zookeeper-log", type=Path, metavar="DIR", help="ZooKeeper's folder version-2")
    parser.add_argument(
        "--zookeeper-chroot", default="", metavar="PATH", help="the chroot in zookeeper.connect, for example /kafka"
    )
    parser.add_argument(
        "--pattern", metavar="PATTERN", help="log4j's ConversionPattern of the logs (default [%%d] %%p %%m (%%c)%%n)"
    )
    parser.add_argument("--timezone", default="UTC", metavar="ZONE", help="the zone of the lines' times")
    parser.add_argument(
        "--one-clock",
        action="store_true",
        help="all logs are from one machine: take their times as they are, without ±",
    )
    parser.add_argument("--run", dest="run_id", default="", metavar="NAME", help="the run id (default the first time)")
    folder = parser.add_argument(
        "--dir", type=Path, required=True, metavar="DIR", help="a new folder for the event logs"
    )
    accept_old_words(parser, folder, "--output")
    parser.add_argument("--verbose", action="store_true", help="show samples of lines that were not understood")


@reported_as(BadInput, LogError, WrongPattern)
def run(options: argparse.Namespace) -> int:
    """Import the logs and print what was imported. Raises `BadInput` if one cannot be imported."""
    if options.metadata_log:
        _check_metadata_alone(options)
    _claim_folder(options.dir)
    try:
        lines = _import_metadata(options) if options.metadata_log else _import_logs(options)
    except OSError as error:
        raise Failed(f"--dir {options.dir}: {error.strerror}") from None
    print("\n".join(lines))
    print(f"event logs in {options.dir}; next: understudy replay {options.dir}")
    return 0


def _import_logs(options: argparse.Namespace) -> list[str]:
    inputs = LogInputs(
        files=_files(options),
        pattern=_pattern(options),
        zookeeper_log=options.zookeeper_log,
        chroot=options.zookeeper_chroot.rstrip("/"),
        has_one_clock=options.one_clock,
    )
    if not inputs.files and inputs.zookeeper_log is None:
        raise BadInput("no log is named; give --log, --broker or --zookeeper-log, or --metadata-log of a KRaft cluster")
    return describe(import_logs(inputs, options.dir, run=options.run_id), verbose=options.verbose)


def _import_metadata(options: argparse.Namespace) -> list[str]:
    report = import_metadata(
        options.metadata_log,
        options.dir,
        run=options.run_id,
        lines=_files(options),
        pattern=_pattern(options),
        session_timeout_ms=options.broker_session_timeout,
    )
    return describe_metadata(report)


def _pattern(options: argparse.Namespace) -> LinePattern:
    """Return what reads the lines. Raises WrongPattern."""
    return LinePattern(options.pattern or DEFAULT_PATTERN, zone=parse_zone(options.timezone))


def _check_metadata_alone(options: argparse.Namespace) -> None:
    """Raises BadInput if ZooKeeper is named beside the log of a KRaft quorum."""
    others = {"--zookeeper-log": options.zookeeper_log, "--zookeeper-chroot": options.zookeeper_chroot}
    if given := [name for name, value in others.items() if value]:
        raise BadInput(
            f"--metadata-log is of a KRaft cluster and {given[0]} of one in ZooKeeper mode; import each for itself"
        )


def describe(report: ImportReport, *, verbose: bool = False) -> list[str]:
    """Return the lines that `understudy import-kafka` prints."""
    brokers = f"broker{'' if len(report.brokers) == 1 else 's'} {', '.join(map(str, report.brokers)) or 'none'}"
    lines = [
        f"run {report.run}, {brokers}: {counted(report.lines, 'line')} and "
        f"{counted(report.transactions, 'transaction')} became {counted(sum(report.records.values()), 'record')}"
    ]
    lines += _counts("", report.records)
    lines += _counts("left out:", report.left_out)
    known = sum(report.without_record.values())
    lines.append(f"entries: {report.understood:,} understood, {known:,} known to add nothing")
    if report.not_understood:
        lines.append(f"entries not understood: {sum(report.not_understood.values()):,}, by class")
        classes = report.not_understood.most_common()
        shown = classes if verbose else classes[:SHOWN_CLASSES]
        for name, count in shown:
            lines.append(f"  {count:>9,}  {name}")
            lines += [f"             {sample}" for sample in report.samples.get(name, ()) if verbose]
        if len(classes) > len(shown):
            lines.append(f"             … and {len(classes) - len(shown)} more classes; --verbose lists them")
    if report.clocks.clocks:
        lines.append(_CLOCKS)
        lines += [f"  {clock}" for clock in report.clocks.clocks]
    return [*lines, *_remarks(report.missing, report.notes)]


def describe_metadata(report: MetadataReport) -> list[str]:
    """Return the lines that `understudy import-kafka` prints about a KRaft cluster."""
    levels = ", ".join(f"{name} {level}" for name, level in report.features.items())
    lines = [
        f"run {report.run}, {', '.join(report.nodes)}: {counted(report.metadata_records, 'metadata record')} in "
        f"{report.batches:,} batches became {counted(sum(report.records.values()), 'record')}",
        *_counts("", report.records),
        *_counts("left out:", report.left_out),
        *_counts("metadata records known to add nothing:", report.without_record),
    ]
    not_decoded = Counter({f"{name}: {why}": count for (name, why), count in report.not_decoded.items()})
    lines += _counts("metadata records not decoded:", not_decoded)
    if report.lines:
        lines.append(f"entries: {report.understood:,} of {report.lines:,} understood")
    if levels:
        lines.append(f"features: {levels}")
    return [*lines, *_remarks(report.missing, report.notes)]


def _counts(title: str, counts: Counter[str]) -> list[str]:
    found = [f"  {count:>9,}  {name}" for name, count in sorted(counts.items())]
    return [title, *found] if title and found else found


def _remarks(missing: Iterable[MissingRecords], notes: Iterable[str]) -> list[str]:
    return [*map(str, missing), *(f"note: {note}" for note in notes)]


def _files(options: argparse.Namespace) -> list[tuple[int | None, Path]]:
    """Return the named log files. Raises LogError."""
    in_folders = ((broker, path) for broker, folder in options.broker for path in files_of_broker(folder))
    return [*((None, path) for path in options.logs), *in_folders]


def _broker_folder(text: str) -> tuple[int, Path]:
    """Parse `ID=DIR`."""
    broker, equals, folder = text.partition("=")
    if not equals or not broker.isdecimal() or not folder:
        raise argparse.ArgumentTypeError(f"{text!r} is not ID=DIR, for example 1=/var/log/kafka")
    return int(broker), Path(folder)


def _metadata_folder(text: str) -> tuple[str, Path]:
    """Parse `NODE=DIR`, or `DIR` alone, which then has an empty name."""
    node, equals, folder = text.partition("=")
    if not equals or Path(text).exists() or not re.fullmatch(r"[\w.-]+", node):
        return "", Path(text)
    if not folder:
        raise argparse.ArgumentTypeError(f"{text!r} is not NODE=DIR, for example 1=/var/lib/kafka/__cluster_metadata-0")
    return f"node {node}" if node.isdecimal() else node, Path(folder)


def _claim_folder(folder: Path) -> None:
    """Create the folder for the event logs. Raises BadInput if it cannot be written or is not empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        other = next(iter(sorted(folder.iterdir())), None)
    except OSError as error:
        raise BadInput(f"--dir {folder}: {error.strerror}; give a folder that can be written") from None
    if other is not None:
        raise BadInput(f"--dir {folder}: it holds {other.name}; give a new folder")
