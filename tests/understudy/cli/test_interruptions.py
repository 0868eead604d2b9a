"""How a command handles Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal

import pytest

from understudy.cli.interruptions import ending_on_signals, interruptible

SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@SIGNALS
def test_a_block_that_ends_on_signals_is_interrupted_also_where_they_are_ignored(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), ending_on_signals():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


@SIGNALS
def test_the_first_signal_is_noted_and_the_second_interrupts(number: signal.Signals) -> None:
    with interruptible() as interruption:
        signal.raise_signal(number)
        assert interruption.received
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
