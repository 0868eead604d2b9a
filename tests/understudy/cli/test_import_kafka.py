"""`understudy import-kafka`: its options, what it prints, and input that it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.understudy.history.kafka_logs.cluster_logs import SAMPLES
from tests.understudy.history.kraft_logs.metadata_logs import change, three_brokers
from understudy.cli.main import main
from understudy.foundation.wire.messages.cluster_metadata import FeatureLevelRecord
from understudy.history.kraft_logs.segments import PARTITION
from understudy.history.metrics.metrics import measure
from understudy.history.reading.reader import read

LINE = "[2026-05-01 12:00:00,000] INFO [Controller id=1] {} (kafka.controller.KafkaController)\n"
ELECTED = "1 successfully elected as the controller. Epoch incremented to 5 and epoch zk version is now 7"


@pytest.fixture
def controller_log(tmp_path: Path) -> Path:
    path = tmp_path / "controller.log"
    path.write_text(LINE.format(ELECTED) + LINE.format("Something new"))
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run the command, which must end with exit code 2 and one sentence; return that."""
    assert main(["import-kafka", *map(str, arguments)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    return output.err


def test_what_is_printed(controller_log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "events"
    assert main(["import-kafka", "--controller-log", str(controller_log), "--dir", str(output), "--verbose"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "run kafka-20260501-120000, broker 1: 2 lines and 0 transactions became 1 record",
        "          1  ControllerElected",
        "entries: 1 understood, 0 known to add nothing",
        "entries not understood: 1, by class",
        "          1  kafka.controller.KafkaController",
        f"             {controller_log}:2: [Controller id=1] Something new",
        "note: the clocks of all machines are taken as one",
        f"event logs in {output}; next: understudy replay {output}",
    ]


def test_zone_pattern_and_run(tmp_path: Path) -> None:
    log = tmp_path / "any-name"
    log.write_text(f"2026-05-01 12:00:00.000 kafka.controller.KafkaController INFO - [Controller id=1] {ELECTED}\n")
    pattern = "%d{yyyy-MM-dd HH:mm:ss.SSS} %c %p - %m%n"
    options = ["--pattern", pattern, "--timezone", "Europe/Berlin", "--run", "incident"]
    assert main(["import-kafka", "--controller-log", str(log), *options, "--dir", str(tmp_path / "events")]) == 0
    (record,) = read([tmp_path / "events"]).records
    assert record.run == "incident"
    assert record.wall_ms == 1_777_629_600_000.0  # 10:00 UTC


def test_a_folder_of_a_broker_holds_all_its_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import-kafka", "--broker", f"3={SAMPLES / 'broker-3'}", "--dir", str(tmp_path / "events")]) == 0
    printed = capsys.readouterr().out
    assert ", broker 3: " in printed
    assert "more classes; --verbose lists them" in printed
    assert {record.node for record in read([tmp_path / "events"]).records} == {"broker-3"}


def test_nothing_to_import_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no log is named; give --log, --broker or --zookeeper-log" in refused(capsys, "--dir", tmp_path / "events")
    empty = tmp_path / "controller.log"
    empty.touch()
    arguments = ("--controller-log", empty, "--dir", tmp_path / "more")
    assert "there is nothing to import: the logs have no entry" in refused(capsys, *arguments)


def test_an_output_folder_that_is_not_new_is_refused(controller_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "--controller-log", controller_log, "--dir", controller_log.parent)
    assert f"--dir {controller_log.parent}: it holds controller.log; give a new folder" in message
    assert "File exists" in refused(capsys, "--controller-log", controller_log, "--dir", controller_log)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--timezone", "Mars/Olympus"], "'Mars/Olympus' is no time zone; expected a name such as Europe/Berlin"),
        (["--pattern", "%p %m"], "the pattern '%p %m' lacks a time (%d) followed by a message (%m)"),
        (["--pattern", "%d %m"], "controller.log:1: no line has the pattern '%d %m'"),
        (["--zookeeper-log", "nowhere"], "nowhere holds no log.* file; expected ZooKeeper's version-2 folder"),
        (["--broker", "1=nowhere"], "nowhere: No such file or directory; expected a folder with the logs"),
        (["--server-log", "nowhere"], "nowhere: it cannot be read: No such file or directory"),
    ],
)
def test_options_that_cannot_be_used_are_named(
    controller_log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], why: str
) -> None:
    assert why in refused(capsys, "--controller-log", controller_log, *options, "--dir", tmp_path / "events")


@pytest.mark.parametrize("text", ["1", "one=logs", "1=", "=logs"])
def test_a_broker_needs_an_id_and_a_folder(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["import-kafka", "--broker", text, "--dir", str(tmp_path / "events")])
    assert f"{text!r} is not ID=DIR, for example 1=/var/log/kafka" in capsys.readouterr().err


def test_a_broken_transaction_log_is_named(
    controller_log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "version-2").mkdir()
    (tmp_path / "version-2" / "log.1").write_bytes(b"this is no transaction log")
    options = ("--controller-log", controller_log, "--zookeeper-log", tmp_path / "version-2")
    assert "log.1 starts with b'this'" in refused(capsys, *options, "--dir", tmp_path / "events")


def test_a_log_whose_clock_goes_back_is_refused_before_a_record_is_written(
    controller_log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with controller_log.open("a") as log:
        log.write(LINE.format("late").replace("12:00:00", "11:00:00"))
    message = refused(capsys, "--controller-log", controller_log, "--dir", tmp_path / "events")
    assert f"{controller_log}:3: the clock goes back by 1 h" in message
    assert list((tmp_path / "events").iterdir()) == []


def printed(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> list[str]:
    assert main(["import-kafka", *arguments, "--dir", str(folder)]) == 0
    return capsys.readouterr().out.splitlines()


def samples(*brokers: int) -> list[str]:
    return [f"--broker={broker}={SAMPLES / f'broker-{broker}'}" for broker in brokers]


def test_the_wall_clock_of_each_broker_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, tmp_path / "several", *samples(1, 2, 3))
    begin = lines.index("wall clocks: the time added to each for the time of the run, and by how much it may be wrong")
    assert lines[begin + 1 : begin + 4] == [
        "  broker 1: the reference, 70 pairs",
        "  broker 2: +0.0 ms ± 12.0 to 35.8 ms, 52 pairs",
        "  broker 3: +0.0 ms ± 17.3 to 41.3 ms, 46 pairs",
    ]
    assert "note: the clocks of all machines are taken as one" not in lines


def test_logs_of_one_machine_have_one_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, tmp_path / "one", "--one-clock", *samples(1, 2, 3))
    assert not any("wall clocks" in line for line in lines)
    assert "note: the clocks of all machines are taken as one" in lines
    capsys.readouterr()
    assert main(["replay", "--engine", "python", str(tmp_path / "one")]) == 0
    assert "±" not in capsys.readouterr().out


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_broker_without_logs_is_named(lost: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, tmp_path / "two", *samples(*{1, 2, 3} - {lost}))
    assert any(line.startswith(f"records missing: broker-{lost}, from 0.000 s to ") for line in lines)
    assert not any(line.startswith("records missing:") for line in printed(capsys, tmp_path / "all", *samples(1, 2, 3)))


# -- KRaft


def test_what_is_printed_about_a_kraft_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = three_brokers()
    log.add(900, b"\1\x63\0\0", b"\1\4\0\2\1a\1a\1a\0", FeatureLevelRecord(name="metadata.version", feature_level=21))
    folder, output = log.write(tmp_path / "node-1"), tmp_path / "events"
    assert main(["import-kafka", "--metadata-log", str(folder), "--dir", str(output)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "run kafka-20260921-141320, broker-1, broker-2, broker-3: 16 metadata records in 11 batches became 16 records",
        "          3  BrokerRegistered",
        "          3  BrokersChanged",
        "          1  ControllerElected",
        "          1  ControllerReady",
        "          2  LeadershipWritten",
        "          2  PartitionsAssigned",
        "          1  RunDescribed",
        "          1  StillRunning",
        "          2  TopicsChanged",
        "metadata records known to add nothing:",
        "          1  ConfigRecord",
        "          1  NoOpRecord",
        "metadata records not decoded:",
        "          1  record type 99: the type is unknown",
        "features: metadata.version 21",
        f"event logs in {output}; next: understudy replay {output}",
    ]


def test_metadata_logs_of_several_nodes_with_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = three_brokers()
    cut = log.write(tmp_path / "a") / PARTITION / f"{0:020}.log"
    whole = log.write(tmp_path / "with=sign")
    cut.write_bytes(cut.read_bytes()[:-1])
    logs = [f"1={tmp_path / 'a'}", str(whole / PARTITION)]
    assert main(["import-kafka", "--metadata-log", *logs, "--run", "x", "--dir", str(tmp_path / "events")]) == 0
    assert f"note: {cut}, position " in capsys.readouterr().out
    assert {record.run for record in read([tmp_path / "events"]).records} == {"x"}


@pytest.mark.parametrize(
    "other",
    [("--zookeeper-log", "version-2"), ("--zookeeper-chroot", "/k")],
)
def test_zookeeper_beside_the_log_of_a_quorum_is_refused(
    other: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = three_brokers().write(tmp_path / "node-1")
    error = refused(capsys, "--metadata-log", folder, *other, "--dir", tmp_path / "events")
    assert f"--metadata-log is of a KRaft cluster and {other[0]} of one in ZooKeeper mode" in error
    assert not (tmp_path / "events").exists()


def test_a_metadata_log_that_cannot_be_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(capsys, "--metadata-log", tmp_path, "--dir", tmp_path / "events")
    assert f"{tmp_path} holds no log of {PARTITION}; expected a node's folder" in error
    with pytest.raises(SystemExit, match="2"):
        main(["import-kafka", "--metadata-log", "1=", "--dir", str(tmp_path / "others")])
    assert "'1=' is not NODE=DIR" in capsys.readouterr().err


def test_the_lines_of_kraft_nodes_beside_the_log_of_their_quorum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = ["--metadata-log", str(three_brokers().write(tmp_path / "node-1"))]
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-09-21 16:13:21,000] INFO [QuorumController id=1] Becoming the active controller at epoch 1, next write "
        "offset 1. (org.apache.kafka.controller.QuorumController)\n"
    )
    lines = ["--log", str(log), "--timezone", "Europe/Berlin"]
    assert main(["import-kafka", *metadata, *lines, "--dir", str(tmp_path / "events")]) == 0
    assert "entries: 1 of 1 understood" in capsys.readouterr().out
    error = refused(capsys, "--log", log, "--dir", tmp_path / "others")
    assert f"{log}:1: a line of a KRaft cluster; give the log of its quorum as well, with --metadata-log" in error


def test_the_session_timeout_of_a_kraft_cluster_may_be_given(tmp_path: Path) -> None:
    log = three_brokers()
    log.fence(30_000, 2, change(1, leader=3, isr=(3, 1)))
    log.add(31_000)
    metadata = ["--metadata-log", str(log.write(tmp_path / "node-1")), "--broker-session-timeout", "9000"]
    assert main(["import-kafka", *metadata, "--dir", str(tmp_path / "events")]) == 0
    numbers = measure("kraft", read([tmp_path / "events"]).records)
    assert [row.leaderless_ms for row in numbers.partitions] == [0.0, 0.0, 9_000.0]
