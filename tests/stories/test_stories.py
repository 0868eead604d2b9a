"""The stories of tests/stories: each runs in the simulator and must have the transcript that its file records."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.trials.seeds.story import BadStory, parse, play, render

STORIES = sorted(Path(__file__).parent.glob("*.story"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_has_its_recorded_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    written = path.read_text(encoding="utf-8")
    transcript = render(play(parse(written)))
    if request.config.getoption("--rewrite-stories", default=False):
        path.write_text(transcript, encoding="utf-8")
    else:
        assert transcript == written, (
            f"{path.name} has another transcript now; if that is right: pytest tests/stories --rewrite-stories"
        )


def test_there_are_stories() -> None:
    assert len(STORIES) >= 6


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kill 1\n", "no line of dashes"),
        ("kill 1\n----\n", "begins with `cluster"),
        ("cluster brokers=1 seed=1\njump 1\n----\n", "'jump 1' is unknown"),
        ("cluster brokers=1 seed=1\nkill 7\n----\n", "there is no broker 7; this cluster has 1"),
        ("cluster brokers=1 seed=1\nadvance 8\n----\n", "not a number followed by ms or s"),
        ("cluster brokers=1 seed=1\nkill\n----\n", "cannot be understood"),
    ],
)
def test_a_malformed_story_is_refused_with_a_reason(text: str, complaint: str) -> None:
    with pytest.raises(BadStory, match=complaint):
        play(parse(text))


def test_a_story_is_parsed_and_rendered_unchanged() -> None:
    start = "cluster brokers=3 seed=1\n----\n   0.001  broker-1   resigns\n"
    text = f"# Why.\n# And how.\n\n{start}\nkill 1\nadvance 8s\n----\n"
    assert render(parse(text)) == text
