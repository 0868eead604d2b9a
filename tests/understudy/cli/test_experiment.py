"""`understudy experiment`: its actions, its output and its exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from understudy.cli.main import main
from understudy.trials.experiments.language.action_table import ACTIONS
from understudy.trials.experiments.language.library import names

SMALL = """\
schema: understudy/v1
name: small
cluster: {brokers: 3, session: 2s, topics: [{name: orders, partitions: 1}]}
steps:
  - {at: 1s, as: C, kill: controller, for: 3s}
lasts: 5s
"""


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["experiment", *arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def file(text: str) -> str:
    Path("small.yaml").write_text(text, encoding="utf-8")
    return "small.yaml"


def test_a_run_prints_its_steps_and_its_verdict_and_leaves_its_files(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(capsys, "run", file(SMALL), "--dir", "run")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "small on sim, seed 1"
    assert lines[-2] == "held: every expectation held"
    assert "failover from broker" in out
    assert json.loads(Path("run/verdict.json").read_text())["status"] == "held"
    ElementTree.parse("run/junit.xml")
    assert '<a href="page.html">' in Path("run/report.html").read_text(encoding="utf-8")
    assert list(Path("run").rglob("*.jsonl"))
    assert not Path("run/trace.json").exists()


def test_a_violation_is_linked_to_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(capsys, "run", file(SMALL), "--dir", "run", "--without", "zk.controller-epoch")
    assert code == 1
    link = re.search(r"^see it: (file:\S+page\.html)(#at=broker-\S+&show=\S+)$", out, re.MULTILINE)
    assert link is not None, out
    assert link[1] == Path("run/page.html").absolute().as_uri()
    assert f'href="page.html{link[2].replace("&", "&amp;")}"' in Path("run/report.html").read_text(encoding="utf-8")


def test_a_trace_is_written_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "run", file(SMALL), "--dir", "run", "--trace")[0] == 0
    assert json.loads(Path("run/trace.json").read_text())["traceEvents"]


def test_the_frozen_copy_gives_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = SMALL.replace("at: 1s", "at: 1s..2s").replace("for: 3s", "for: 3s..5s")
    command(capsys, "run", file(text), "--seed", "7", "--dir", "one")
    command(capsys, "run", "one/experiment.yaml", "--dir", "two")
    one, two = (json.loads(Path(name, "verdict.json").read_text()) for name in ("one", "two"))
    assert [step["done_ms"] for step in one["steps"]] == [step["done_ms"] for step in two["steps"]]
    assert one["records"] == two["records"]


def test_the_verdict_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(capsys, "run", file(SMALL), "--dir", "run", "--json")
    assert code == 0
    assert json.loads(out)["name"] == "small"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((", for: 3s}\nlasts: 5s", "}\nlasts: 5s\nexpect: {within: {L1: 10ms}}"), 1),
        (("lasts: 5s", "lasts: 5s\nexpect: {sometimes: [unclean-election]}"), 1),
        (("kill: controller, for: 3s", "resume: 1"), 2),
        (("kill: controller", "kil: controller"), 3),
    ],
)
def test_exit_codes(capsys: pytest.CaptureFixture[str], change: tuple[str, str], code: int) -> None:
    assert command(capsys, "run", file(SMALL.replace(*change)), "--dir", "run")[0] == code


def test_seeds_report_what_did_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(capsys, "run", file(SMALL), "--seeds", "1..3", "--dir", "run")
    assert code == 0
    assert out.startswith("seed 3: held")
    assert sorted(path.name for path in Path("run").iterdir()) == ["seed-1", "seed-2", "seed-3"]


def test_bad_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--seeds", "3..1"], ["--seeds", "3"], ["--engine", "simulator"]):
        with pytest.raises(SystemExit) as ended:
            main(["experiment", "run", file(SMALL), *wrong])
        assert ended.value.code == 2
    Path("full").mkdir()
    Path("full/file").touch()
    code, _, err = command(capsys, "run", file(SMALL), "--dir", "full")
    assert (code, "full is not empty" in err) == (2, True)
    code, _, err = command(capsys, "run", "kill-contoller")
    assert (code, "did you mean 'kill-controller'?" in err) == (3, True)


def test_an_engine_that_cannot_do_a_step_is_refused_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    text = SMALL.replace("kill: controller, for: 3s", "lose-power: controller, for: 3s")
    code, _, err = command(capsys, "run", file(text), "--engine", "real")
    assert code == 2
    assert "cannot do lose-power" in err
    assert not Path("runs").exists()


def test_explain_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(capsys, "explain", "zombie-controller-writes")
    assert code == 0
    assert "pause C when its controller next reaches the point partition.before_write" in out
    assert not Path("runs").exists()


def test_every_experiment_can_be_explained_and_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    _, listed, _ = command(capsys, "list")
    for name in names():
        assert command(capsys, "explain", name)[0] == 0
        assert f"\n{name} " in f"\n{listed}"


def test_new_writes_a_file_that_runs_and_overwrites_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "new", "mine")[0] == 0
    assert command(capsys, "explain", "mine.yaml")[0] == 0
    code, _, err = command(capsys, "new", "mine")
    assert (code, "File exists" in err) == (1, True)
    assert command(capsys, "new", "a b")[0] == 3


def test_the_schema_and_the_capabilities(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(command(capsys, "schema")[1])["title"] == "An experiment of Understudy"
    table = command(capsys, "capabilities")[1]
    assert all(f"\n{name} " in table for name in ACTIONS)
