"""Reads `KAFKA_CREATE_TOPICS`: topics that are created when the broker serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from understudy.brokers.config.config_def import ConfigError

VARIABLE: Final = "KAFKA_CREATE_TOPICS"
SEPARATOR: Final = "KAFKA_CREATE_TOPICS_SEPARATOR"


class TopicToCreate(NamedTuple):
    """One topic: `name:partitions:replicas`, and the cleanup policy if it has one."""

    name: str
    partitions: int
    replicas: int
    cleanup_policy: str | None = None

    def arguments(self, bootstrap: str) -> list[str]:
        """Return the arguments with which `understudy topics` creates it."""
        config = [] if self.cleanup_policy is None else ["--config", f"cleanup.policy={self.cleanup_policy}"]
        return [
            *("--bootstrap-server", bootstrap, "--create", "--if-not-exists", "--topic", self.name),
            *("--partitions", str(self.partitions), "--replication-factor", str(self.replicas)),
            *config,
        ]


def read_topics(others: Mapping[str, str]) -> tuple[TopicToCreate, ...]:
    """Read the topics, which a comma or the character of `KAFKA_CREATE_TOPICS_SEPARATOR` separates.

    Raises:
        ConfigError: an entry has another form.
    """
    # Variables are read without the blanks around them, so that a newline as the separator arrives as nothing.
    separator = others.get(SEPARATOR)
    entries = [
        entry.strip() for part in others.get(VARIABLE, "").splitlines() for entry in part.split(separator or ",")
    ]
    return tuple(_topic(entry) for entry in entries if entry)


def _topic(entry: str) -> TopicToCreate:
    name, *rest = entry.split(":")
    numbers = [part for part in rest[:2] if part.isascii() and part.isdigit() and int(part) > 0]
    if not name or len(numbers) < 2 or len(rest) > 3:
        raise ConfigError(f"{VARIABLE}: {entry!r} is no topic; expected name:partitions:replicas[:cleanup.policy]")
    return TopicToCreate(name, int(numbers[0]), int(numbers[1]), rest[2] if len(rest) == 3 and rest[2] else None)
