"""Tests of the tiers: marks from measured times, a real run of each kind in `make test`, the shares of searches."""

from __future__ import annotations

import json
import re

import pytest

from devtools import durations
from devtools.pages.source import ROOT
from tests import shares, tiers
from tests.test_tidy import name_of, tracked_files


def test_each_kind_of_real_run_has_a_representative() -> None:
    files = (path for path in tracked_files() if path.suffix == ".py" and name_of(path).startswith("tests/"))
    named = {kind for path in files for kind in re.findall(r'representative\("([^"]+)"\)', path.read_text())}
    assert named == {*tiers.KINDS}


def test_no_test_sets_the_marks_that_follow_measured_times() -> None:
    written = re.compile(r"pytest\.mark\.(slow|long)\b")
    product = [ROOT / "tests/tiers.py", ROOT / "tests/test_tiers.py"]
    files = [path for path in tracked_files() if path.suffix == ".py" and path not in product]
    assert [name_of(path) for path in files if written.search(path.read_text())] == []


def test_the_makefile_has_the_expressions_of_the_tiers() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target, expression in (("fast", tiers.QUICK), ("test", tiers.NEWCOMERS), ("test-rest", tiers.REST)):
        assert re.search(rf"^{target}:.*\n\t.*-m '{re.escape(expression)}'", makefile, re.MULTILINE), target


def test_the_list_of_slow_tests_has_the_form_that_the_tool_writes() -> None:
    assert durations.format_list(durations.parse(durations.LIST.read_text())) == durations.LIST.read_text()


def test_the_median_of_the_reports_with_shared_fixtures_counts() -> None:
    def report(**seconds: tuple[float, float]) -> str:
        lines = ({"test": name, "own_s": own, "shared_s": shared} for name, (own, shared) in seconds.items())
        return "\n".join(map(json.dumps, lines))

    found = durations.measured([report(a=(1.0, 2.0), b=(0.01, 0.0)), report(a=(1.5, 2.5)), report(a=(9.0, 9.0))])
    assert found == {"a": (4.0, 2.5), "b": (0.01, 0.0)}
    assert durations.parse(durations.format_list(found)) == {"a": (4.0, 2.5)}


# ------------------------------------------------------------------ shares

_ROW = re.compile(r"^\| `([a-z-]+)` \| (\d+) \| (\d+) \| (.+) \|$", re.MULTILINE)


def test_contributing_lists_each_share_with_its_reason() -> None:
    rows = {
        name: shares.Share(int(usual), int(whole), reason)
        for name, usual, whole, reason in _ROW.findall((ROOT / "CONTRIBUTING.md").read_text())
    }
    assert rows == shares.SHARES


def test_the_nightly_run_takes_the_whole_of_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NIGHTLY", raising=False)
    assert shares.share_of("seeds") == shares.SHARES["seeds"].usual
    monkeypatch.setenv("NIGHTLY", "1")
    assert shares.share_of("seeds") == shares.SHARES["seeds"].whole
    assert all(share.usual < share.whole for share in shares.SHARES.values())
