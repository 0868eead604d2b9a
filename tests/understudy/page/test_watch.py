"""`understudy watch` and `understudy up --watch` with a running cluster."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.understudy.cli.terminal import UNDERSTUDY, Terminal, eventually, line_starting_with
from tests.understudy.page.served.test_live import line
from understudy.cli.main import main
from understudy.clusters.control.control_file import CONTROL_FILE
from understudy.foundation.eventlog.files import JsonLinesFiles


class Served(NamedTuple):
    """The page at an address, as a program sees it."""

    host: str
    token: str

    @classmethod
    def at(cls, printed: str) -> Served:
        found = re.search(r"http://(127\.0\.0\.1:\d+)/(?:#token=(\S+))?", printed)
        assert found is not None, printed
        return cls(found[1], found[2] or "")

    def get(self, path: str) -> Any:
        connection = http.client.HTTPConnection(self.host, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status == 200, text
        return json.loads(text)

    def post(self, path: str, body: object) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.host, timeout=200)
        headers = {"Origin": f"http://{self.host}", "Authorization": f"Bearer {self.token}"}
        connection.request("POST", path, body=json.dumps(body), headers=headers)
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found

    def records_until(self, is_last: Callable[[list[Any]], bool], after: int = 0) -> tuple[list[list[Any]], int]:
        """Read events until a record is the last one wanted; return the records and the id of the last event."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request("GET", "/events", headers={"Last-Event-ID": str(after)})
        answer = connection.getresponse()
        found: list[list[Any]] = []
        identity = 0
        try:
            for text in answer:
                if text.startswith(b"id: "):
                    identity = int(text[4:])
                elif text.startswith(b"data: ["):
                    found += json.loads(text[6:])
                    if any(is_last(record) for record in found):
                        return found, identity
        finally:
            connection.close()
        raise AssertionError("the stream ended before the record came")


@pytest.fixture
def watch() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [*UNDERSTUDY, "watch", *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ctrl_c(process: subprocess.Popen[str]) -> tuple[str, str]:
    os.killpg(process.pid, signal.SIGINT)
    return process.communicate(timeout=60)


def is_elected(record: list[Any]) -> bool:
    return bool(record[4] == "ControllerElected")


@pytest.mark.xdist_group("page")
def test_a_running_cluster_is_watched_and_commanded(
    tmp_path: Path, watch: Callable[..., subprocess.Popen[str]]
) -> None:
    up = Terminal(tmp_path / "run", "--brokers", "2", "--session-timeout-ms", "4000", "--watch")
    try:
        own = Served.at(line_starting_with("page", up.out))
        up.wait_until_up()
        watching = watch(str(up.folder))
        assert watching.stdout is not None
        other = Served.at(line_starting_with("page", watching.stdout))
        assert other.token != own.token

        facts = other.get("/run.json")
        assert (facts["is_live"], facts["can_command"], facts["brokers"]) == (True, True, [1, 2])
        assert facts["session_timeout_ms"] == 4000
        before, position = other.records_until(is_elected)

        assert own._replace(token="wrong").post("/control/verbs/kill", {"target": "controller"})[0] == 401
        status, answer = other.post("/control/verbs/kill", {"target": "controller"})
        assert (status, answer["verb"]) == (200, "kill")
        after, _ = other.records_until(is_elected, position)
        kinds = [record[4] for record in after]
        kill = next(record for record in after if record[4] == "FaultInjected" and record[8]["fault"] == "kill")
        elected = next(record for record in after if is_elected(record))
        assert kill[8]["target"] == before[[is_elected(record) for record in before].index(True)][1]
        assert elected[1] != kill[8]["target"]
        assert kinds.index("FaultInjected") < kinds.index("ControllerElected")
        eventually(lambda: own.get("/run.json")["records"] >= position + len(after), "both pages have the records")

        up.ctrl_c()
        assert up.process.wait(timeout=60) == 0
        eventually(lambda: not other.get("/run.json")["is_live"], "the page shows that the run has ended")
        assert not (up.folder / CONTROL_FILE).exists()
        assert other.post("/control/verbs/kill", {"target": "1"})[0] == 409
        ended = other.get("/run.json")
        assert (ended["findings"], ended["missing"], ended["clocks_note"]) == ([], [], "")
        _, err = ctrl_c(watching)
        assert (watching.returncode, err) == (0, "")
    finally:
        up.close()


def test_a_finished_run_is_shown_until_ctrl_c(tmp_path: Path, watch: Callable[..., subprocess.Popen[str]]) -> None:
    files = JsonLinesFiles(tmp_path / "broker-1" / "events", "broker-1")
    files.write(line(1, 1000.0))
    files.write(b"torn")
    process = watch(str(tmp_path))
    assert process.stdout is not None
    page = Served.at(line_starting_with("page", process.stdout))
    assert page.token == ""
    facts = page.get("/run.json")
    assert (facts["is_live"], facts["can_command"], facts["records"]) == (False, False, 1)
    assert [(found["file"], found["kind"]) for found in facts["findings"]] == [
        ("broker-1/events/broker-1-0001-0001.jsonl", "torn line")
    ]
    ctrl_c(process)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("nowhere", 2, "nowhere does not exist; give a run folder or the files of an event log"),
        (".", 2, ". has no event log that can be read: no event-log files (.); give a run folder or its log files"),
        ("log.jsonl --port 0.0.0.0:0", 1, "the page cannot be served on 0.0.0.0, which stands for every address"),
        ("log.jsonl --port 192.0.2.1:0", 1, "the page 192.0.2.1:0 cannot be opened: Cannot assign requested address"),
    ],
)
def test_what_cannot_be_watched_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: str,
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if "log.jsonl" in options:
        (tmp_path / "log.jsonl").write_bytes(line(1, 1000.0))
    assert main(["watch", *options.split()]) == code
    assert message in capsys.readouterr().err
