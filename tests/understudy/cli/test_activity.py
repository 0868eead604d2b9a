"""`Activity` shows the step of a long command: a moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import threading
import time

import pytest

from understudy.cli.activity import Activity
from understudy.cli.demo_output import DemoOutput


class Terminal(io.StringIO):
    """A terminal that keeps all that was written, and sets an event when the step has been drawn with its seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.redrawn_after_a_step = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "computing … 0." in text:
            self.redrawn_after_a_step.set()
        return super().write(text)


def test_without_a_terminal_each_step_is_one_plain_line() -> None:
    out = io.StringIO()
    with Activity(out, indent="  ") as activity:
        activity.step("starting Java")
        activity.step("computing")
    assert out.getvalue() == "  … starting Java\n  … computing\n"


def test_plain_lines_can_be_left_out() -> None:
    out = io.StringIO()
    with Activity(out, plain_lines=False) as activity:
        activity.step("computing")
    assert out.getvalue() == ""


def test_on_a_terminal_the_step_is_redrawn_while_the_command_is_busy_and_then_removed() -> None:
    out = Terminal()
    with Activity(out) as activity:
        activity.step("computing")
        assert out.redrawn_after_a_step.wait(timeout=30), "nothing is drawn while the main thread waits"
    assert "\n" not in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[2K")
    drawn = out.getvalue()
    time.sleep(0.25)
    assert out.getvalue() == drawn, "the drawing has ended with the block"


def test_a_failing_command_leaves_no_moving_line() -> None:
    out = Terminal()

    def fail() -> None:
        with Activity(out) as activity:
            activity.step("computing")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert out.getvalue().endswith("\r\x1b[2K")


def test_the_demo_indents_its_activity() -> None:
    out = io.StringIO()
    with DemoOutput(out).activity() as activity:
        activity.step("computing")
    assert out.getvalue() == f"{'':12}… computing\n"
