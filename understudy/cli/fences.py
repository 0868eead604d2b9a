"""The argument `--without`: fences and fixes to switch off."""

from __future__ import annotations

from understudy.cli.arguments import BadInput
from understudy.clusters.problems import BadValue
from understudy.foundation.eventlog.fences import Switch
from understudy.trials.experiments.language.expectations import switches


def fences_off(text: str | None) -> tuple[Switch, ...]:
    """Return the fences and fixes that `--without` names, joined by `+`; none for None. Raises BadInput."""
    if text is None:
        return ()
    try:
        return switches(text)
    except BadValue as bad:
        raise BadInput(f"--without {text}: {bad}") from None
