"""`ChildService`: a user's program as a child process, with the names of `clusters.virtual.service.Service`."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import os
import pickle
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final

from understudy.clusters.cluster import ClusterError, Unsupported
from understudy.clusters.virtual.service import RESTART_S, STOP_TIMEOUT_S, check_main

_STEP_S: Final = 0.05
_VIRTUAL: Final = "only services in virtual time (understudy.testing.simulated) have it"


class ServiceFailed(Exception):
    """The main function of a service has raised an exception in its process. The message has its traceback."""


class ChildService:
    """One program; each of its processes is a new Python interpreter, so a restart resets the state of modules.

    Args:
        main: a function that can be imported by its name, as its arguments can be pickled.
        record: records a fault in the event log before it is injected.

    Raises:
        TypeError: `main` is no function that a process can run, or cannot be sent to another process.
    """

    def __init__(
        self,
        name: str,
        main: Callable[..., Any],
        args: tuple[Any, ...],
        named: dict[str, Any],
        *,
        restarts: bool,
        record: Callable[[str, str], None],
    ) -> None:
        check_main(main, args, named)
        try:
            pickle.dumps((main, args, named))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TypeError(
                f"the service {name} cannot run in a process of its own: {error}; declare its function at the top of a "
                "module, and pass texts and numbers, such as cluster.bootstrap"
            ) from None
        self.name = name
        self.incarnation = 0
        self.exits: list[BaseException | None] = []
        self._record = record
        self._main, self._args, self._named = main, args, named
        self._restarts = restarts
        self._process: BaseProcess | None = None
        self._results: Connection[Any, Any] | None = None
        self._is_paused = False
        self._is_awaited = False
        self._down_until: float | None = None
        """Time of the loop at which it is started again; None for never."""
        self._last: tuple[BaseException | None, Any] | None = None
        """Exception and result of its last process, if it has ended by itself."""

    def __repr__(self) -> str:
        return f"<ChildService {self.name} {'running' if self.is_running else 'not running'}>"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def is_paused(self) -> bool:
        return self.is_running and self._is_paused

    @property
    def failure(self) -> BaseException | None:
        """The exception of its last process, if nothing has waited for it."""
        return self.exits[-1] if self.exits and not self._is_awaited and not self._restarts else None

    # ------------------------------------------------------------------ starting and ending

    def launch(self) -> None:
        """Start its next process without a record of it."""
        self.incarnation += 1
        self._is_paused = self._is_awaited = False
        self._down_until = self._last = None
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_run, args=(theirs, self._main, self._args, self._named), name=self.name, daemon=True
        )
        self._process.start()
        theirs.close()
        self._results = ours

    def start(self) -> None:
        if self.is_running:
            raise ClusterError(f"{self.name} cannot be started: it is running")
        self._record("start", self.name)
        self.launch()

    def look(self) -> None:
        """Take the result of a process that has ended, and start the next one if it is due. Called again and again."""
        if self._process is not None and not self._process.is_alive():
            self._take_result()
        if self._down_until is not None and asyncio.get_running_loop().time() >= self._down_until:
            self.start()

    def _take_result(self) -> None:
        results, self._results = self._results, None
        if results is None:
            return
        try:
            text, result = results.recv()
        except EOFError:
            return  # it was killed, which `kill` has dealt with
        finally:
            results.close()
        error = None if text is None else ServiceFailed(f"{self.name}: {text}")
        self.exits.append(error)
        self._last = (error, result)
        if error is not None and self._restarts:
            self._start_after(RESTART_S)

    def _start_after(self, seconds: float) -> None:
        self._down_until = asyncio.get_running_loop().time() + seconds

    async def wait(self) -> Any:
        """Wait until `main` returns, and return its result.

        Raises:
            ServiceFailed: it has raised an exception.
            ClusterError: its process was killed, and is not started again.
        """
        while True:
            self._is_awaited = True
            self.look()
            if self._down_until is None and not self.is_running:
                break
            await asyncio.sleep(_STEP_S)
        if self._last is None:
            raise ClusterError(f"{self.name} has no result: it was killed, and is not started again")
        error, result = self._last
        if error is not None:
            raise error
        return result

    def kill(self, for_s: float | None = None, *, after_awaits: int | None = None) -> None:
        """End its process by SIGKILL. `for_s` as in `Service.kill`."""
        if after_awaits is not None:
            raise Unsupported(f"kill(after_awaits={after_awaits}): {_VIRTUAL}")
        if not self.is_running and self._down_until is not None and for_s is None:
            self._down_until = None
            return
        process = self._act("kill")
        process.kill()
        process.join()
        if for_s is not None:
            self._start_after(for_s)
        elif self._restarts:
            self._start_after(RESTART_S)

    def restart(self, after_s: float = 0.0) -> None:
        if self.is_running:
            self.kill(after_s)
        else:
            self._start_after(after_s)

    def pause(self, for_s: float | None = None, *, after_awaits: int | None = None) -> None:
        """Pause its process by SIGSTOP, until `resume`, or for `for_s` seconds."""
        if after_awaits is not None:
            raise Unsupported(f"pause(after_awaits={after_awaits}): {_VIRTUAL}")
        process = self._act("pause")
        self._signal(process, signal.SIGSTOP)
        self._is_paused = True
        if for_s is not None:
            asyncio.get_running_loop().call_later(for_s, self._resume, process)

    def resume(self) -> None:
        if self._process is not None:
            self._resume(self._process)

    def _resume(self, process: BaseProcess) -> None:
        if process is self._process and self.is_paused:
            self._record("resume", self.name)
            self._signal(process, signal.SIGCONT)
            self._is_paused = False

    def signal(self, number: int) -> None:
        """Send a signal to its process."""
        self._signal(self._act(signal.Signals(number).name), number)

    def begin_stop(self, for_s: float) -> None:
        """Send SIGTERM, and start it again `for_s` seconds later."""
        self.resume()
        self._is_awaited = True
        self.signal(signal.SIGTERM)
        self._start_after(for_s)

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send SIGTERM, and wait until the process has ended; after `timeout_s` seconds kill it."""
        if not self.is_running:
            self.kill()
            return
        self.resume()
        self._is_awaited = True
        self.signal(signal.SIGTERM)
        for _ in range(round(timeout_s / _STEP_S)):
            await asyncio.sleep(_STEP_S)
            if self._process is None or not self._process.is_alive():
                break
        else:
            self.kill()
        self._take_result()
        self._down_until = None

    def calm(self) -> None:
        """End its faults: it is not paused, and runs if it is started again soon."""
        self.resume()
        if self._down_until is not None and not self.is_running:
            self.start()

    def close(self) -> None:
        """End its process at once."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._take_result()

    # ------------------------------------------------------------------ what needs virtual time

    def isolate(self, *others: Any, for_s: float | None = None) -> None:
        raise Unsupported(f"isolate() of a service: {_VIRTUAL}; isolate a broker instead")

    def delay(self, by_s: float, for_s: float | None = None) -> None:
        raise Unsupported(f"delay() of a service: {_VIRTUAL}")

    def heal(self) -> None:
        """Do nothing: nothing isolates it."""

    def set_clock(self, ahead_s: float) -> None:
        raise Unsupported(f"set_clock() of a service: {_VIRTUAL}")

    def arm(self, point: str, action: str = "kill", *, nth: int = 1, for_s: float | None = None) -> None:
        raise Unsupported(f"arm({point!r}): {_VIRTUAL}")

    # ------------------------------------------------------------------ internals

    def _act(self, fault: str) -> BaseProcess:
        if self._process is None or not self._process.is_alive():
            raise ClusterError(f"{fault} was not injected: {self.name} is not running")
        self._record(fault, self.name)
        return self._process

    @staticmethod
    def _signal(process: BaseProcess, number: int) -> None:
        assert process.pid is not None, "a started process has an id"
        os.kill(process.pid, number)


def _run(results: Connection[Any, Any], main: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Run a main function in its process, and send its result or the text of its exception."""
    try:
        value = main(*args, **named)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
    except BaseException:  # noqa: BLE001  the parent gets its text
        results.send((traceback.format_exc(), None))
    else:
        try:
            results.send((None, value))
        except (pickle.PicklingError, AttributeError, TypeError):
            results.send((None, None))
