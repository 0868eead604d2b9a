"""Measures seeds of the simulator on a standalone Spark cluster of two workers, to `make seeds` on as many processes.

Each of both is a whole command, so the fewer the seeds, the more Spark's start counts: the goal is for 1,000 of them.
UNDERSTUDY_BENCH_SEEDS (400) sets their number.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks import measured_command
from benchmarks.rows import Row
from devtools.standalone_spark import StandaloneCluster
from understudy.clusters.java import choose_java

SEEDS = int(os.environ.get("UNDERSTUDY_BENCH_SEEDS", "400"))
SECONDS = 60
FIRST_SEED = 1_000
WORKERS = 2


def run() -> list[Row]:
    command = [sys.executable, "-m", "understudy.cli.main", "simulate", "--seeds", str(SEEDS)]
    command += ["--from", str(FIRST_SEED), "--seconds", str(SECONDS)]
    processes = measured_command.run([*command, "--workers", str(WORKERS)])
    with (
        tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder,
        StandaloneCluster(Path(folder), choose_java(), workers=WORKERS) as cluster,
    ):
        spark = measured_command.run([*command, "--spark", cluster.master])
    name = f"{SEEDS:,} seeds × {SECONDS} s on a cluster of {WORKERS} workers"
    return [
        Row(f"{name}, s", spark.seconds, processes.seconds, 1.25),
    ]
