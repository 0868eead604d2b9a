"""The argument `--without`: fences and fixes to switch off."""

from __future__ import annotations

from understudy.cli.arguments import BadInput, reported_as
from understudy.clusters.problems import BadValue
from understudy.foundation.eventlog.fences import Switch
from understudy.trials.experiments.language.expectations import switches


def fences_off(text: str | None) -> tuple[Switch, ...]:
    """Return the fences and fixes that `--without` names, joined by `+`; none for None. Raises BadInput."""
    if text is None:
        return ()
    with reported_as(BadInput, BadValue, about=f"--without {text}:"):
        return switches(text)
