"""Spark runs a Python program on a real YARN, and reads and writes Parquet in a real HDFS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from devtools.hadoop_mini import SPARK_HOME, HadoopMini
from tests.interop.conftest import TIMEOUT_S, skip_or_fail
from tests.shares import only_nightly
from tests.understudy.history.lake.lakes import assert_holds, content, take
from tests.understudy.spark.test_submit import PACKING, counts_of, expected_counts, in_a_shell
from tests.understudy.spark.test_submit import PROGRAM as GUIDE_PROGRAM
from understudy.clusters.java import choose_java
from understudy.clusters.processes.kafka_jars import NotFetched
from understudy.history.lake.columns import RUN_TABLES
from understudy.history.report.replay import replay_in_python
from understudy.trials.hunt.seed_tasks import SeedTask, leave_events, run_task
from understudy.trials.seeds.seeds import run_seed

pytestmark = [pytest.mark.interop, pytest.mark.timeout(TIMEOUT_S), only_nightly("spark-clusters")]

PROGRAM = """
import os, sys
import pyarrow as pa
from pyspark.sql import SparkSession

def doubled(batches):
    container = os.path.basename(os.getcwd())
    for batch in batches:
        numbers = [2 * number for number in batch.column("id").to_pylist()]
        yield pa.RecordBatch.from_pydict({"id": numbers, "container": [container] * len(numbers)})

spark = SparkSession.builder.getOrCreate()
spark.range(0, 20, 1, 20).mapInArrow(doubled, "id long, container string").write.parquet(sys.argv[1])
rows = spark.read.parquet(sys.argv[1]).collect()
print("ids:", *sorted(row.id for row in rows))
print("containers:", *sorted({row.container for row in rows}))
spark.stop()
"""

TABLES = """
import json, sys
from pyspark.sql import SparkSession
from understudy.spark import replay, send_package

spark = SparkSession.builder.getOrCreate()
send_package(spark)
with replay(spark, sys.argv[1]) as tables, open(sys.argv[2], "w") as written:
    found = {name: sorted(table.toJSON().collect()) for name, table in tables.items()}
    json.dump(found, written)
spark.stop()
"""
"""Writes the rows of all tables of some runs, with each digit of their numbers."""

LAKE_AND_SEEDS = """
import json, sys
from pyspark.sql import SparkSession
from understudy.spark import ingest, seeds, send_package

runs, lake, logs, written = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
send_package(spark)
found = {
    "ingest": [row.asDict() for row in ingest(spark, runs, lake=lake).collect()],
    "seeds": [row.asDict() for row in seeds(spark, range(1, 4), seconds=6, logs=logs).collect()],
}
with open(written, "w") as file:
    json.dump(found, file)
spark.stop()
"""
"""Brings runs into a lake and runs seeds, and writes the rows that both return."""


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HadoopMini]:
    try:
        with HadoopMini(tmp_path_factory.mktemp("hadoop"), choose_java()) as running:
            yield running
    except NotFetched as why:
        skip_or_fail(why)


def test_a_program_runs_in_containers_of_yarn_and_keeps_its_table_in_hdfs(hadoop: HadoopMini, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    printed = spark_submit(hadoop, tmp_path / "program.py", f"{hadoop.filesystem}/table")
    assert f"ids: {' '.join(str(2 * number) for number in range(20))}" in printed
    (containers,) = [line for line in printed if line.startswith("containers:")]
    assert "container_" in containers


def test_the_program_of_the_guide_runs_on_yarn_in_a_packed_environment(hadoop: HadoopMini, tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        run_seed(seed, 30, events=tmp_path / "runs" / f"seed-{seed}")
    (tmp_path / "failovers.py").write_text(GUIDE_PROGRAM)
    in_a_shell(PACKING, tmp_path, {})
    packed = ["--archives", "environment.tar.gz#environment", "--py-files", "understudy.zip"]
    runs, python = str(tmp_path / "runs" / "*"), "./environment/bin/python"
    printed = spark_submit(hadoop, tmp_path / "failovers.py", runs, options=packed, python=python)
    assert counts_of("\n".join(printed)) == expected_counts(tmp_path / "runs")


def test_all_tables_are_those_of_local_mode(hadoop: HadoopMini, tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        run_seed(seed, 30, events=tmp_path / "runs" / f"seed-{seed}")
    (tmp_path / "tables.py").write_text(TABLES)
    found = {}
    for master in ("yarn", "local[2]"):
        file = tmp_path / f"{master}.json"
        spark_submit(hadoop, tmp_path / "tables.py", str(tmp_path / "runs" / "*"), str(file), master=master)
        found[master] = json.loads(file.read_text())
    assert set(found["yarn"]) == set(RUN_TABLES)
    for name in ("totals", "failovers", "request_log"):
        assert found["yarn"][name], name
    for name, rows in found["local[2]"].items():
        assert found["yarn"][name] == rows, name


def test_a_lake_and_the_outcomes_of_seeds_are_those_of_plain_python(hadoop: HadoopMini, tmp_path: Path) -> None:
    runs, lake, logs = (tmp_path / name for name in ("runs", "lake", "logs"))
    logs.mkdir()
    for seed in (1, 2, 3):
        run_seed(seed, 30, events=runs / f"seed-{seed}")
    (tmp_path / "lake_and_seeds.py").write_text(LAKE_AND_SEEDS)
    written = tmp_path / "written.json"
    spark_submit(hadoop, tmp_path / "lake_and_seeds.py", *map(str, (runs / "*", lake, logs, written)))
    found = json.loads(written.read_text())
    expected = take(tmp_path / "expected", runs)
    assert sorted(row["run"] for row in found["ingest"]) == sorted(expected.added)
    assert {(row["outcome"], row["reason"]) for row in found["ingest"]} == {("added", "")}
    assert_holds(lake, runs)
    assert content(lake) == content(tmp_path / "expected")
    outcomes = run_task(SeedTask((1, 2, 3), 6))
    assert sorted(found["seeds"], key=lambda row: row["seed"]) == list(map(msgspec.structs.asdict, outcomes))
    assert {path.name: replay_in_python([path]).runs for path in logs.iterdir()} == {
        path.name: replay_in_python([path]).runs for path in (leave_events(seed, 6, tmp_path) for seed in (1, 2, 3))
    }


def spark_submit(
    hadoop: HadoopMini,
    program: Path,
    *arguments: str,
    master: str = "yarn",
    options: Sequence[str] = (),
    python: str = sys.executable,
) -> list[str]:
    """Run a Python program with Spark, and return the lines that it prints.

    Args:
        options: further options of `spark-submit`.
        python: the Python of the workers.
    """
    settings = {
        # Containers find Spark where it is installed; otherwise its jars would be copied to HDFS first.
        "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
        "spark.yarn.am.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "2",
        "spark.ui.enabled": "false",
    }
    options = [*options, *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}"))]
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--deploy-mode", "client"]
    done = subprocess.run(
        [*submit, *options, str(program), *arguments],
        env={
            "PATH": os.environ["PATH"],
            "JAVA_HOME": str(hadoop.java_home),
            "HADOOP_CONF_DIR": str(hadoop.configuration),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        },
        cwd=program.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S / 2,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
