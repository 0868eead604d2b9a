"""The class of `understudy lesson --class`: its address in the terminal while it lasts, and its counts at the end."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from understudy.cli.arguments import host_and_any_port
from understudy.page.classroom.class_server import ClassServer
from understudy.page.classroom.qr_code import qr_lines
from understudy.page.classroom.results import ClassResults, results_page

JSON: Final = "class.json"
PAGE: Final = "class.html"


class ClassPlan(NamedTuple):
    """A class that a lesson shall have.

    Attributes:
        address: host and port for the phones; port 0 is any free one.
        folder: the folder for the counts, which is created.
    """

    address: tuple[str, int]
    folder: Path


def class_address(text: str) -> tuple[str, int]:
    """Parse `ADDRESS` or `ADDRESS:PORT`; without a port it is any free one. An IPv6 address is in brackets."""
    has_port = ":" in text.rpartition("]")[2]
    return host_and_any_port(text if has_port else f"{text}:0")


@contextlib.contextmanager
def class_of(name: str, title: str, plan: ClassPlan | None) -> Iterator[ClassServer | None]:
    """Serve a class while the block runs, and write its counts at the end; without a plan there is none.

    Args:
        name: the name of the lesson.

    Raises:
        ClusterError: the address cannot be opened.
        OSError: the folder cannot be written.
    """
    if plan is None:
        yield None
        return
    server = ClassServer(title, plan.address)
    began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    plan.folder.mkdir(parents=True, exist_ok=True)
    try:
        with server:
            _introduce(server)
            yield server
    finally:
        phones, questions = server.counts()
        if phones:
            _keep(
                plan.folder,
                ClassResults(lesson=name, title=title, date=began, phones=phones, questions=tuple(questions)),
            )
        else:
            print("No phone has joined the class, so no counts are kept.", flush=True)
            with contextlib.suppress(OSError):
                plan.folder.rmdir()


def _introduce(server: ClassServer) -> None:
    print(f"class {server.url}")
    if sys.stdout.isatty():
        print(*qr_lines(server.url), sep="\n")
    print("Phones in the same network join there: by the QR code, or by the address and its code.", flush=True)


def _keep(folder: Path, results: ClassResults) -> None:
    (folder / JSON).write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
    (folder / PAGE).write_text(results_page(results), encoding="utf-8")
    print(f"counts {folder / JSON}\ncounts {folder / PAGE}", flush=True)
