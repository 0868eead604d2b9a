"""The file that `understudy experiment new` writes, and the changes to it that docs/guides/experiments.md proposes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.understudy.trials.experiments.simulated import run_text
from understudy.clusters.problems import BadExperiment
from understudy.trials.experiments.language.reading import read_experiment
from understudy.trials.experiments.language.template import template
from understudy.trials.experiments.report.verdict import Status

NEW = template("mine")


def changed(*changes: tuple[str, str]) -> str:
    text = NEW
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


def paused(seconds: int) -> str:
    without_start = "".join(line for line in NEW.splitlines(keepends=True) if "start: C" not in line)
    return without_start.replace("kill: controller", f"pause: controller, for: {seconds}s")


@pytest.mark.parametrize(
    ("text", "status", "why"),
    [
        pytest.param(NEW, Status.HELD, "", id="as it is written"),
        pytest.param(paused(5), Status.HELD, "", id="paused past the session"),
        pytest.param(
            paused(1),
            Status.NOT_INJECTED,
            "its event did not happen: elected",
            id="paused within it",
        ),
        pytest.param(
            changed(("sometimes: [elected]", "sometimes: [unclean-election]")),
            Status.VIOLATED,
            "unclean-election: reached 0 times",
            id="asks for what cannot happen",
        ),
    ],
)
def test_a_first_experiment(text: str, status: Status, why: str, tmp_path: Path) -> None:
    verdict = run_text(text, tmp_path)
    assert verdict.status is status, verdict.why
    assert why in verdict.why


def test_a_wrong_key_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(BadExperiment, match="'pauze' is no action or key of a step; did you mean 'pause'"):
        read_experiment(changed(("kill: controller", "pauze: controller")), "mine.yaml")
