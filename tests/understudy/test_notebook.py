"""`understudy.show` and `understudy.table`, and the notebook that uses them, executed."""

from __future__ import annotations

import json
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

import understudy
from devtools.pages.source import ROOT
from tests.foundation.eventlog.stories import killed_controller
from tests.understudy.history.lake.damaged_logs import write
from tests.understudy.history.lake.incomplete import EVIDENCE, let_be_incomplete
from tests.understudy.history.plots.drawn import pictures, places, texts
from understudy.history.metrics.incomplete_runs import IncompleteRunsLeftOut
from understudy.history.metrics.metric_tables import TABLES
from understudy.notebook import NoCompleteRun
from understudy.page.export import page_of
from understudy.page.recorded.runs import NoSuchRun

NOTEBOOK = ROOT / "examples" / "failover.ipynb"
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for node, lines in killed_controller().lines.items():
        folder = tmp_path / node / "events"
        folder.mkdir(parents=True)
        (folder / f"{node}-0001-0001.jsonl").write_bytes(b"".join(lines))
    return tmp_path


def test_a_table_has_the_columns_that_are_documented(run: Path) -> None:
    for name, kind in TABLES.items():
        assert list(understudy.table(run, name).columns) == ["run", *kind.__struct_fields__]
    failovers = understudy.table(run, "failovers")
    assert failovers[["previous_broker", "broker"]].to_numpy().tolist() == [[1, 2]]
    assert len(understudy.table(run, "settings")) == 1


def test_a_table_that_does_not_exist_is_named(run: Path) -> None:
    with pytest.raises(ValueError, match="there is no table 'failover'; the tables are settings, totals, reigns"):
        understudy.table(run, "failover")
    with pytest.raises(FileNotFoundError, match="nothing has no event logs"):
        understudy.table(run / "nothing", "failovers")


def test_without_pandas_a_table_says_what_installs_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'kafka-understudy\[notebook\]'"):
        understudy.table(run, "failovers")


def test_a_table_of_many_runs_leaves_out_those_with_missing_records_and_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cut", "whole"):
        write(killed_controller(name), tmp_path / name)
    let_be_incomplete(monkeypatch, "cut")
    with pytest.warns(IncompleteRunsLeftOut) as warned:
        assert understudy.table(tmp_path, "failovers")["run"].tolist() == ["whole"]
    assert str(warned[0].message) == (
        f"1 of 2 runs in {tmp_path} are left out, because records are missing, for example cut: {EVIDENCE}; "
        "incomplete=True also returns them"
    )
    assert Path(warned[0].filename) == Path(__file__)
    assert understudy.table(tmp_path, "failovers", incomplete=True)["run"].tolist() == ["cut", "whole"]
    assert understudy.table(tmp_path, "missing")["run"].tolist() == ["cut"]
    assert understudy.table(tmp_path / "cut", "failovers")["run"].tolist() == ["cut"]
    let_be_incomplete(monkeypatch, "cut", "whole")
    with pytest.raises(NoCompleteRun, match=r"none of the 2 runs in .* is complete, for example cut: broker-4 lacks"):
        understudy.table(tmp_path, "failovers")


def test_a_run_is_shown_as_its_page_in_a_frame(run: Path) -> None:
    html = understudy.show(str(run), height=500)._repr_html_()
    frame, _, rest = html.partition('srcdoc="')
    page, _, style = rest.partition('" style="')
    assert frame == '<iframe title="the page of a run" sandbox="allow-scripts" '
    assert unescape(page) == page_of([run])
    assert "<" not in page
    assert style.startswith("width:100%;height:500px")
    with pytest.raises(NoSuchRun):
        understudy.show(run / "nothing")


def test_failovers_are_drawn_in_groups_by_settings(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write(killed_controller(name), tmp_path / name)
    html = understudy.plot(tmp_path, by=["brokers"], height=300)._repr_html_()
    assert html.startswith('<iframe title="the failovers of runs" sandbox="allow-scripts" srcdoc="')
    (picture,) = pictures(unescape(html))
    assert len(places(picture)) == 2
    assert any(text.startswith("2 failovers, median ") for text in texts(picture))
    assert "height:300px" in html
    assert 'href="#' not in unescape(html), "a frame with srcdoc resolves it against the notebook"
    assert len(places(pictures(unescape(understudy.plot(tmp_path / "first")._repr_html_()))[0])) == 1
    with pytest.raises(ValueError, match="there is no setting 'broker'; the settings are "):
        understudy.plot(tmp_path, by=["broker"])
    with pytest.raises(FileNotFoundError, match="nothing has no event logs"):
        understudy.plot(tmp_path / "nothing")


def test_a_picture_leaves_out_runs_with_missing_records_and_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cut", "whole"):
        write(killed_controller(name), tmp_path / name)
    let_be_incomplete(monkeypatch, "cut")
    with pytest.warns(IncompleteRunsLeftOut) as warned:
        html = understudy.plot(tmp_path)._repr_html_()
    assert Path(warned[0].filename) == Path(__file__)
    assert len(places(pictures(unescape(html))[0])) == 1


def test_the_example_notebook_runs(tmp_path: Path) -> None:
    executed = tmp_path / "executed.ipynb"
    command = [sys.executable, "-c", EXECUTE, str(NOTEBOOK), str(executed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500)
    assert done.returncode == 0, done.stdout
    cells = [cell for cell in json.loads(executed.read_text())["cells"] if cell["cell_type"] == "code"]
    assert "held: every expectation held" in "".join(cells[1]["outputs"][0]["text"])
    assert "detection_ms" in "".join(cells[2]["outputs"][0]["data"]["text/html"])
    assert "broker." in "".join(cells[3]["outputs"][0]["data"]["text/plain"])
    assert "srcdoc=" in "".join(cells[4]["outputs"][0]["data"]["text/html"])
    plot = unescape("".join(cells[5]["outputs"][0]["data"]["text/html"]))
    assert plot.count("<circle") == 20


def test_the_example_notebook_has_no_outputs() -> None:
    """Outputs would be from another version of the software."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in cells)
