"""`PageServer`: serves the page of one run, in a thread, and follows the run while it lasts."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec
from starlette.types import ASGIApp

from understudy.brokers.machine.clock_identity import clock_identity
from understudy.clusters.cluster import ClusterError
from understudy.clusters.control.http_thread import ANY_PORT, HttpThread, address_of, hosts_of, is_loopback, listen
from understudy.clusters.processes.run_folder import NotARunFolder, read_cluster_file
from understudy.foundation.eventlog.files import log_files
from understudy.history.reading.clock_evidence import ClockSigns
from understudy.history.reading.following import RunTail
from understudy.history.reading.lines import MAX_LINE_BYTES, decode_header
from understudy.history.report.replay import without_garbage_collection
from understudy.history.report.runs import find_runs
from understudy.page.recorded.runs import NoSuchRun, PageRun, finished_run
from understudy.page.served.app import application
from understudy.page.served.changes import Changes
from understudy.page.served.live import LiveRun
from understudy.page.served.live_clocks import LiveClocks

POLL_S: Final = 0.04
"""Seconds between two readings of a live run: with `HELD_BACK_MS`, most of a record's delay until the screen."""
LARGE_BYTES: Final = 16 << 20
"""Maximum size of logs of an ended run that are read as a whole before the page is served."""
LOWER_BY: Final = 5
LOWEST_PRIORITY: Final = 19
_TURNS: Final = 10
_FINISH_TIMEOUT_S: Final = 5.0


class MakeApplication(Protocol):
    """Makes the application that a `PageServer` serves, as `understudy.page.served.app.application` does."""

    def __call__(
        self, run: PageRun, changes: Changes, *, folder: Path | None, hosts: frozenset[str], token: str | None
    ) -> ASGIApp: ...


class PageServer(HttpThread):
    """The server of one page.

    Args:
        run: the run that is shown. A `LiveRun` is followed until `has_ended` returns True.
        address: host and port to listen on; port 0 is any free one. On another address than loopback the page takes no
            commands.
        folder: the run folder.
        has_ended: returns whether the cluster of a live run has ended. It is called in another thread, and may wait.
        look_every_s: the seconds between two calls of `has_ended`.
        make_application: makes the application that answers; by default the page of the run.
        has_token: whether the page sends requests that change something, also if the run has ended.

    Raises:
        ClusterError: the host is not an address of this machine, or the port cannot be opened.
    """

    def __init__(
        self,
        run: PageRun,
        address: tuple[str, int] = ANY_PORT,
        *,
        folder: Path | None = None,
        has_ended: Callable[[], bool] = lambda: False,
        look_every_s: float = 0.5,
        make_application: MakeApplication = application,
        has_token: bool = False,
    ) -> None:
        host, port = address
        check_host(host)
        self._run = run
        # Until its logs have been read for the first time, a run may have any number of records.
        run.is_behind = isinstance(run, LiveRun)
        if isinstance(run, LiveRun) and not run.is_over:
            machine, boot = clock_identity()
            run.clocks = LiveClocks(boot, (time.time() - time.monotonic()) * 1000, machine)
        self._has_ended = has_ended
        self._look_every_s = look_every_s
        self._is_over = False
        self._changes = Changes()
        listener = listen(host, port, what="the page", option="--port")
        self.address = address_of(listener)
        self.is_following = isinstance(run, LiveRun) and not has_ended()
        """Whether the run had not ended when the server was made."""
        self.takes_commands = self.is_following and is_loopback(host)
        self.has_token = self.takes_commands or has_token
        token = secrets.token_urlsafe(32) if self.has_token else None
        # The fragment of an address is in no request, and so in no log.
        self.url = f"http://{self.address}/" + (f"#token={token}" if token is not None else "")
        super().__init__(
            make_application(run, self._changes, folder=folder, hosts=hosts_of(listener), token=token),
            listener,
            name="understudy-page",
            beside=self._follow if isinstance(run, LiveRun) else None,
            before_end=self._changes.close,
        )

    def finish(self) -> None:
        """Show the last records of a live run, after its cluster has been stopped. Return once they were read."""
        self._is_over = True
        deadline = time.monotonic() + _FINISH_TIMEOUT_S
        while self._run.is_live and self.is_running and time.monotonic() < deadline:
            time.sleep(POLL_S)

    async def _follow(self) -> None:
        """Read further records while the cluster runs."""
        looking = asyncio.ensure_future(self._look_for_the_end())
        try:
            await self._read_on()
        finally:
            looking.cancel()

    async def _look_for_the_end(self) -> None:
        while not self._is_over:
            if await asyncio.to_thread(self._has_ended):
                self._is_over = True
            else:
                await asyncio.sleep(self._look_every_s)

    async def _read_on(self) -> None:
        run = self._run
        assert isinstance(run, LiveRun)
        if not run.is_over:
            _step_back()
        loop = asyncio.get_running_loop()
        while run.is_live:
            before = len(run.chunks)
            was_behind = run.is_behind
            is_over = self._is_over
            # Zlib does not hold the interpreter's lock: it uses another core while this thread reads further records.
            compressed = loop.run_in_executor(None, run.chunks.compress) if run.chunks.can_compress else None
            try:
                with without_garbage_collection():
                    has_more = run.finish() if is_over else run.advance(time.monotonic() * 1000)
            except OSError as error:
                run.note_unreadable(error)
                has_more, is_over = False, True
            if compressed is not None:
                await compressed
            has_grown = len(run.chunks) > before or compressed is not None
            if has_grown or run.is_behind != was_behind:
                self._changes.notify()
            if is_over and not has_more:
                # In another thread, as it reads all logs once more.
                run.end(await loop.run_in_executor(None, run.judge))
                self._changes.notify()
            elif not has_more:
                await asyncio.sleep(POLL_S)
            # A request takes some turns of the event loop, and a page begins with two dozen.
            for _ in range(_TURNS if has_more else 0):
                await asyncio.sleep(0)
        run.chunks.compress()


