"""The plug-in before any cluster starts: its loading, the marker's refusals, and what it imports."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from devtools.pages.source import ROOT

pytest_plugins = ["pytester"]
PLUGIN = "understudy.pytest_plugin"


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", PLUGIN, "-p", "no:randomly", *options, timeout=120)


def test_the_plug_in_imports_nothing_else_of_the_product() -> None:
    program = (
        "import sys, understudy.pytest_plugin;"
        "print([name for name in sys.modules"
        " if name.startswith(('understudy.', 'brokers', 'controller', 'foundation', 'kazoo'))])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found.strip() == f"['{PLUGIN}']"


def test_a_run_that_uses_no_cluster_loads_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import sys\ndef test_it(): assert 'understudy.clusters.testing' not in sys.modules")
    run(pytester).assert_outcomes(passed=1)


def test_the_entry_point_loads_it_once(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry point loads it; `-p` beside the entry point does no harm."""
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    info = pytester.mkdir("installed") / "fake-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
    lines = [f"{name} = {module}" for name, module in entry.items()]
    (info / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines]) + "\n")
    monkeypatch.setenv("PYTHONPATH", str(info.parent))
    pytester.makepyfile("def test_it(understudy_cluster): raise AssertionError")
    for options in ((), ("-p", PLUGIN)):
        shown = pytester.runpytest_subprocess(*options, "--fixtures", timeout=120).stdout.str()
        assert shown.count("understudy_cluster -- ") == 1


def test_wrong_arguments_are_refused_with_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.understudy(broker=5)
        def test_a_name(understudy_cluster): pass

        @pytest.mark.understudy(5)
        def test_a_position(understudy_cluster): pass

        @pytest.mark.understudy(topics={"orders": "three"})
        def test_a_value(understudy_cluster): pass
        """
    )
    result = run(pytester)
    result.assert_outcomes(errors=3)
    shown = result.stdout.str()
    name = "test_wrong_arguments_are_refused_with_the_test.py"
    assert (
        f"{name}::test_a_name: the marker understudy: there is no argument 'broker'; did you mean 'brokers'?" in shown
    )
    assert f"{name}::test_a_position: the arguments of the marker understudy have names" in shown
    assert f"{name}::test_a_value: the marker understudy: topics['orders']" in shown


def test_the_marker_is_known_where_markers_are_strict(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.understudy(brokers=1)\ndef test_it(): pass")
    run(pytester, "--strict-markers").assert_outcomes(passed=1)


def test_no_other_module_imports_the_plug_in_or_pytest() -> None:
    """Only modules that a pytest loads need pytest to be installed."""
    importing = [
        path
        for folder in ("foundation", "controller", "brokers", "understudy")
        for path in Path(ROOT, folder).rglob("*.py")
        if "import pytest" in path.read_text().split()
        or any(line.startswith(("import pytest", f"from {PLUGIN}")) for line in path.read_text().splitlines())
    ]
    assert sorted(path.relative_to(ROOT).as_posix() for path in importing) == [
        "understudy/pytest_plugin.py",
        "understudy/testing/simulated_tests/workers/pytest_side.py",
        "understudy/testing/simulated_tests/workers/pytest_worker.py",
    ]
