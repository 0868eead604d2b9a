"""`FaultyServer` is a server of an object store in a process on this machine: slow, busy, or breaking off its answers.

It is a process, because deltalake holds Python's lock during some requests.
"""

from __future__ import annotations

import abc
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Final, Self

ROOT: Final = Path(__file__).resolve().parents[4]
FAULTS: Final = "/understudy-faults"
"""Path at which a server has its faults and the number of its requests."""


class FaultyServer(abc.ABC):
    """Answers requests while its block runs.

    Attributes:
        module: the module whose process it is.
        url: the address, such as `http://127.0.0.1:4443`.
    """

    module: str
    arguments: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", self.module, *self.arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the server has not started"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # it ends with its input

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which clients find the server."""
        return self.environment_at(self.url)

    @classmethod
    @abc.abstractmethod
    def environment_at(cls, url: str) -> dict[str, str]:
        """Return the variables by which clients find a server of this kind at an address."""

    @classmethod
    @abc.abstractmethod
    def url_of(cls, name: str) -> str:
        """Return the URL of a bucket or container."""

    @abc.abstractmethod
    def make(self, name: str) -> None:
        """Make a bucket or container."""

    def fault(self, *, busy: int = 0, torn: int = 0, delay_s: float = 0.0) -> None:
        """Set the faults from now on.

        Args:
            busy: this many of each three attempts at the same request are answered with 503.
            torn: this many of each three answers to the same GET end in their middle.
            delay_s: each request waits so long before it is answered.
        """
        self.send("PUT", FAULTS, json.dumps({"busy": busy, "torn": torn, "delay_s": delay_s}).encode())

    def requests(self) -> int:
        """Return the number of requests so far."""
        with urllib.request.urlopen(f"{self.url}{FAULTS}") as answer:
            return int(answer.read().split()[0])

    def tokens(self) -> int:
        """Return the number of requests with a token so far; only servers before an emulator count them."""
        with urllib.request.urlopen(f"{self.url}{FAULTS}") as answer:
            return int(answer.read().split()[1])

    def send(self, method: str, path: str, content: bytes, kind: str = "application/octet-stream") -> None:
        request = urllib.request.Request(f"{self.url}{path}", content, {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(request):
            pass


class Faults:
    """The faults of a server, in its process.

    Attributes:
        requests: the number of requests so far.
        tokens: the number of those that had a token.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.tokens = 0
        self._faults = {"busy": 0, "torn": 0, "delay_s": 0.0}
        self._attempts: Counter[tuple[str, ...]] = Counter()
        self._lock = threading.Lock()

    def set(self, content: bytes) -> None:
        self._faults = json.loads(content)
        self._attempts.clear()

    def next(self, method: str, *same: str) -> tuple[bool, bool]:
        """Wait as long as a request has to; return whether the server is busy, and whether its answer breaks off.

        Args:
            same: what tells a request from others.
        """
        with self._lock:
            self.requests += 1
            attempt = self._attempts[method, *same] % 3
            self._attempts[method, *same] += 1
        time.sleep(self._faults["delay_s"])
        is_busy = attempt < self._faults["busy"]
        return is_busy, not is_busy and method == "GET" and attempt < self._faults["torn"]


def end_with_input() -> None:
    """Return when the process that has started this one has closed the input of it, or has ended."""
    sys.stdin.read()