def _step_back() -> None:
    """Let this thread and those that it starts take less of a busy processor than the brokers: a reader must not slow
    them."""
    if sys.platform == "linux":  # elsewhere all threads of a process have one priority
        this_thread = threading.get_native_id()
        lower = os.getpriority(os.PRIO_PROCESS, this_thread) + LOWER_BY
        os.setpriority(os.PRIO_PROCESS, this_thread, min(lower, LOWEST_PRIORITY))


def check_host(host: str, what: str = "the page") -> None:
    """Raise ClusterError if a host stands for every address, as the header Host could not be checked then."""
    if host in ("", "0.0.0.0", "::"):
        raise ClusterError(
            f"{what} cannot be served on {host or 'an empty host'}, which stands for every address: the header Host "
            "of requests is checked; give one address of this machine"
        )


def open_run(paths: Sequence[Path], wanted: str | None = None) -> tuple[PageRun, Path | None, Callable[[], bool]]:
    """Return the run at some paths, its run folder if there is one, and a function that says whether it has ended.

    A run folder whose cluster is running becomes a `LiveRun`, and so does one whose logs are large: its records are
    shown while they are read, in the order of the clock. Anything else is read at once, also large logs of several
    clocks, as these are aligned by all records.

    Raises:
        NoSuchRun: there is no log, or there are several runs.
    """
    folder = paths[0] if len(paths) == 1 and paths[0].is_dir() else None
    if folder is not None:
        try:
            entry = read_cluster_file(folder)
        except NotARunFolder:
            pass
        else:
            if entry.owner.is_running and wanted in (None, entry.run):
                return LiveRun(folder, entry.run), folder, lambda: not entry.owner.is_running
            wanted = wanted or entry.run
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise NoSuchRun(f"{missing[0]} does not exist; give a run folder or the files of an event log")
    if folder is not None and RunTail(folder).size > LARGE_BYTES:
        name = wanted or _only_run(folder)
        if name is not None and not _may_have_several_clocks(folder, name):
            return LiveRun(folder, name, is_over=True), folder, lambda: True
    return finished_run(paths, wanted), folder, lambda: True


def _only_run(folder: Path) -> str | None:
    """Return the id of the run to which all logs of a folder belong; None if there are several runs or none."""
    runs = runs_in(folder)
    return runs.pop() if len(runs) == 1 else None


def _may_have_several_clocks(folder: Path, run: str) -> bool:
    """Return whether the incarnations of a run may have several clocks, by the first lines that can be read."""
    signs = ClockSigns()
    for node in RunTail(folder).nodes():
        for file in log_files(node.folder):
            try:
                with file.path.open("rb") as stream:
                    header = decode_header(stream.readline(MAX_LINE_BYTES + 2))
            except (msgspec.MsgspecError, OSError):
                continue  # the reader of the log finds the damage
            if header.run == run:
                signs.add(header)
    return signs.may_be_several


def runs_in(folder: Path) -> set[str]:
    """Return the ids of the runs to which the logs of a folder belong, by the first lines that can be read."""
    files = [file.path for node in RunTail(folder).nodes() for file in log_files(node.folder)]
    return {group.run for group in find_runs(files) if group.run}
