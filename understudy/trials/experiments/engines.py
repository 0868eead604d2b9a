"""The engines by name, and the table of what each can do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from understudy.trials.experiments.compose.engine import ComposeEngine
from understudy.trials.experiments.engine import ExperimentEngine
from understudy.trials.experiments.language.action_table import ACTIONS
from understudy.trials.experiments.processes.engine import ProcessEngine
from understudy.trials.experiments.simulated.engine import SimulatedEngine

ENGINES: Final[Mapping[str, type[ExperimentEngine]]] = {
    "sim": SimulatedEngine,
    "real": ProcessEngine,
    "compose": ComposeEngine,
}


def capabilities() -> dict[str, frozenset[str]]:
    """Return the actions that each engine can do, by its name."""
    return {name: engine.able for name, engine in ENGINES.items()}


def capability_lines() -> list[str]:
    """Return the table of all actions, as `understudy experiment capabilities` prints it."""
    able = capabilities()
    width = max(map(len, ACTIONS))
    lines = [f"{'action':<{width}}  {'  '.join(f'{name:<7}' for name in able)}  what it does"]
    for name, action in ACTIONS.items():
        marks = "  ".join(f"{'yes' if name in can else '-':<7}" for can in able.values())
        lines.append(f"{name:<{width}}  {marks}  {_meaning(action.meaning)}")
    faults = {name for name, action in ACTIONS.items() if action.is_fault}
    counts = ", ".join(f"{engine} {len(can & faults)}" for engine, can in able.items())
    return [*lines, "", f"Of {len(faults)} faults and what ends them: {counts}. The others are requests of clients."]


def _meaning(meaning: str) -> str:
    """An action's meaning with its keys in capitals, as in a manual."""
    return re.sub(r"\{(\w*)\}", lambda found: found[1].upper() or "TARGET", meaning)
