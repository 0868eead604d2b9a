"""`understudy lesson --class`: its address, a phone that votes, and the counts that Ctrl-C keeps."""

from __future__ import annotations

import argparse
import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.understudy.page.classroom.steps import PREDICT, body_of
from understudy.cli.lesson_class import ClassPlan, class_address, class_of
from understudy.page.classroom.qr_code import qr_lines


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.168.1.20", ("192.168.1.20", 0)),
        ("192.168.1.20:8000", ("192.168.1.20", 8000)),
        ("[fe80::1]", ("fe80::1", 0)),
        ("[fe80::1]:8000", ("fe80::1", 8000)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_an_address_has_a_port_or_any_free_one(text: str, address: tuple[str, int]) -> None:
    assert class_address(text) == address


@pytest.mark.parametrize("text", ["", ":8000", "192.168.1.20:port", "192.168.1.20:70000"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not"):
        class_address(text)


def posted(address: str, token: str, path: str, body: object, cookie: str = "") -> http.client.HTTPResponse:
    """Send a request as a page at this address does, and return its answer with the body read."""
    host = address.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(host, timeout=30)
    headers = {"Origin": f"http://{host}", "Authorization": f"Bearer {token}", "Cookie": cookie}
    connection.request("POST", path, body=json.dumps(body), headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def lesson_with_class(folder: Path, use: Callable[[str, str, str, str], None]) -> tuple[int, str]:
    """Serve a recorded lesson with a class while `use` is called with both addresses and secrets; return the rest."""
    command = [sys.executable, "-P", "-u", "-m", "understudy.cli.main", "lesson", "zombie", "--recorded"]
    with subprocess.Popen(
        [*command, "--class", "127.0.0.1"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C ends" in line:
                break
        found = re.search(r"^class (http://\S+/)#(\w{6})\n(?s:.*)^page  (http://\S+/)#token=(\S+)$", said, re.MULTILINE)
        assert found is not None, said
        use(*found.groups())
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        return process.wait(60), rest


def test_ctrl_c_keeps_the_counts_as_json_and_as_a_page(tmp_path: Path) -> None:
    def use(phones: str, code: str, page: str, token: str) -> None:
        assert posted(page, token, "/class/step", body_of(PREDICT)).status == 204
        joined = posted(phones, code, "/join", {})
        cookie = str(joined.headers["set-cookie"]).partition(";")[0]
        assert posted(phones, code, "/vote", {"question": "predict", "answer": 1}, cookie).status == 200
        for secret in (token, code):  # the token of the page opens nothing at the port of the class
            assert posted(phones, secret, "/begin", {}).status in (401, 404)
            assert posted(phones, secret, "/one/control/verbs/kill", {"target": "1"}).status in (401, 404)
        assert posted(page, code, "/class/reveal", {"question": "predict"}).status == 401

    code, rest = lesson_with_class(tmp_path, use)
    assert code == 0, rest
    data, page = (tmp_path / path for path in re.findall(r"^counts (\S+)$", rest, re.MULTILINE))
    counts = json.loads(data.read_text())
    assert (counts["lesson"], counts["phones"]) == ("zombie", 1)
    [question] = counts["questions"]
    assert (question["question"]["text"], question["tally"]["counts"]) == ("What does it do?", [0, 1, 0])
    assert "What does it do?" in page.read_text()


def test_a_class_without_phones_leaves_nothing(tmp_path: Path) -> None:
    code, rest = lesson_with_class(tmp_path, lambda *_: None)
    assert (code, "No phone has joined" in rest) == (0, True)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_terminal_has_the_qr_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ClassPlan(("127.0.0.1", 0), tmp_path / "counts")
    with class_of("zombie", "The zombie", plan):
        assert "▀" not in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with class_of("zombie", "The zombie", plan) as server:
        assert server is not None
        assert "\n".join(qr_lines(server.url)) in capsys.readouterr().out
    assert not plan.folder.exists()


def test_without_a_plan_there_is_no_class() -> None:
    with class_of("zombie", "The zombie", None) as server:
        assert server is None
