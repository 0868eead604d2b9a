"""Event logs with every kind of damage that one line or file can have, for tests of what reads lines."""

from __future__ import annotations

from pathlib import Path

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import killed_controller


def write(logs: Logs, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in logs.lines.items():
        (folder / name).write_bytes(b"".join(lines))
    return folder


def write_damaged(folder: Path) -> Path:
    """Write the run of a killed controller, with the log of broker 2 damaged, and two more files."""
    write(killed_controller(), folder)
    log = folder / "broker-2-0001-0001.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lines[3] = b"\x00\xff" + lines[3]
    lines[4] = b"\n"
    lines[5] = lines[5].replace(b'"version":1', b'"version":2')
    lines[6] = lines[6].replace(b'"type":"', b'"type":"Newer')
    lines[7] = lines[7].replace(b'"data":{', b'"data":{"unknown":[1,{"a":"}"}],')
    lines[8] = lines[8].replace(b'"data":{', b'"missing":{').replace(b"}}", b'},"data":{}}')
    lines[9] = lines[9].replace(b'"seq":', b'"seq":-')
    lines.insert(10, lines[2])
    lines.insert(11, b'{"version":1,"run":"\xff"}\n')
    lines.insert(12, b'{"a":' * 5000 + b"\n")
    lines.insert(13, lines[2].rstrip() + b" trailing\n")
    log.write_bytes(b"".join(lines)[:-20])
    (folder / "broker-3-0009-0001.jsonl").touch()
    (folder / "broker-3-0010-0001.jsonl").write_bytes(b"not a log at all\n\xff")
    return folder
