"""The reader reads damaged logs too: after crashes, full disks and newer software, each flaw is a named finding."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.foundation.eventlog.lines import Logs
from understudy.foundation.eventlog.records import (
    ElectionLost,
    FaultInjected,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    ResponseSent,
    StepReached,
)
from understudy.history.reading import findings, reader
from understudy.history.reading.findings import LogFinding
from understudy.history.reading.reader import read, read_lines


def steps(count: int) -> list[bytes]:
    logs = Logs()
    for number in range(1, count + 1):
        logs.at(1000.0 + number, "broker-1", StepReached(step=str(number)))
    return logs.lines["broker-1-0001-0001.jsonl"]


def names(reading: reader.RunReading) -> list[str]:
    return [record.data.step for record in reading.records if isinstance(record.data, StepReached)]


def test_a_sound_log_is_read_as_written_without_a_finding() -> None:
    logs = Logs()
    logs.at(1000.125, "broker-1", ElectionLost(winner=2), cause=7)
    reading = read_lines(logs.lines)
    (record,) = reading.records
    assert (record.run, record.node, record.incarnation, record.seq, record.cause) == ("run-1", "broker-1", 1, 1, 7)
    assert record.mono_ms == 1000.125
    assert record.data == ElectionLost(winner=2)
    assert reading.findings == ()
    assert reading.lines == 1


@pytest.mark.parametrize("kept", [1, 40, -2])
def test_a_torn_last_line_is_a_finding_and_the_rest_is_read(kept: int) -> None:
    lines = steps(3)
    lines[2] = lines[2][:kept]
    reading = read_lines({"log": lines})
    assert names(reading) == ["1", "2"]
    assert reading.findings == (LogFinding("log", 3, findings.TORN_LINE, ""),)


def test_a_last_line_without_its_newline_is_whole() -> None:
    lines = steps(2)
    reading = read_lines({"log": [lines[0], lines[1].removesuffix(b"\n")]})
    assert names(reading) == ["1", "2"]
    assert reading.findings == ()


def test_a_damaged_line_in_the_middle_is_damage_and_a_gap() -> None:
    lines = steps(4)
    lines[1] = b"\x00\xff{" + lines[1][3:]
    reading = read_lines({"log": lines})
    assert names(reading) == ["1", "3", "4"]
    assert reading.findings == (
        LogFinding("log", 2, findings.NOT_A_RECORD, ""),
        LogFinding("log", 3, findings.GAP, "broker-1 incarnation 1", 1),
    )


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"version":1}',
        b'{"version":"1"}',
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"version":1,"run":"\xff"}',
        b'{"a":' * 50_000,
    ],
)
def test_any_line_is_at_worst_a_finding(line: bytes) -> None:
    reading = read_lines({"log": [line, *steps(1)]})
    assert names(reading) == ["1"]
    assert reading.findings == (LogFinding("log", 1, findings.NOT_A_RECORD, ""),)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seq", 0),
        ("seq", 2**60),
        ("incarnation", 0),
        ("mono_ms", -1),
        ("mono_ms", 1e300),
        ("wall_ms", -0.5),
        ("node", 7),
    ],
)
def test_an_envelope_out_of_range_is_no_record(field: str, value: object) -> None:
    bad = msgspec.json.encode({**msgspec.json.decode(steps(1)[0]), field: value})
    assert read_lines({"log": [bad, b"x"]}).findings[0] == LogFinding("log", 1, findings.NOT_A_RECORD, "")


def test_records_of_newer_software_are_findings_and_leave_no_gap() -> None:
    lines = steps(5)
    lines[1] = lines[1].replace(b'"StepReached"', b'"StepBeyond"')
    lines[2] = lines[2].replace(b'"version":1', b'"version":2')
    lines[3] = lines[3].replace(b'"step":"4"', b'"step":4')
    reading = read_lines({"log": lines})
    assert names(reading) == ["1", "5"]
    assert reading.findings == (
        LogFinding("log", 2, findings.UNKNOWN_TYPE, "StepBeyond"),
        LogFinding("log", 3, findings.UNKNOWN_VERSION, "version 2"),
        LogFinding("log", 4, findings.NOT_A_RECORD, "StepReached"),
    )


def test_fields_added_later_are_ignored_and_missing_ones_get_their_default() -> None:
    line = steps(1)[0].replace(b'"note":""', b'"added_in_1_1":[1,2]')
    reading = read_lines({"log": [line]})
    assert reading.records[0].data == StepReached(step="1", note="")
    assert reading.findings == ()


def test_repeated_findings_are_counted_not_listed() -> None:
    lines = [line.replace(b'"StepReached"', b'"StepBeyond"') for line in steps(50)]
    assert read_lines({"log": lines}).findings == (LogFinding("log", 1, findings.UNKNOWN_TYPE, "StepBeyond", 50),)


def test_gaps_are_counted_also_across_files_and_at_the_start() -> None:
    lines = steps(9)
    reading = read_lines({"b-1": lines[2:4], "b-2": [lines[6], lines[8]]})
    assert reading.findings == (
        LogFinding("b-1", 1, findings.GAP, "broker-1 incarnation 1", 2),
        LogFinding("b-2", 1, findings.GAP, "broker-1 incarnation 1", 3),
    )


def test_the_first_record_of_a_repeated_sequence_number_counts() -> None:
    lines = steps(3)
    reading = read_lines({"a": lines, "b": [lines[1].replace(b'"step":"2"', b'"step":"again"')]})
    assert names(reading) == ["1", "2", "3"]
    assert reading.findings == (LogFinding("b", 1, findings.REPEAT, "broker-1 incarnation 1"),)


def test_lines_out_of_order_are_a_finding_and_all_are_used_in_the_order_of_their_numbers() -> None:
    lines = steps(9)
    reading = read_lines({"log": [lines[place] for place in (0, 1, 4, 2, 3, 5, 8, 7, 6)]})
    assert names(reading) == ["1", "2", "3", "4", "5", "6", "7", "8", "9"]
    assert reading.findings == (LogFinding("log", 4, findings.OUT_OF_ORDER, "broker-1 incarnation 1", 4),)


def test_lines_are_out_of_order_only_within_a_file() -> None:
    """Files of one incarnation that lie in several folders may be read in any order, and a copy repeats lines."""
    lines = steps(8)
    assert read_lines({"a/2": lines[4:], "b/1": lines[:4]}).findings == ()
    kinds = {finding.kind for finding in read_lines({"a": [*lines[:3], *lines[4:], *lines[:3]]}).findings}
    assert kinds == {findings.GAP, findings.REPEAT}


def test_a_clock_that_decreases_is_a_finding_and_records_keep_their_sequence() -> None:
    logs = Logs()
    for ms, step in ((1005.0, "1"), (1001.0, "2"), (1006.0, "3")):
        logs.at(ms, "broker-1", StepReached(step=step))
    reading = read_lines(logs.lines)
    assert names(reading) == ["1", "2", "3"]
    assert reading.findings == (
        LogFinding("broker-1-0001-0001.jsonl", 2, findings.CLOCK_WENT_BACK, "broker-1 incarnation 1"),
    )


def test_a_line_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.history.reading.lines.MAX_LINE_BYTES", 400)
    lines = steps(2)
    path = tmp_path / "broker-1-0001-0001.jsonl"
    path.write_bytes(lines[0] + b'"' + b"x" * 5000 + b'"\n' + lines[1])
    reading = read([tmp_path])
    assert names(reading) == ["1", "2"]
    assert reading.lines == 3
    assert reading.findings == (LogFinding(str(path), 2, findings.LINE_TOO_LONG, "more than 400 bytes"),)


def test_a_run_folder_is_searched_and_a_path_without_logs_is_a_finding(tmp_path: Path) -> None:
    events = tmp_path / "run" / "broker-1" / "events"
    events.mkdir(parents=True)
    (events / "broker-1-0001-0001.jsonl").write_bytes(b"".join(steps(2)))
    (events / "broker-1-0002-0001.jsonl").touch()
    (events / "notes.txt").write_text("not ours")
    (tmp_path / "bare").mkdir()
    reading = read([tmp_path / "run", tmp_path / "bare", tmp_path / "missing", events / "broker-1-0001-0001.jsonl"])
    assert names(reading) == ["1", "2"], "a file reached twice is read once"
    assert [(Path(finding.file).name, finding.kind, finding.what) for finding in reading.findings] == [
        ("bare", findings.NO_FILES, ""),
        ("missing", findings.NO_FILES, "no such file or folder"),
        ("broker-1-0002-0001.jsonl", findings.EMPTY_FILE, ""),
    ]


def test_a_device_a_named_pipe_and_a_socket_are_findings_and_are_not_opened(tmp_path: Path) -> None:
    """A read from a named pipe without a writer would wait for ever."""
    pipe, end = tmp_path / "broker-1-0002-0001.jsonl", tmp_path / "end"
    (tmp_path / "broker-1-0001-0001.jsonl").write_bytes(b"".join(steps(2)))
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(end))
        reading = read([tmp_path, pipe, end, Path("/dev/null")])
    assert names(reading) == ["1", "2"]
    assert [(finding.file, finding.kind, finding.what) for finding in reading.findings] == [
        ("/dev/null", findings.NO_FILES, "a device, not a file or a folder"),
        (str(pipe), findings.NO_FILES, "a named pipe, not a file"),
        (str(pipe), findings.NO_FILES, "a named pipe, not a file or a folder"),
        (str(end), findings.NO_FILES, "a socket, not a file or a folder"),
    ]


def test_a_folder_that_cannot_be_listed_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its logs would be missing without notice. The system call fails here: root may list every folder."""
    (tmp_path / "broker-1" / "events").mkdir(parents=True)
    (tmp_path / "broker-1-0001-0001.jsonl").write_bytes(b"".join(steps(2)))
    scandir = os.scandir

    def refusing(path: str) -> Iterator[os.DirEntry[str]]:
        if path.endswith("events"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", refusing)
    expected = LogFinding(str(tmp_path / "broker-1" / "events"), 0, findings.NO_FILES, "Permission denied")
    assert read([tmp_path]).findings == (expected,)


def test_records_are_ordered_by_clock_and_a_received_request_follows_the_sent_one() -> None:
    """All records have the same clock value, and the receiver's name sorts first."""
    logs = Logs()
    logs.at(1000.0, "broker-1", StepReached(step="before"))
    logs.at(1000.0, "broker-1", RequestReceived(api="LeaderAndIsr", api_version=7, client_id="2", correlation_id=4))
    logs.at(1000.0, "broker-1", ResponseSent(api="LeaderAndIsr", client_id="2", correlation_id=4))
    logs.at(1000.0, "broker-2", FaultInjected(fault="kill", target="broker-3"))
    logs.at(1000.0, "broker-2", RequestSent(to=1, api="LeaderAndIsr", api_version=7, client_id="2", correlation_id=4))
    logs.at(1000.0, "broker-2", ResponseReceived(sender=1, api="LeaderAndIsr", client_id="2", correlation_id=4))
    order = [(record.node, record.type) for record in read_lines(logs.lines).records]
    assert order == [
        ("broker-1", "StepReached"),
        ("broker-2", "FaultInjected"),
        ("broker-2", "RequestSent"),
        ("broker-1", "RequestReceived"),
        ("broker-1", "ResponseSent"),
        ("broker-2", "ResponseReceived"),
    ]


def test_a_reused_correlation_id_does_not_delay_an_earlier_received_request() -> None:
    logs = Logs()
    for ms in (1000.0, 2000.0):
        logs.at(ms, "broker-2", RequestSent(to=1, api="StopReplica", api_version=3, client_id="2", correlation_id=0))
        logs.at(ms + 1, "broker-1", RequestReceived(api="StopReplica", api_version=3, client_id="2", correlation_id=0))
    assert [record.mono_ms for record in read_lines(logs.lines).records] == [1000.0, 1001.0, 2000.0, 2001.0]


def test_clocks_that_contradict_each_other_do_not_stop_the_reading() -> None:
    """Two nodes received each other's message before they sent their own, which is impossible; all records are read."""
    logs = Logs()
    for ms, node, other in ((1000.0, "broker-1", 2), (1001.0, "broker-2", 1)):
        logs.at(ms, node, RequestReceived(api="A", api_version=0, client_id=f"{other}", correlation_id=0))
        logs.at(ms, node, RequestSent(to=other, api="A", api_version=0, client_id=node[-1], correlation_id=0))
    assert len(read_lines(logs.lines).records) == 4
