"""The image of the Dockerfile's target `spark`: its standalone cluster, and its executor as Kubernetes starts it.

There is no Kubernetes here: a driver whose master has no worker gets an executor that a container starts with the
variables of Kubernetes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.compose.compose_cluster import eventually
from tests.docker_engine import skip_or_fail, why_no_base_image, why_no_engine
from tests.understudy.history.lake.lakes import write_runs
from understudy.clusters.processes.free_ports import free_ports
from understudy.history.report.replay import replay_in_python

pytestmark = [
    pytest.mark.docker,
    pytest.mark.xdist_group("compose"),
    pytest.mark.skipif(sys.platform != "linux", reason="containers share the network of this machine on Linux only"),
    # For a first build that downloads Spark, on a machine with much else to do.
    pytest.mark.timeout(1800),
]

ROOT = Path(__file__).parents[2]
PYTHON_IN_IMAGE = "/opt/understudy/bin/python"

DRIVER = """
import sys
from pyspark.sql import SparkSession
from understudy.spark import replay

master, port, runs = sys.argv[1:]
builder = SparkSession.builder.master(master).config("spark.driver.host", "127.0.0.1")
with builder.config("spark.driver.port", port).getOrCreate() as spark:
    options = spark._jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptions()
    print(spark.sparkContext.applicationId, options, sep="\\n", flush=True)
    with replay(spark, runs) as tables:
        print(sorted((row["run"], row["records"]) for row in tables["totals"].collect()), flush=True)
"""


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """Build the image from this checkout under a tag of its own; it is removed at the end."""
    reason = why_no_engine() or why_no_base_image()
    if reason is not None:
        skip_or_fail(reason)
    name = f"understudy-spark-test-{uuid.uuid4().hex[:12]}"
    docker("build", "--network", "host", "--target", "spark", "--tag", name, str(ROOT), timeout_s=1500)
    yield name
    docker("image", "rm", "--no-prune", name)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Runs that the user of the image may read."""
    folder = write_runs(tmp_path, random=2, records=120)
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755)
    return folder


def test_a_master_and_a_worker_of_the_image_run_a_replay(image: str, runs: Path) -> None:
    with master_of(image) as master, container(image, "worker", "--host", "127.0.0.1", master, runs=runs):
        command = [sys.executable, "-m", "understudy.cli.main", "replay", "--master", master, str(runs), "--json"]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    for run in replay_in_python([runs]).runs:
        assert f'"{run.run}"' in done.stdout


def test_an_executor_runs_tasks_with_the_variables_of_kubernetes(image: str, runs: Path) -> None:
    [port] = free_ports(1)
    with master_of(image) as master:
        command = [sys.executable, "-c", DRIVER, master, str(port), str(runs)]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as driver:
            assert driver.stdout is not None
            application, options = driver.stdout.readline().strip(), driver.stdout.readline().strip()
            variables = {
                "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@127.0.0.1:{port}",
                "SPARK_APPLICATION_ID": application,
                "SPARK_EXECUTOR_ID": "1",
                "SPARK_EXECUTOR_CORES": "1",
                "SPARK_EXECUTOR_MEMORY": "512m",
                "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
                "SPARK_EXECUTOR_POD_NAME": "executor-1",
                "SPARK_RESOURCE_PROFILE_ID": "0",
                **{f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate(options.split())},
            }
            with container(image, "executor", runs=runs, variables=variables):
                printed = driver.stdout.read()
    expected = sorted((run.run, run.totals.records) for run in replay_in_python([runs]).runs)
    assert printed.strip() == str(expected)


@contextmanager
def master_of(image: str) -> Iterator[str]:
    """Start the master of a standalone cluster; yield its URL."""
    [port] = free_ports(1)
    with container(image, "master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0") as name:
        eventually(lambda: "New state: ALIVE" in docker("logs", name), "the master is elected")
        yield f"spark://127.0.0.1:{port}"


@contextmanager
def container(
    image: str, *arguments: str, runs: Path | None = None, variables: dict[str, str] | None = None
) -> Iterator[str]:
    """Run a container on the network of this machine; yield its name."""
    name = f"{image}-{uuid.uuid4().hex[:6]}"
    options = ["--volume", f"{runs}:{runs}:ro"] if runs else []
    for variable, value in (variables or {}).items():
        options += ["--env", f"{variable}={value}"]
    docker("run", "--detach", "--network", "host", "--name", name, *options, image, *arguments)
    try:
        yield name
    finally:
        docker("rm", "--force", "--volumes", name)


def environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": PYTHON_IN_IMAGE, "SPARK_LOCAL_IP": "127.0.0.1"}


def docker(*arguments: str, timeout_s: float = 60) -> str:
    done = subprocess.run(
        ["docker", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout
