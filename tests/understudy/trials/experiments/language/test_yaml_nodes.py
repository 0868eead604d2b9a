"""YAML with lines: values that are read, and refusals of YAML that is no plain data."""

from __future__ import annotations

import pytest

from understudy.clusters.problems import BadExperiment
from understudy.trials.experiments.language.yaml_nodes import DEEPEST, MOST_BYTES, MOST_NODES, parse


def test_values_have_their_lines() -> None:
    root = parse("a: 1\nb:\n  - x\n  - {c: 2.5}\n", "file")
    assert root.plain == {"a": 1, "b": ["x", {"c": 2.5}]}
    assert isinstance(root.value, dict)
    assert root.key_lines == {"a": 1, "b": 2}
    assert [each.line for each in root.value["b"].value] == [3, 4]  # type: ignore[union-attr]  # it is a list


def test_words_that_yaml_1_1_takes_for_something_else_stay_words() -> None:
    found = parse("on: yes\noff: no\nt: 1:30\nd: 2026-01-01\nn: ~\nb: true\n", "file").plain
    assert found == {"on": "yes", "off": "no", "t": "1:30", "d": "2026-01-01", "n": None, "b": True}


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 1, "empty"),
        ("a: [1\n", 2, "no YAML"),
        ("a: 1\na: 2\n", 2, "twice"),
        ("a: !!python/object/apply:os.system [ls]\n", 1, "tag"),
        ("a: &x [1]\nb: *x\n", 1, "anchors"),
        ("? [1]\n: 2\n", 1, "a key is a word"),
        ("a: \x00\n", 1, "no YAML"),
    ],
)
def test_what_is_refused_has_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(BadExperiment) as refused:
        parse(text, "f.yaml")
    assert refused.value.problems[0].line == line
    assert why in str(refused.value)
    assert str(refused.value).startswith(f"f.yaml:{line}: ")


def test_large_files_are_refused_before_they_are_built() -> None:
    for text in ("a: " + "x" * MOST_BYTES, "[" * (DEEPEST + 2), "\n".join(["- 1"] * (MOST_NODES + 1))):
        with pytest.raises(BadExperiment):
            parse(text, "f.yaml")


def test_a_bomb_of_aliases_is_refused() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    with pytest.raises(BadExperiment, match="aliases"):
        parse(bomb, "f.yaml")
