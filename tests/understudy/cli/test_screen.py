"""A page on a terminal: redrawn in place, cut to the size, and absent if there is no terminal."""

from __future__ import annotations

import io

import pytest

from understudy.cli.screen import Screen, fitted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_page_takes_the_screen_and_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "10")
    out = Terminal()
    with Screen(out) as screen:
        screen.draw("one\ntwo", "status")
        screen.draw("three", "status")
    entered, first, second = out.getvalue().split("\x1b[H")
    assert entered == "\x1b[?1049h\x1b[?25l"
    assert first == "one\x1b[K\ntwo\x1b[K\n\x1b[K\nstatus\x1b[K\x1b[J"
    assert second == "three\x1b[K\n\x1b[K\nstatus\x1b[K\x1b[J\x1b[?25h\x1b[?1049l"


def test_the_screen_is_given_back_after_an_exception() -> None:
    out = Terminal()
    with pytest.raises(ValueError, match="broken"), Screen(out):
        raise ValueError("broken")
    assert out.getvalue().endswith("\x1b[?1049l")


def test_nothing_is_shown_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with Screen(out) as screen:
        screen.draw("page", "status")
    assert out.getvalue() == ""


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    page = [f"line {number} of a long page" for number in range(20)]
    assert fitted(page, "the status", columns=9, rows=6) == [
        "line 0 of",
        "line 1 of",
        "line 2 of",
        "… 17 more",
        "",
        "the statu",
    ]
    assert fitted(page, "status", columns=80, rows=22) == [*page, "", "status"]
    assert fitted(page, "status", columns=80, rows=1) == ["status"]
    assert fitted(page, "status", columns=80, rows=2) == ["", "status"]
