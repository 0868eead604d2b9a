"""Measures the replay of a run whose brokers ran on several machines, beside the same run on one clock.

Its records are failovers of the controller in the simulator, one after the other. UNDERSTUDY_BENCH_FAILOVERS (60) sets
how many.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.rows import Row
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.eventlog.records import Envelope, ProcessStarted
from understudy.history.reading.lines import decode_record

FAILOVERS = int(os.environ.get("UNDERSTUDY_BENCH_FAILOVERS", "60"))
_ROUNDS = 5
_COMMAND = [sys.executable, "-m", "understudy.cli.main", "replay", "--engine", "python"]
_ORIGINS_MS = 1_000_000_000
_DRIFTS = 0.0001


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        one, several = Path(folder, "one"), Path(folder, "several")
        records = _failovers()
        _write(one, records, has_several=False)
        _write(several, records, has_several=True)
        seconds: dict[Path, list[float]] = {one: [], several: []}
        for _ in range(_ROUNDS):
            for logs, found in seconds.items():
                found.append(_processor_seconds([*_COMMAND, str(logs)]))
    name = f"{len(records):,} records of five machines to the logs of one, processor seconds"
    return [Row(name, statistics.median(seconds[several]), statistics.median(seconds[one]), 1.3)]


def _processor_seconds(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _failovers() -> list[Envelope]:
    with SimulatedCluster(seed=1, brokers=5) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=50, replication_factor=3)
        for _ in range(FAILOVERS):
            controller = cluster.controller()
            controller.kill()
            cluster.run_for(8.0)
            controller.start()
            cluster.settle()
    return [decode_record(line) for line in cluster.log_lines]


def _write(folder: Path, records: Sequence[Envelope], *, has_several: bool) -> None:
    """Write the event logs; with several clocks each node has an origin, a drift and a boot of its own."""
    encoder = msgspec.json.Encoder()
    numbers = {node: number for number, node in enumerate(sorted({record.node for record in records}))}
    have_start = {(record.node, record.incarnation) for record in records if isinstance(record.data, ProcessStarted)}
    logs: dict[tuple[str, int], list[bytes]] = {}
    for record in sorted(records, key=lambda record: (record.node, record.incarnation, record.seq)):
        number = numbers[record.node] if has_several else 0
        name = (record.node, record.incarnation)
        clock_ms = number * _ORIGINS_MS + record.mono_ms * (1 + number * _DRIFTS)
        data = ProcessStarted(role="broker", machine=f"host-{number}", boot=f"boot-{number}")
        moved = msgspec.structs.replace(record, mono_ms=round(clock_ms, 3))
        begin = msgspec.structs.replace(moved, seq=1, cause=None, type="ProcessStarted", data=data)
        lines = logs.setdefault(name, [])
        if isinstance(record.data, ProcessStarted):
            lines.append(encoder.encode(msgspec.structs.replace(moved, data=data)))
            continue
        if name not in have_start and not lines:
            lines.append(encoder.encode(begin))
        more = 0 if name in have_start else 1
        cause = None if record.cause is None else record.cause + more
        lines.append(encoder.encode(msgspec.structs.replace(moved, seq=record.seq + more, cause=cause)))
    for (node, incarnation), lines in logs.items():
        path = folder / node / "events" / f"{node}-{incarnation:04d}-0001.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line + b"\n" for line in lines))
