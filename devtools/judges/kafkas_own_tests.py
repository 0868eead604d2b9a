"""Runs the integration tests that Apache Kafka 3.9.1 publishes, with our brokers in place of Kafka's.

Kafka's harness, clients and assertions stay as they are, but for one class that the harness creates: each broker is a
`python -m understudy.brokers` process (`devtools/judges/java`). Only a test's variant with ZooKeeper is run, with the
classic protocol of groups. `python -m devtools.judges.kafkas_own_tests CLASS [METHOD …]` runs one class; with
`--kafka` Kafka's own brokers are judged, which tells what passes on a machine at all.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from devtools.judges.maven import kafka_test_libs
from understudy.clusters.processes.kafka_jars import VERSION, NotFetched

CLASS_TIMEOUT_S = 1_500
_BUILD_TIMEOUT_S = 240
_SOURCES = Path(__file__).parent / "java"
_ROOT = Path(__file__).parents[2]
_JVM = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LINE = "outcome"


class NotBuilt(Exception):
    """The Java sources could not be compiled. The message has the compiler's output."""


class TestsDidNotEnd(Exception):
    """The JVM with the tests ended early or not at all. The message has the end of its output."""

    __test__ = False


class Outcome(NamedTuple):
    """The outcome of one test of a class.

    Attributes:
        test: the name of the method.
        result: `passed`, `failed`, or `started-no-broker`: the test passed without a broker and judges nothing.
        reason: the exception of a failed test.
    """

    test: str
    result: str
    took_ms: int
    reason: str

    @property
    def passed(self) -> bool:
        return self.result == "passed"


@dataclass(frozen=True, slots=True)
class KafkasTests:
    """Kafka's tests, ready to run.

    Args:
        libs: the jars of Kafka, its tests and JUnit.
        classes: the compiled Java sources, and the changed copies of the harness's classes.
        java: the command `java`.
        directory: the folder for the logs of brokers and what the tests write.
    """

    libs: Path
    classes: Path
    java: str
    directory: Path

    def run(self, test_class: str, methods: Sequence[str] = (), *, judges_kafka: bool = False) -> list[Outcome]:
        """Run the tests of a class against our brokers; all of them, or those named.

        Args:
            judges_kafka: whether the brokers are Kafka's own.

        Raises:
            TestsDidNotEnd: they did not end within `CLASS_TIMEOUT_S`, or without an outcome.
        """
        with tempfile.TemporaryDirectory(dir=self.directory, prefix=f"{test_class}-") as folder:
            command = [self.java, *_JVM, f"-Djava.io.tmpdir={folder}"]
            if not judges_kafka:
                command += [
                    "-Djudged.command=" + "\n".join((sys.executable, "-P", "-m", "understudy.brokers")),
                    f"-Djudged.folder={_ROOT}",
                    f"-Djudged.log={self.brokers_log(test_class)}",
                ]
            classes = self.classes / ("kafka" if judges_kafka else "ours")
            command += ["-cp", f"{classes}{os.pathsep}{self.libs}/*", "RunTests", test_class, *methods]
            try:
                run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=CLASS_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                raise TestsDidNotEnd(f"{test_class} did not end within {CLASS_TIMEOUT_S} s") from None
        outcomes = [_outcome(line) for line in run.stdout.splitlines() if line.startswith(f"{_LINE}\t")]
        if run.returncode != 0 or not outcomes:
            raise TestsDidNotEnd(f"{test_class} exited with {run.returncode}:\n{(run.stdout + run.stderr)[-2000:]}")
        return outcomes

    def brokers_log(self, test_class: str) -> Path:
        """The file with what the brokers of a class's tests have written."""
        return self.directory / f"{test_class}.log"


def _outcome(line: str) -> Outcome:
    _, result, test, took_ms, reason = line.split("\t", 4)
    return Outcome(test, result, int(took_ms), reason)


def build(directory: Path) -> KafkasTests:
    """Fetch Kafka's tests, compile the Java sources into `directory`, and change the copies of the harness's classes.

    Raises:
        NotFetched: there is no JDK or no Maven, or Maven failed.
        NotBuilt: the sources do not compile.
    """
    javac, java = shutil.which("javac"), shutil.which("java")
    if javac is None or java is None:
        raise NotFetched("no javac on the PATH to compile the harness with; install a JDK, 17 or newer")
    libs = kafka_test_libs()
    runner, ours = directory / "classes" / "kafka", directory / "classes" / "ours"
    for folder in (runner, ours):
        folder.mkdir(parents=True)
    sources = sorted(str(path) for path in _SOURCES.rglob("*.java"))
    _build_step([javac, "-nowarn", "-cp", f"{libs}/*", "-d", str(ours), *sources])
    for compiled in ours.glob("RunTests*.class"):
        shutil.copy(compiled, runner)
    path = f"{ours}{os.pathsep}{libs}/*"
    jar = libs / f"kafka_2.13-{VERSION}-test.jar"
    _build_step([java, "-cp", path, "ReplaceConstructors", str(jar), str(ours)])
    return KafkasTests(libs, directory / "classes", java, directory)


def _build_step(command: list[str]) -> None:
    run = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S)
    if run.returncode != 0:
        raise NotBuilt(f"{command[0]} exited with {run.returncode}:\n{(run.stdout + run.stderr)[-4000:]}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run one class of Apache Kafka's own tests.")
    parser.add_argument("test_class")
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--kafka", action="store_true", help="with Kafka's own brokers")
    chosen = parser.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="kafkas-own-tests-"))
    outcomes = build(directory).run(chosen.test_class, chosen.methods, judges_kafka=chosen.kafka)
    for outcome in outcomes:
        print(f"{outcome.result:18} {outcome.took_ms / 1000:6.1f} s  {outcome.test}  {outcome.reason[:300]}")
    print(f"{sum(outcome.passed for outcome in outcomes)} of {len(outcomes)} passed; the brokers' logs: {directory}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
