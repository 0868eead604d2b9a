"""The failures of stock clients that examples/client_failures shows in virtual time."""

from __future__ import annotations

import shutil

import pytest

from devtools.pages.source import ROOT

pytest_plugins = ["pytester"]

EXAMPLES = ROOT / "examples" / "client_failures"
TIMEOUT_S = 400


def test_clients_fail_as_the_page_of_client_failures_says(pytester: pytest.Pytester) -> None:
    """Slow, because each program runs virtual minutes; it alone shows that a client has been mended."""
    shutil.copytree(EXAMPLES, pytester.path, dirs_exist_ok=True)
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider", "-rs", timeout=TIMEOUT_S)
    outcomes = result.parseoutcomes()
    assert outcomes.keys() <= {"passed", "skipped"}
    assert outcomes["passed"] == 26 - outcomes.get("skipped", 0)  # faust-streaming may be missing


def test_each_program_is_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "client-failures.md").read_text()
    names = [path.name for path in sorted(EXAMPLES.glob("test_*.py"))]
    assert len(names) >= 11
    assert [name for name in names if f"client_failures/{name}" not in page] == []


def test_a_client_that_is_mended_is_said_to_be(pytester: pytest.Pytester) -> None:
    shutil.copy(EXAMPLES / "conftest.py", pytester.path)
    pytester.makepyfile("def test_of_a_failure_that_is_gone(): assert not 'mended'")
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*This test passes if aiokafka * fails as its docstring says*client-failures.md*"])
