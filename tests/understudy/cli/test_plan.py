"""Tests of `understudy plan`: each command of docs/guides/planning.md prints what the page shows, and errors are
clear."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from understudy.cli.main import main

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "planning.md"
EXAMPLES = re.findall(
    r"^```\n\$ understudy ([^\n]+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


def test_page_has_examples_of_everything() -> None:
    commands = " ".join(command for command, _ in EXAMPLES)
    assert len(EXAMPLES) >= 7
    for word in ("replicas", "keys", "members", "--join", "--leave", "cooperative-sticky", "--rack", "--grown-to"):
        assert word in commands


@pytest.mark.parametrize(("command", "output"), EXAMPLES)
def test_command_of_the_page_prints_what_the_page_shows(
    command: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out == output


def test_page_for_a_browser(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "plan.html"
    line = f"plan assignment replicas --rack a<b=0 c=1 --partitions 2 --replication-factor 1 --html {page}"
    assert main(line.split()) == 0
    assert capsys.readouterr().out == f"{page}\n"
    text = page.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "a&lt;b" in text
    assert "a<b" not in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("plan", "the following arguments are required: PLAN"),
        ("plan assignment", "the following arguments are required: WHAT"),
        ("plan assignment replicas --partitions 1", "one of the arguments --brokers --rack is required"),
        ("plan assignment replicas --brokers 2-1 --partitions 1", "'2-1' is not a list of at most 1000 broker ids"),
        ("plan assignment replicas --brokers 1,1 --partitions 1", "'1,1' has a broker twice"),
        ("plan assignment replicas --brokers 0-1000 --partitions 1", "'0-1000' is not a list of at most 1000"),
        ("plan assignment replicas --rack r1 --partitions 1", "'r1' is not NAME=IDS, for example r1=0-2"),
        ("plan assignment replicas --brokers 1 --partitions 0", "'0' is not a whole number from 1 to 10000"),
        ("plan assignment replicas --brokers 1 --partitions 10001", "'10001' is not a whole number"),
        ("plan assignment members --topic t --member a", "'t' is not NAME:PARTITIONS, for example orders:10"),
        ("plan assignment members --topic t:1 --member a --order t", "'t' is not TOPIC-PARTITION"),
    ],
)
def test_wrong_command_line_ends_with_2(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("replicas --rack r1=0 r2=0 --partitions 1", "--rack r2: broker 0 is in r1 already; name each broker once"),
        ("replicas --brokers 0,1 --partitions 1", "replication factor 3, but there are 2 brokers"),
        ("keys --partitions 3", "no key: give some, or --without-key N"),
        ("members --topic t:1 t:2 --member a", "--topic t: it is given twice"),
        ("members --topic t:9000 u:9000 --member a", "18000 partitions; expected at most 10000 in all"),
        ("members --topic t:1 --member a --leave b", "--leave b: no such member"),
    ],
)
def test_what_does_not_exist_ends_with_2(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "assignment", *line.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith("understudy plan: ")
    assert message in error


def test_page_that_cannot_be_written_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"plan assignment keys --partitions 3 a --html {tmp_path / 'no' / 'plan.html'}"
    assert main(line.split()) == 1
    assert "No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--target 500MB/s", "give --bootstrap-server, or both --producer-rate and --consumer-rate"),
        ("--target 500MB/s --producer-rate 10MB/s", "give --bootstrap-server, or both"),
        (
            "--target 5MB/s --producer-rate 1 --consumer-rate 1 --bootstrap-server a:9092",
            "nothing is left to measure; leave out --bootstrap-server",
        ),
        (
            "--target 5MB/s --producer-rate 1 --consumer-rate 1 --brokers 2",
            "replication factor 3, but there are 2 brokers",
        ),
    ],
)
def test_partitions_that_cannot_be_planned_end_with_2(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "partitions", *line.split()]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("rate", ["0", "-5MB/s", "fast", "5 parsecs/s", "nan"])
def test_a_rate_that_is_none_ends_with_2(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "partitions", f"--target={rate}"])
    assert ended.value.code == 2
    assert "is not a rate above 0, for example 500MB/s" in capsys.readouterr().err


@pytest.mark.parametrize(("rate", "expected"), [("500", 500), ("2GB/s", 2_000), ("1MiB/s", 1.048576), ("50 kb", 0.05)])
def test_rates_have_units(rate: str, expected: float, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["plan", "partitions", f"--target={rate}", "--producer-rate=10", "--consumer-rate=10", "--json"]
    assert main(line) == 0
    assert json.loads(capsys.readouterr().out)["target_mb_per_s"] == expected
