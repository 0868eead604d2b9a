"""`SimulatedArguments`: the arguments of `simulated`, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedArguments:
    """The arguments of a test in virtual time.

    Attributes:
        seeds: how many seeds are run.
        brokers: how many brokers; their ids begin with 1.
        kinds: the kinds of faults that a seed may draw.
        seconds: the virtual time in which faults are injected.
        racks: the racks of the brokers in order; empty for none.
        settings: further keys of `server.properties`.
    """

    seeds: int = 100
    brokers: int = 3
    kinds: Sequence[str] = ()
    seconds: float = 60.0
    racks: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
