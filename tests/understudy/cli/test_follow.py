"""`understudy replay --follow` as a process on a terminal: pages while logs grow, the last one at the end."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import killed_controller
from tests.understudy.history.lake.lakes import assert_holds
from understudy.cli.main import main
from understudy.history.report.replay import replay_in_python
from understudy.history.report.report import render

TIMEOUT_S = 120.0


class Following:
    """The command on a terminal of 60 lines, which keeps what it shows."""

    def __init__(self, *arguments: object) -> None:
        self._terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "understudy.cli.main", "replay", "--follow", *map(str, arguments)],
            env=os.environ | {"LINES": "60", "COLUMNS": "100", "UNDERSTUDY_CLASS_CACHE": "off"},
            stdout=theirs,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(theirs)
        self.shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not re.search(pattern.encode(), self.shown, re.DOTALL):
            assert time.monotonic() < deadline, f"{pattern} is not shown: {self.shown[-3000:]!r}"
            assert self.process.poll() is None, self.shown[-3000:]
            time.sleep(0.05)

    def end(self) -> tuple[int, str, str]:
        """Wait for the end; return the exit code, the text printed after the last page, and the standard error."""
        _, errors = self.process.communicate(timeout=TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        os.close(self._terminal)
        return self.process.returncode, self.shown.rpartition(b"\x1b[?1049l")[2].decode().replace("\r\n", "\n"), errors

    def _read(self) -> None:
        while True:
            try:
                self.shown += os.read(self._terminal, 65536)
            except OSError:  # the command has ended
                return


def test_pages_while_the_logs_grow_and_the_last_one_at_the_end(tmp_path: Path) -> None:
    folder, lake = tmp_path / "run", tmp_path / "lake"
    folder.mkdir()
    following = Following("--lake", lake, folder)
    following.wait_for("No run: the logs hold no record.*waiting for event logs · the lake is not written yet")
    lines = {name: list(content) for name, content in killed_controller().lines.items()}
    for name, content in lines.items():
        (folder / name).write_bytes(b"".join(content[:4]))
    following.wait_for(r"Run run-1: .* records")
    for name, content in lines.items():
        with (folder / name).open("ab") as log:
            log.write(b"".join(content[4:]))
    total = sum(map(len, lines.values()))
    following.wait_for(rf"Ctrl-C ends · {total} lines, the last \d s ago")
    following.process.send_signal(signal.SIGINT)
    code, page, errors = following.end()
    assert code == 0, errors
    expected = render(replay_in_python([folder])).splitlines()
    assert page.splitlines()[0] == expected[0]
    assert re.fullmatch(r"  computed by Spark \S+ on Java \S+, local\[\*\], live", page.splitlines()[1])
    assert page.splitlines()[2:] == expected[2:]
    assert f"{lake} has version" in errors
    assert_holds(lake, folder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lake", "lake"], "--lake needs --follow"),
        (["--until-idle", "3"], "--until-idle needs --follow"),
        (["--checkpoint", "c"], "--checkpoint needs --follow"),
        (["--follow", "--engine", "python"], "only Spark can --follow"),
        (["--follow", "--dir", "tables"], "give --lake DIR with --follow"),
        (["missing", "--follow"], "missing does not exist; expected the folder of a run"),
    ],
)
def test_options_that_do_not_go_together_are_named(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    assert main(["replay", "run", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon"])
def test_until_idle_takes_seconds(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["replay", "--follow", f"--until-idle={text}", "run"])
    assert f"{text!r} is not a number of seconds above 0" in capsys.readouterr().err
