"""The verb `lesson`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.shares import at_night
from understudy.cli.main import main
from understudy.clusters.java import JavaNotFound, choose_java
from understudy.history.lake.layout import is_lake
from understudy.trials.lessons import library
from understudy.trials.lessons.library import FILES, RECORDED, names
from understudy.trials.lessons.template import template


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["lesson", *arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_without_a_name_it_lists_the_lessons(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(capsys)
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()] == list(names())


def test_a_recorded_lesson_is_told_with_answers_from_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("answers").write_text("2\n2\n")
    code, out, _ = command(capsys, "zombie", "--recorded", "--answers", "answers")
    assert code == 0
    assert "Lesson 3: The zombie" in out
    assert out.count("You answered 2: right.") == 2
    assert "broker-3 fence broker.controller-epoch refuses LeaderAndIsr from 1" in out
    assert "is switched off and lets pass" in out
    assert out.index("Predict:") < out.index("refuses LeaderAndIsr") < out.index("Check:") < out.index("Read:")


def test_without_answers_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(capsys, "3", "--recorded")
    assert code == 0
    assert "You answered" not in out
    assert "The answer: It sends them, and the brokers refuse them." in out


@pytest.mark.parametrize("world", ["--recorded", "--simulated"])
def test_a_side_that_is_only_recorded_is_shown_with_its_origin(capsys: pytest.CaptureFixture[str], world: str) -> None:
    code, out, _ = command(capsys, "kraft", world)
    assert code == 0
    assert "KRaft (recorded)" in out
    origin = r"A recording of Apache Kafka 4\.\S+, of 20\d\d-\d\d-\d\d\. Such a run is made by: understudy sweep"
    assert re.search(origin, " ".join(out.split()))


def test_another_seed_changes_only_the_side_that_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [command(capsys, "kraft", "--simulated", "--seed", seed)[1] for seed in ("1", "2")]
    (one, other), (one_again, other_again) = (text.split("KRaft (recorded)\n") for text in texts)
    assert one.split("ZooKeeper mode (simulated)")[1] != one_again.split("ZooKeeper mode (simulated)")[1]
    assert other == other_again


def test_to_record_keeps_the_side_that_is_not_simulated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = RECORDED / "kraft.tar.xz"
    monkeypatch.setattr(library, "RECORDED", tmp_path)
    code, _, err = command(capsys, "kraft", "--record")
    assert code != 0
    assert "there is no recording of 'KRaft', and this side is not simulated; make a run with `understudy sweep" in err
    shutil.copy(kept, tmp_path)
    code, out, _ = command(capsys, "kraft", "--record")
    assert code == 0
    assert "KRaft: the recording is kept: Apache Kafka 4." in out
    assert "made by understudy sweep --processes" in out
    assert (tmp_path / kept.name).read_bytes() == kept.read_bytes()


def test_simulated_twice_is_the_same_text(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (command(capsys, "takeover", "--simulated")[1] for _ in range(2))
    assert first == second
    assert "Lesson 2" in first


def test_the_document_names_runs_that_stay(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(capsys, "zombie", "--recorded", "--json", "-o", "kept")
    assert code == 0
    document = json.loads(out)
    assert document["name"] == "zombie"
    assert document["source"] == "recorded"
    for side in document["sides"]:
        assert list(Path(side["run"]).rglob("*.jsonl"))
        for stop in side["stops"]:
            node, incarnation, seq = stop["record"]
            assert (type(node), type(incarnation), type(seq)) == (str, int, int)
    assert document["predict"]["right_choice"] == 1


def test_a_new_lesson_can_be_checked_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "new", "mine")[0] == 0
    assert Path("mine.yaml").read_text() == template("mine")
    assert command(capsys, "check", "mine.yaml")[:2] == (
        0,
        "mine.yaml: The controller is killed: 3 stops, nothing wrong; run it with --simulated\n",
    )
    code, out, _ = command(capsys, "mine.yaml", "--simulated")
    assert code == 0
    assert "Finding out that it is gone." in out
    assert command(capsys, "new", "mine")[0] == 1


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(command(capsys, "schema")[1])["title"] == "A lesson of Understudy"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("zombi",), 3, "did you mean 'zombie'"),
        (("zombie", "takeover"), 2, "one lesson at a time"),
        (("check",), 2, "takes one name"),
        (("check", "none.yaml"), 3, "cannot be read"),
        (("zombie", "--recorded", "--seed", "4"), 2, "recorded runs have the seed 1"),
        (("zombie", "--record", "--other", "runs/one"), 2, "a lesson whose other side has the key `recording`"),
        (("kraft", "--simulated", "--other", "runs/one"), 2, "--other runs/one: it is for --record"),
        (("kraft", "--site", "site", "--other", "runs/one"), 2, "leave --other out"),
        (("zombie", "--recorded", "--answers", "none"), 2, "one answer in a line"),
        (("zombie", "--port", "127.0.0.1:0"), 2, "give --watch with it"),
        (("zombie", "--watch", "--json"), 2, "either written or served"),
        (("zombie", "--recorded", "--watch", "--port", "0.0.0.0:0"), 2, "stands for every address"),
        (("zombie", "--recorded", "--class", "0.0.0.0"), 2, "the class cannot be served on 0.0.0.0"),
        (("zombie", "--recorded", "--class", "127.0.0.1", "--json"), 2, "either written or served"),
        (("zombie", "--class", "127.0.0.1", "--port", "192.0.2.1:0"), 2, "has to stay on this machine"),
    ],
)
def test_bad_input_is_named(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, says: str
) -> None:
    found, _, err = command(capsys, *arguments)
    assert found == code
    assert says in err


def test_a_folder_that_is_not_empty_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("kept").mkdir()
    Path("kept/file").write_text("")
    code, _, err = command(capsys, "zombie", "--recorded", "-o", "kept")
    assert code == 2
    assert "kept is not empty" in err


def test_without_java_the_sweeps_are_measured_in_python_which_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_JAVA_HOME", "/nowhere")
    text = next(FILES.glob("*-two-hundred-runs.yaml")).read_text(encoding="utf-8")
    Path("few.yaml").write_text(text.replace("runs: 100", "runs: 3"))
    code, out, err = command(capsys, "few.yaml", "--simulated", "--json", "-o", "kept")
    assert code == 0
    assert "UNDERSTUDY_JAVA_HOME=/nowhere" in err
    for side in json.loads(out)["sides"]:
        assert len(side["table"]) == side["numbers"]["runs"] == 3
        assert side["measured_by"].startswith("Python, which gives the numbers of Spark")
        assert "/nowhere" in side["measured_by"]


@pytest.mark.representative("a lesson")
@pytest.mark.xdist_group("spark lesson")
def test_with_java_they_are_measured_in_spark_and_the_lake_stays(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        choose_java()
    except JavaNotFound as reason:
        pytest.skip(f"Spark needs Java: {reason}")
    text = next(FILES.glob("*-two-hundred-runs.yaml")).read_text(encoding="utf-8")
    Path("few.yaml").write_text(text.replace("runs: 100", "runs: 3"))
    code, out, _ = command(capsys, "few.yaml", "--simulated", "--json", "-o", "kept")
    assert code == 0
    assert [side["measured_by"].split()[0] for side in json.loads(out)["sides"]] == ["Spark", "Spark"]
    assert is_lake(Path("kept/lake"))


@at_night("the page runs the same lesson on processes")
def test_the_zombie_on_processes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(capsys, "zombie", "--json", "-o", "kept")
    assert code == 0
    document = json.loads(out)
    assert document["source"] == "processes"
    assert [side["world"] for side in document["sides"]] == ["processes", "simulated"]
    refused = next(stop for stop in document["sides"][0]["stops"] if stop["name"] == "refused")
    assert refused["record"] is not None
    assert document["predict"]["right_choice"] == 1
