"""Stands in for `test/service.py` of kafka-python, which its source distribution lacks: brokers that run already.

`client_suites` copies it there. The tests' fixtures import both classes, and create the first one for the brokers of
`KAFKA_URI`.
"""

from __future__ import annotations


class ExternalService:
    """A broker that is neither started nor stopped by the tests."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Do nothing: the broker runs already."""

    def stop(self) -> None:
        """Do nothing: the broker is stopped elsewhere."""

    def dump_logs(self) -> None:
        """Do nothing: the broker's log is elsewhere."""


class SpawnedService:
    """A process that the tests start. Creating one is an error: there are brokers, and the tests have to use them."""

    def __init__(self, *command: object) -> None:
        raise RuntimeError(f"the tests may not start processes, but started {command}")
