"""Tests of the wheel that users install: it holds one package and works without the checkout."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from understudy.clusters.processes.zookeeper_jars import PATTERNS

ROOT = Path(__file__).resolve().parent.parent

A_TEST_OF_A_PROJECT = """
import brokers, controller, foundation
from understudy.testing import controller_change

def test_another_broker_takes_over(understudy_cluster):
    understudy_cluster.controller.kill()
    understudy_cluster.wait_for(controller_change())
    understudy_cluster.assert_injected("kill", role="controller")
    assert controller.OF == "the project: controller"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the tracked files only."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listing.split("\0")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            (source / name).symlink_to((ROOT / name).readlink())
        elif (ROOT / name).is_file():
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_one_typed_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {"understudy"}
    assert {"understudy/py.typed", "understudy/controller/kafka_controller.py"} <= set(names)


def test_the_wheel_holds_zookeepers_jars_with_their_licences(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    held = [Path(name).name for name in names if name.startswith("understudy/clusters/processes/jars/")]
    jars = [name for name in held if name.endswith(".jar")]
    assert len(jars) == len(PATTERNS)
    assert all(any(fnmatch(jar, pattern) for jar in jars) for pattern in PATTERNS)
    assert {*held} - {*jars} == {"NOTICE.txt", "LICENSE-slf4j.txt", "LICENSE-snappy.txt"}


def test_a_plain_installation_needs_nothing_of_the_analysis(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))).decode()
    needed = re.findall(r"^Requires-Dist: ([\w-]+)(?!.*extra ==)", metadata, re.MULTILINE)
    assert "kazoo" in needed
    assert {"pyspark", "pyarrow", "numpy", "pandas"}.isdisjoint(needed)


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python environment with the wheel in it. It imports what the wheel needs from this one, but not our package."""
    home = tmp_path_factory.mktemp("an environment")
    venv.create(home, with_pip=False)
    site = Path(printed(home, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=home).strip())
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)], check=True
    )
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


def printed(environment: Path, *arguments: str, folder: Path) -> str:
    """Run Python in an environment and return its standard output; it has to end with 0."""
    done = subprocess.run([environment / "bin" / "python", *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_works_in_another_environment(environment: Path, tmp_path: Path) -> None:
    """The command runs, and the imported modules come from that environment."""
    look = "import understudy.brokers as b, understudy.cli.main as c; print(b.__file__, c.__file__, sep='\\n')"
    found = printed(environment, "-P", "-c", look, folder=tmp_path)
    assert all(Path(line).is_relative_to(environment) for line in found.splitlines()), found
    assert "demo" in printed(environment, "-P", "-m", "understudy.cli.main", "--help", folder=tmp_path)


def test_a_project_may_have_packages_with_the_names_of_ours(environment: Path, tmp_path: Path) -> None:
    """Once the wheel had a package `controller` of its own, which a project's package of that name hid."""
    for name in ("controller", "brokers", "foundation"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"OF = 'the project: {name}'\n")
    (tmp_path / "test_mine.py").write_text(A_TEST_OF_A_PROJECT)
    assert "1 passed" in printed(environment, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder=tmp_path)
