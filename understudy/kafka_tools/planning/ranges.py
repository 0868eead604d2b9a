"""Writes partitions as text that a person reads quickly."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.foundation.cluster.identifiers import TopicPartition


def ranges(partitions: Iterable[TopicPartition]) -> str:
    """Return sorted partitions by topic, neighbours as a range: `t 0-3,7; u 0`."""
    by_topic: dict[str, list[list[int]]] = {}
    for topic, number in partitions:
        runs = by_topic.setdefault(topic, [])
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return "; ".join(f"{topic} {','.join(map(_run, runs))}" for topic, runs in by_topic.items())


def _run(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
