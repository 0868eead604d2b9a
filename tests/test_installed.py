"""Tests of the wheel that users install: it holds the four packages and works without the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from understudy.testbed.zookeeper_jars import PATTERNS

ROOT = Path(__file__).resolve().parent.parent

ONE_BROKER = """
from understudy.testbed.local_cluster import LocalCluster
with LocalCluster(brokers=1) as cluster:
    print(cluster.controller_id())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the tracked files only."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_the_four_typed_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {"foundation", "controller", "brokers", "understudy"}
    assert {f"{package}/py.typed" for package in top} <= set(names)


def test_the_wheel_holds_zookeepers_jars_with_their_licences(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    held = [Path(name).name for name in names if name.startswith("understudy/testbed/jars/")]
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


def test_the_wheel_works_in_another_environment(wheel: Path, tmp_path: Path) -> None:
    """The command runs, and the imported modules come from that environment."""
    home = tmp_path / "an environment"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    site = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)], check=True
    )
    # Dependencies are imported from this environment, which is last on the path; our own packages are not.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    look = "import brokers, understudy.cli.main as cli; print(brokers.__file__, cli.__file__, sep='\\n')"
    found = subprocess.run([python, "-P", "-c", look], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert all(Path(line).is_relative_to(site) for line in found.splitlines()), found
    help_text = subprocess.run(
        [python, "-P", "-m", "understudy.cli.main", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert "demo" in help_text.stdout
    ran = subprocess.run([python, "-P", "-c", ONE_BROKER], cwd=tmp_path, capture_output=True, text=True)
    assert ran.stdout.strip() == "1", ran.stderr
