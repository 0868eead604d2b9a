"""What a plain installation leaves out is named with the command that installs it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from understudy.clusters.processes.testbed_log import TestbedLog
from understudy.extras import _MODULES_BY_EXTRA, DISTRIBUTION, MissingExtra, is_installed, require

ROOT = Path(__file__).resolve().parents[2]

WITHOUT = """
import sys
for name in ("pyspark", "pyarrow", "numpy", "pandas"):
    sys.modules[name] = None
"""


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    require("spark")
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert not is_installed("numpy")
    require("spark", "pyarrow")
    with pytest.raises(MissingExtra, match=r"NumPy is needed, .*: pip install 'kafka-understudy\[spark\]'") as missing:
        require("spark")
    assert missing.value.name == "numpy"


def test_the_extras_of_the_distribution_bring_these_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION
    for extra, modules in _MODULES_BY_EXTRA.items():
        brought = " ".join(project["optional-dependencies"][extra])
        assert all(module.replace("_", "-") in brought for module in modules)
        assert not any(module in " ".join(project["dependencies"]) for module in modules)


@pytest.mark.parametrize(
    ("command", "package"),
    [
        ("replay runs", "Apache Spark"),
        ("replay --follow runs", "Apache Arrow"),
        ("compare runs --by world", "NumPy"),
        ("ingest runs --lake lake", "Apache Arrow"),
        ("simulate --seeds 3 --spark local[2]", "Apache Spark"),
        ("hunt --seeds 3 --spark local[2]", "Apache Spark"),
    ],
)
def test_a_verb_of_the_analysis_names_the_extra_in_one_line(command: str, package: str, tmp_path: Path) -> None:
    TestbedLog(tmp_path / "runs", run="run-1").close("stopped")
    program = f"{WITHOUT}\nfrom understudy.cli.main import main\nsys.exit(main({command.split()!r}))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    verb = command.split()[0]
    assert done.stderr == (
        f"understudy {verb}: {package} is needed, which is not installed: pip install 'kafka-understudy[spark]'\n"
    )
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize("name", ["understudy.spark", "understudy.lake.Lake", "understudy.history.compare"])
def test_importing_what_needs_an_extra_names_it(name: str) -> None:
    package, _, exported = name.rpartition(".")
    program = f"{WITHOUT}\nfrom {package} import {exported}"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "MissingExtra" in done.stderr
    assert "pip install 'kafka-understudy[spark]'" in done.stderr
