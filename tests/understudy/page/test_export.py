"""The page of a run as one file: whole, small, and with nothing in it that a log could do."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.foundation.eventlog.lines import Logs
from understudy.cli.main import main
from understudy.foundation.eventlog.records import (
    FaultInjected,
    HighWatermarkChanged,
    RequestSent,
    StepReached,
    TopicsChanged,
)
from understudy.history.reading.reader import read
from understudy.page.export import TooLarge, page_of
from understudy.page.recorded.runs import NoSuchRun
from understudy.page.recorded.window import SETTLING_US, Window
from understudy.page.static_files import FOLDER
from understudy.trials.seeds.seeds import run_seed

HOSTILE = "</script><script>alert(1)</script><!--<script>\r\n\u2028'\"&amp;"


class Elements(HTMLParser):
    """The elements of a page, as a browser would parse them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.scripts: list[dict[str, str | None]] = []
        self.tags: list[str] = []
        self._open = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "script":
            self.scripts.append(dict(attrs))
            self._open = dict(attrs).get("id") or ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open] = self.texts.get(self._open, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._open = ""


def facts_and_records(html: str) -> tuple[dict[str, Any], list[list[Any]]]:
    texts = Elements(html).texts
    facts = json.loads(texts["run"])
    chunks = [gzip.decompress(base64.b64decode(texts[f"chunk-{number}"])) for number in range(facts["chunks"])]
    return facts, [record for chunk in chunks for record in json.loads(chunk)]


def written(logs: Logs, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, lines in logs.lines.items():
        (folder / name).write_bytes(b"".join(lines))
    return folder


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulated")
    run_seed(7, 20, events=folder)
    return folder


def test_a_file_has_every_record_in_order(simulated: Path) -> None:
    facts, records = facts_and_records(page_of([simulated]))
    expected = read([simulated]).records
    assert [tuple(record[1:4]) for record in records] == [(each.node, each.incarnation, each.seq) for each in expected]
    assert (facts["records"], facts["is_live"], facts["can_command"]) == (len(expected), False, False)
    assert facts["findings"] == []


def test_a_file_is_not_much_larger_than_its_log_compressed(simulated: Path) -> None:
    log = b"".join(path.read_bytes() for path in sorted(simulated.rglob("*.jsonl")))
    assert len(page_of([simulated])) <= 1.5 * len(gzip.compress(log, 9)) + 360_000


def test_a_file_has_no_address_but_those_of_its_own_modules(simulated: Path) -> None:
    html = re.sub(r"(base64,|sha256-)[\w+/=]+|>[\w+/=]+</script>", "", page_of([simulated]))
    assert "//" not in html.replace("<!doctype", "")
    parsed = Elements(html)
    of_the_page = Elements((FOLDER / "index.html").read_text()).tags
    assert set(parsed.tags) <= {*of_the_page, "style"}
    assert all("src" not in script for script in parsed.scripts)


def test_names_in_a_log_are_never_markup(tmp_path: Path) -> None:
    logs = Logs(run=f"run-{HOSTILE}")
    logs.at(1000, "broker-1", TopicsChanged(new=(HOSTILE,), deleted=()))
    logs.at(1001, f"broker-{HOSTILE}", StepReached(step=HOSTILE, note=HOSTILE))
    folder = written(Logs(), tmp_path / "<b>")
    for number, lines in enumerate(logs.lines.values()):
        (folder / f"node{number}-0001-0001.jsonl").write_bytes(b"".join(lines) + HOSTILE.encode() + b"\n\n")
    html = page_of([folder])
    facts, records = facts_and_records(html)
    assert facts["run"] == f"run-{HOSTILE}"
    assert facts["title"] == "<b>"
    assert len(facts["findings"]) > 0
    assert records[0][8]["new"] == [HOSTILE]
    assert records[1][1] == f"broker-{HOSTILE}"
    harmless = Elements(page_of([written(killed(), tmp_path / "harmless")]))
    assert Elements(html).tags == harmless.tags
    assert "alert(1)</script" not in html


def killed() -> Logs:
    logs = Logs()
    logs.at(1000, "testbed", FaultInjected(fault="kill", target="broker-1"))
    return logs


def test_a_run_that_is_too_large_is_refused_with_the_offer_of_a_part(simulated: Path) -> None:
    with pytest.raises(TooLarge) as refused:
        page_of([simulated], most_bytes=10_000)
    message = str(refused.value)
    assert re.search(
        r"have \d{5} bytes when compressed, and a file may have 10000; choose a part of its \d+\.\d s", message
    )
    assert "--from SECONDS and --to SECONDS" in message
    assert page_of([simulated], window=Window(0, 150_000), most_bytes=10_000)


# ------------------------------------------------------------------ a part of a run


def test_a_part_has_its_records_and_those_that_its_state_is_made_of(tmp_path: Path) -> None:
    logs = Logs()

    def second(number: float) -> float:
        return 1000 + number * 1000

    for number in range(3):
        logs.at(second(number), "broker-1", watermark(number))
        logs.at(second(number), "broker-1", sent(number))
        logs.at(second(number), "testbed", StepReached(step=f"step {number}"))
    logs.at(second(15), "broker-1", sent(15))
    logs.at(second(20), "testbed", StepReached(step="step 20"))
    logs.at(second(30), "testbed", StepReached(step="step 30"))
    window = Window(20_000_000, 25_000_000)
    assert SETTLING_US == 10_000_000
    facts, records = facts_and_records(page_of([written(logs, tmp_path)], window=window))
    shown = [(record[0] / 1e6 - 1, record[4]) for record in records]
    assert shown == [
        (0, "HighWatermarkChanged"),  # moments count from it
        (0, "StepReached"),
        (1, "StepReached"),
        (2, "HighWatermarkChanged"),
        (2, "StepReached"),
        (15, "RequestSent"),
        (20, "StepReached"),
    ]
    assert facts["window"] == [21_000_000, 26_000_000]


def watermark(offset: int) -> HighWatermarkChanged:
    return HighWatermarkChanged(
        topic="orders",
        topic_id="id",
        partition=0,
        role="leader",
        leader_epoch=0,
        high_watermark=offset,
        log_end_offset=offset,
    )


def sent(number: int) -> RequestSent:
    return RequestSent(to=2, api="StopReplica", api_version=4, client_id="c", correlation_id=number)


# ------------------------------------------------------------------ the command line


def test_the_command_writes_a_file_and_says_how_large_it_is(
    simulated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "page.html"
    assert main(["page", str(simulated), "-o", str(output)]) == 0
    assert capsys.readouterr().out == f"{output}  {output.stat().st_size:,} bytes; open it in a browser\n"
    whole = output.read_text()
    assert main(["page", str(simulated), "-o", str(output), "--from", "1", "--to", "2.5"]) == 0
    assert len(output.read_text()) < len(whole)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            "nowhere",
            2,
            "nowhere has no event log that can be read: no event-log files: no such file or folder (nowhere",
        ),
        ("SIM --run-id other", 2, "has no run 'other'; it has seed-7"),
        ("SIM --from 3 --to 2", 2, "--to 2 is not after --from 3"),
        ("SIM -o nowhere/page.html", 1, "--output nowhere/page.html: No such file or directory"),
    ],
)
def test_what_cannot_be_written_is_named(
    simulated: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: str,
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["page", *options.replace("SIM", str(simulated)).split()]) == code
    assert message in capsys.readouterr().err


def test_one_of_several_runs_must_be_chosen(tmp_path: Path) -> None:
    for run in ("first", "second"):
        logs = Logs(run=run)
        logs.at(1000, "testbed", StepReached(step=run))
        written(logs, tmp_path / run)
    with pytest.raises(NoSuchRun, match="has the logs of 2 runs; choose one by --run-id: first, second"):
        page_of([tmp_path])
    facts, records = facts_and_records(page_of([tmp_path], "second"))
    assert (facts["run"], [record[8]["step"] for record in records]) == ("second", ["second"])
