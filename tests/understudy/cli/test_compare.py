"""`understudy compare`: runs in folders, the page in the terminal, the HTML page, and bad input."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from understudy.cli.main import main


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep over two session timeouts, with two runs each."""
    folder = tmp_path_factory.mktemp("sweep") / "runs"
    timeouts = ["--session-timeout-ms", "2000,6000"]
    assert main(["sweep", "--partitions", "2", *timeouts, "--repeat", "2", "--dir", str(folder)]) == 0
    return folder


def write(run: str, folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, lines in killed_controller(run).lines.items():
        (folder / name).write_bytes(b"".join(lines))
    return folder


def test_a_sweep_is_compared_and_the_page_opens_its_worst_runs(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs.parent)
    assert main(["compare", "runs", "--by", "session_timeout_ms", "--baseline", "session_timeout_ms=6000"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(
        "4 runs, 4 failovers, 2 groups by session_timeout_ms\n  compared with session_timeout_ms=6000"
    )
    assert "too few runs" in page
    commands = [line.split() for line in page.splitlines() if "understudy replay " in line]
    assert commands
    for command in commands:
        assert main([*command[1:], "--engine", "python"]) == 0
        assert capsys.readouterr().out.startswith(f"Run {Path(command[2]).name}: ")


def test_the_same_runs_give_the_same_pages(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", str(runs), "--by", "session_timeout_ms,fault", "--baseline", "session_timeout_ms=2000"]
    printed = []
    for number in ("1", "2"):
        assert main([*command, "--html", str(tmp_path / f"{number}.html")]) == 0
        printed.append(capsys.readouterr().out.replace(f"{number}.html", "html"))
    assert printed[0] == printed[1]
    assert (tmp_path / "1.html").read_bytes() == (tmp_path / "2.html").read_bytes()
    assert (tmp_path / "1.html").read_text().startswith("<!DOCTYPE html>")


def test_everything_as_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs), "--by", "session_timeout_ms", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert [each["settings"] for each in page["groups"]] == [
        {"session_timeout_ms": "2000"},
        {"session_timeout_ms": "6000"},
    ]
    assert all(each["quantities"]["detection"]["n"] == 2 for each in page["groups"])


def test_runs_of_an_earlier_release_are_grouped_by_what_their_records_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("run-1", tmp_path / "one")
    write("run-2", tmp_path / "two")
    assert main(["compare", str(tmp_path), "--by", "brokers,world"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("2 runs, 2 failovers, 1 group by brokers, world")
    assert "3 · unknown" in page
    assert f"understudy replay {tmp_path / 'one'}\n" in page


def test_a_file_with_records_of_two_runs_is_measured_with_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write("run-1", tmp_path / "one") / "broker-2-0001-0001.jsonl"
    other = write("run-2", tmp_path / "two") / "broker-2-0001-0001.jsonl"
    log.write_bytes(log.read_bytes() + other.read_bytes())
    other.unlink()
    assert main(["compare", str(tmp_path), "--by", "world", "--json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert (group["runs"], group["failovers"]) == (2, 2)


def test_damage_to_the_logs_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write("run-1", tmp_path / "one") / "broker-2-0001-0001.jsonl"
    log.write_bytes(log.read_bytes()[:-20])
    assert main(["compare", str(tmp_path), str(tmp_path / "missing"), "--by", "world"]) == 0
    assert "Logs: 2 findings" in capsys.readouterr().out


def test_a_run_without_the_log_of_a_broker_is_left_out_and_used_if_it_is_asked_for(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    cut = min(path.name for path in Path("runs").iterdir())
    shutil.rmtree(Path("runs") / cut / "broker-2")
    command = ["compare", "runs", "--by", "brokers"]
    assert main(command) == 0
    head = capsys.readouterr().out.splitlines()[:4]
    assert head[0] == "3 runs, 3 failovers, 1 group by brokers"
    assert head[1] == "  1 run left out, because records are missing; --incomplete also uses runs with missing records"
    assert re.fullmatch(rf"    {cut}: (broker-2|a controller) lacks records: .*", head[2])
    assert head[3] == f"      understudy replay runs/{cut}"
    assert main([*command, "--incomplete"]) == 0
    head = capsys.readouterr().out.splitlines()[:2]
    assert head[0].startswith("4 runs, ")
    assert head[1].startswith("  1 run used in spite of missing records, without ")
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["incomplete"]
    assert (found["used"], [run["run"] for run in found["runs"]]) == (False, [cut])


def test_runs_that_all_lack_a_log_are_refused_with_the_advice_to_bring_it(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = min(runs.iterdir())
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "broker-2")
    assert main(["compare", str(tmp_path / "run"), "--by", "brokers"]) == 2
    message = capsys.readouterr().err
    assert f"none of the runs is complete, for example {run.name}: " in message
    assert f"; `understudy replay {tmp_path / 'run'}` lists all. Bring the missing event logs; --incomplete" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "colour"], "--by: colour is no setting; the settings are world, brokers, partitions, "),
        (["--by", "world", "--baseline", "colour=1"], "--baseline: colour is no setting"),
        (["--by", "world", "--baseline", "brokers=3"], "--baseline names brokers, by which the runs are not grouped"),
        (["--by", "brokers", "--baseline", "brokers=4"], "--baseline brokers=4 matches no run: brokers is 3"),
        (["--by", "brokers", "--html", "no/such/folder/page.html"], "give a file that can be written"),
    ],
)
def test_what_cannot_be_compared_is_named(
    runs: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(runs), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_wrong_setting_is_named_before_the_logs_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(tmp_path / "missing"), "--by", "colour"]) == 2
    assert "colour is no setting" in capsys.readouterr().err


def test_folders_without_a_run_or_a_failover_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(tmp_path), "--by", "world"]) == 2
    assert "there is no run to compare; expected event-log files (*.jsonl)" in capsys.readouterr().err
    for name, lines in RandomRun(1, records=1).logs.lines.items():
        (tmp_path / name).write_bytes(b"".join(lines))
    assert main(["compare", str(tmp_path), "--by", "world"]) == 2
    assert "none of the runs has a failover" in capsys.readouterr().err


def test_different_runs_with_one_id_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        for file, lines in RandomRun(seed, records=50, run="same").logs.lines.items():
            (tmp_path / name / file).write_bytes(b"".join(lines))
    assert main(["compare", str(tmp_path), "--by", "world"]) == 2
    message = capsys.readouterr().err
    assert "run id 'same' is used by different runs: " in message
    assert f"{tmp_path}/one/" in message
    assert f"{tmp_path}/two/" in message
    assert "differ; leave one of them out" in message


@pytest.mark.parametrize("baseline", ["brokers", "brokers=3,brokers=4"])
def test_a_baseline_that_is_no_value_of_a_setting_is_refused(
    baseline: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["compare", str(runs), "--by", "brokers", "--baseline", baseline])
    assert "--baseline" in capsys.readouterr().err


def test_spark_reads_one_folder_of_tables(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", str(runs), str(runs), "--by", "brokers", "--spark", "local[1]"])
    assert "--spark reads the tables of one folder" in capsys.readouterr().err


def test_without_numpy_the_extra_is_named(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("understudy.cli.analysis", "understudy.history.compare"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert main(["compare", str(runs), "--by", "world"]) == 1
    assert "NumPy is needed, which is not installed: pip install 'kafka-understudy[spark]'" in capsys.readouterr().err


def test_a_dot_leads_to_the_page_of_its_run(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", str(runs), "--by", "session_timeout_ms", "--html", str(tmp_path / "sweep.html"), "--pages"]
    assert main(command) == 0
    html = (tmp_path / "sweep.html").read_text(encoding="utf-8")
    found = dict(re.findall(r'<a href="(sweep\.pages/\d\.html)"[^>]*><circle [^>]*data-run="([^"]+)"', html))
    assert sorted(found.values()) == sorted(folder.name for folder in runs.iterdir())
    for page, run in found.items():
        assert f'"run":"{run}"' in (tmp_path / page).read_text(encoding="utf-8")
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main([*command[:4], "--pages"])
    assert "--pages needs --html" in capsys.readouterr().err
