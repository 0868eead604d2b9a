"""`nc` says whether a port is open, and carries a word to ZooKeeper and its answer back."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from understudy.cli.image import netcat


@contextmanager
def serving(*, answer: bytes | None) -> Iterator[str]:
    """A port that accepts one connection and, after a line, answers and closes it; for None it says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                if answer is None:
                    done.wait(60)
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield str(server.getsockname()[1])
        finally:
            done.set()
            thread.join(60)


@contextmanager
def typing(data: bytes, monkeypatch: pytest.MonkeyPatch, *, ends: bool = True) -> Iterator[None]:
    """A standard input with `data`, which then ends or stays open."""
    reading, writing = os.pipe()
    monkeypatch.setattr(netcat, "STDIN", reading)
    os.write(writing, data)
    if ends:
        os.close(writing)
    try:
        yield
    finally:
        if not ends:
            os.close(writing)


@pytest.mark.parametrize("flags", [["-z"], ["-vz"], ["-zv", "-w", "5"], ["-z", "-w5"], ["-zn"]])
def test_an_open_port_exits_with_0(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert netcat.main([*flags, "127.0.0.1", str(port)]) == 0
    said = f"Connection to 127.0.0.1 {port} port [tcp/*] succeeded!\n" if "v" in flags[0] else ""
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("flags", [["-z"], ["-vz"], []])
def test_a_closed_port_exits_with_1(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        assert netcat.main([*flags, "127.0.0.1", str(bound.getsockname()[1])]) == 1
    assert bool(capsys.readouterr().err) == (flags != ["-z"])


def test_a_word_is_carried_and_the_answer_printed(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with serving(answer=b"imok") as port, typing(b"ruok\n", monkeypatch):
        assert netcat.main(["127.0.0.1", port]) == 0
    assert capfdbinary.readouterr().out == b"imok"


def test_an_answer_ends_the_program_although_the_input_is_open(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with serving(answer=b"imok") as port, typing(b"ruok\n", monkeypatch, ends=False):
        assert netcat.main(["127.0.0.1", port]) == 0
    assert capfdbinary.readouterr().out == b"imok"


@pytest.mark.parametrize("flag", ["-w", "-q"])
def test_a_silent_port_ends_the_program_after_the_time(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(answer=None) as port, typing(b"ruok\n", monkeypatch):
        assert netcat.main([flag, "0.1", "127.0.0.1", port]) == 0


def test_a_wrong_command_line_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert netcat.main(["-z", "host"]) == 1
    assert netcat.main(["-h"]) == 0
    assert "only connect" in capsys.readouterr().out
