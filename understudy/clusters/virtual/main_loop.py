"""`MainLoop`: the event loop of a main function that blocks, for example by `asyncio.run`."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from understudy.clusters.virtual.blocking import wait_for
from understudy.clusters.virtual.process_loop import ProcessLoop


class MainLoop(ProcessLoop):
    """A loop that code which blocks has made, for example by `asyncio.run`, over the loop of its process.

    Its callbacks run only while `run_until_complete` or `run_forever` does; until then they are kept in order.
    """

    def __init__(self, parent: ProcessLoop) -> None:
        super().__init__(parent.kernel, parent.process, parent.network, numbers=parent.numbers, failed=parent._failed)
        self._parent = parent
        self.signal_handlers = parent.signal_handlers
        self.signal_settings = parent.signal_settings
        self.after_callback, self.at_point, self.exited = parent.after_callback, parent.at_point, parent.exited
        self._stopped: asyncio.Future[None] | None = None
        """Is done when the run in progress ends."""
        self._kept: list[tuple[Callable[..., object], tuple[Any, ...], contextvars.Context]] = []

    @property
    def of_process(self) -> ProcessLoop:
        return self._parent

    @property
    def wall_offset_s(self) -> float:
        return self._parent.wall_offset_s

    @wall_offset_s.setter
    def wall_offset_s(self, seconds: float) -> None:
        if seconds:
            self._parent.wall_offset_s = seconds

    def _run(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self._stopped is None:
            self._kept.append((callback, args, contextvars.copy_context()))
        else:
            super()._run(callback, args)

    def run_until_complete(self, future: Any) -> Any:
        """Run until `future` is done, and return its result.

        Raises:
            RuntimeError: a loop runs in this code already, or `stop` was called before `future` was done.
        """
        self._check_not_running()
        waited = asyncio.ensure_future(future, loop=self)
        waited.add_done_callback(self._stop_with)
        try:
            self.run_forever()
        except BaseException:
            waited.remove_done_callback(self._stop_with)
            raise
        waited.remove_done_callback(self._stop_with)
        if not waited.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return waited.result()

    def _stop_with(self, _: object) -> None:
        self.stop()

    def run_forever(self) -> None:
        """Run until `stop` is called. Raises as `run_until_complete`."""
        self._check_not_running()
        stopped: asyncio.Future[None] = self._parent.create_future()
        self._stopped = stopped
        kept, self._kept = self._kept, []
        for callback, args, context in kept:
            self.call_soon(callback, *args, context=context)
        try:
            wait_for(self._parent, stopped, "loop.run_forever()")
        finally:
            self._stopped = None

    def _check_not_running(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        if self._stopped is not None:
            raise RuntimeError("This event loop is already running")
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("Cannot run the event loop while another loop is running")

    def stop(self) -> None:
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    def is_running(self) -> bool:
        return self._stopped is not None

    def close(self) -> None:
        if self._stopped is not None:
            raise RuntimeError("Cannot close a running event loop")
        self._closed = True
        self._kept.clear()
        for watch in self._watches.values():
            watch.end()
        self._watches.clear()


def new_main_loop(parent: ProcessLoop) -> ProcessLoop:
    """Create a loop for code of a process that blocks. See `MainLoop`."""
    return MainLoop(parent)  # type: ignore[abstract]  # as above
