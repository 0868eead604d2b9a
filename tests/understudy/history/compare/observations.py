"""Invented observations for tests of comparisons."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from understudy.history.compare.groups import SETTINGS, UNKNOWN, Observation


def observation(
    run: str, outages_ms: Sequence[float], *, cause: str = "kill", leaderless_s: float = 0.0, **settings: int | str
) -> Observation:
    """A run with failovers of these outages, of which a tenth each is election, takeover and propagation.

    Half of a takeover is reading.
    """
    parts = [[int(ms * 1_000 * share) for share in (0.7, 0.1, 0.1, 0.1)] for ms in outages_ms]
    names = ("detection", "election", "takeover", "propagation")
    values = {name: tuple(row[place] for row in parts) for place, name in enumerate(names)}
    return Observation(
        run=run,
        opened_by=f"understudy replay runs/{run}",
        settings=dict.fromkeys(SETTINGS, UNKNOWN) | {name: str(value) for name, value in settings.items()},
        failovers=len(outages_ms),
        cause=cause,
        values=values
        | {"reading": tuple(row[2] // 2 for row in parts)}
        | {"outage": tuple(int(ms * 1_000) for ms in outages_ms), "leaderless": (int(leaderless_s * 1e6),)},
        within=dict.fromkeys((*names, "reading", "outage", "leaderless"), 0),
        phases=tuple(map(tuple, parts)),
        doubtful=0,
        missing="",
    )


def incomplete(run: Observation, missing: str, doubtful: int = 0) -> Observation:
    """The run, with this evidence of missing records."""
    return replace(run, missing=missing, doubtful=doubtful)


def group(name: str, runs: int, mean_ms: float, **settings: int | str) -> list[Observation]:
    """Runs with one failover each, around a mean."""
    draw = random.Random(name)
    return [
        observation(
            f"{name}-{number:03d}",
            [draw.gauss(mean_ms, mean_ms / 10)],
            cause="kill",
            leaderless_s=draw.uniform(1, 2),
            **settings,
        )
        for number in range(runs)
    ]
