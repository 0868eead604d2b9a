"""spark-submit runs the program of the guide on a standalone cluster, typed as the guide says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from devtools.java_processes import home_for_executors
from tests.shares import only_nightly
from tests.understudy.spark.standalone_cluster import StandaloneCluster
from understudy.clusters.java import choose_java
from understudy.history.report.replay import replay_in_python
from understudy.trials.seeds.seeds import run_seed

pytestmark = [pytest.mark.xdist_group("spark submit"), only_nightly("spark-clusters")]

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "spark-cluster.md"
PROGRAM, *_ = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
SUBMIT, *_ = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_guide(tmp_path: Path) -> None:
    java = choose_java()
    for seed in (1, 2, 3):
        run_seed(seed, 30, events=tmp_path / "runs" / f"seed-{seed}")
    (tmp_path / "failovers.py").write_text(PROGRAM)
    (tmp_path / "cluster").mkdir()
    with StandaloneCluster(tmp_path / "cluster", java, workers=2) as cluster:
        done = subprocess.run(
            ["/bin/bash", "-ec", SUBMIT],
            env={
                "PATH": f"{Path(sys.executable).parent}:{Path(pyspark.__file__).parent / 'bin'}:{os.environ['PATH']}",
                "JAVA_HOME": str(home_for_executors(java, tmp_path / "java")),
                "MASTER": cluster.master,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    assert counts_of(done.stdout) == expected_counts(tmp_path / "runs")


def counts_of(printed: str) -> dict[str, int]:
    """Return the counts by cause in a table that `show` has printed."""
    rows = re.findall(r"^\| *([a-z ]+?)\| *(\d+)\|", printed, re.MULTILINE)
    return {cause.strip(): int(count) for cause, count in rows}


def expected_counts(runs: Path) -> dict[str, int]:
    causes = [failover.cause for run in replay_in_python([runs]).runs for failover in run.failovers]
    return {cause: causes.count(cause) for cause in causes}
