"""spark-submit runs the program of the guide on a standalone cluster, typed as the guide says, also with a packed
environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyspark
import pytest

from devtools.java_processes import home_for_executors
from devtools.spark_versions import ROOT, clean_environment
from devtools.standalone_spark import StandaloneCluster
from tests.shares import only_nightly
from understudy.clusters.java import choose_java
from understudy.history.report.replay import replay_in_python
from understudy.trials.seeds.seeds import run_seed

pytestmark = [pytest.mark.xdist_group("spark submit"), only_nightly("spark-clusters")]

GUIDE = (ROOT / "docs" / "guides" / "spark-cluster.md").read_text()
PROGRAM, *_ = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^```sh\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
SUBMIT, *_ = COMMANDS
(PACKED,) = (commands for commands in COMMANDS if "--archives" in commands)
PACKING = PACKED[: PACKED.index("export")]
"""The commands that make the archive of an environment and the archive of the package."""

SEEDS = """
import sys
import pyarrow as pa
from pyspark.sql import SparkSession
from understudy.spark import seeds

def prefixes(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"prefix": [sys.prefix] * batch.num_rows})

spark = SparkSession.builder.getOrCreate()
for row in spark.range(0, 4, 1, 4).mapInArrow(prefixes, "prefix STRING").distinct().collect():
    print("prefix:", row.prefix)
print("seeds:", *sorted(row.seed for row in seeds(spark, range(1, 4), seconds=6).collect()))
spark.stop()
"""
"""Runs seeds, and prints the folders of the environments that workers run in."""


@pytest.fixture
def typed(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A function that runs commands in a shell, with a standalone cluster, and returns what they print."""
    java = choose_java()
    for seed in (1, 2, 3):
        run_seed(seed, 30, events=tmp_path / "runs" / f"seed-{seed}")
    (tmp_path / "failovers.py").write_text(PROGRAM)
    (tmp_path / "cluster").mkdir()
    with StandaloneCluster(tmp_path / "cluster", java, workers=2) as cluster:
        variables = {
            "JAVA_HOME": str(home_for_executors(java, tmp_path / "java")),
            "MASTER": cluster.master,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        yield lambda commands: in_a_shell(commands, tmp_path, variables)


def test_the_commands_of_the_guide(typed: Callable[[str], str], tmp_path: Path) -> None:
    assert counts_of(typed(SUBMIT)) == expected_counts(tmp_path / "runs")


def test_a_packed_environment_as_in_the_guide(typed: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "seeds.py").write_text(SEEDS)
    again = PACKED[PACKED.index("spark-submit") :].replace("failovers.py 'runs/*'", "seeds.py")
    printed = typed(PACKED + again)
    assert counts_of(printed) == expected_counts(tmp_path / "runs")
    assert "seeds: 1 2 3\n" in printed
    prefixes = re.findall(r"^prefix: (.*)$", printed, re.MULTILINE)
    assert prefixes
    for prefix in prefixes:
        assert Path(prefix).match(f"{tmp_path}/cluster/work-*/app-*/*/environment"), prefix


def in_a_shell(commands: str, folder: Path, variables: Mapping[str, str]) -> str:
    """Run commands of the guide in a folder, with this environment's programs, and return what they print."""
    programs = (Path(sys.executable).parent, Path(pyspark.__file__).parent / "bin", os.environ["PATH"])
    done = subprocess.run(
        ["/bin/bash", "-ec", commands],
        env={
            **clean_environment(),
            "PATH": ":".join(map(str, programs)),
            "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
            **variables,
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def counts_of(printed: str) -> dict[str, int]:
    """Return the counts by cause in a table that `show` has printed."""
    rows = re.findall(r"^\| *([a-z ]+?)\| *(\d+)\|", printed, re.MULTILINE)
    return {cause.strip(): int(count) for cause, count in rows}


def expected_counts(runs: Path) -> dict[str, int]:
    causes = [failover.cause for run in replay_in_python([runs]).runs for failover in run.failovers]
    return {cause: causes.count(cause) for cause in causes}
