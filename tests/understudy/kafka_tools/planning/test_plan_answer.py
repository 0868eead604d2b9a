"""Tests of papers: text in columns, and HTML in which nothing of a person's words is markup."""

from __future__ import annotations

from understudy.kafka_tools.planning.plan_answer import AnswerTable, Bar, Heading, PlanAnswer, html_of, text_of

PAPER = PlanAnswer(
    "A plan",
    (
        "one",
        "two",
        AnswerTable(("name", "count", ""), (("a", "10", Bar(2, 4)), ("longer", "1", Bar(0, 4)))),
        Heading("Then"),
        "three",
    ),
)


def test_text_has_columns_and_bars() -> None:
    assert text_of(PAPER).splitlines() == [
        "A plan",
        "",
        "one",
        "two",
        "",
        "name    count",
        "a       10     ████████████",
        "longer  1",
        "",
        "Then",
        "",
        "three",
    ]


def test_long_paragraph_is_wrapped_and_a_short_bar_is_seen() -> None:
    text = text_of(PlanAnswer("t", ("word " * 40, AnswerTable(("",), ((Bar(1, 10_000),), (Bar(0, 0),))))))
    assert max(map(len, text.splitlines())) <= 100
    assert "█" in text


def test_html_shows_names_as_text() -> None:
    page = html_of(PlanAnswer("<b>", ("<i>", Heading("<u>"), AnswerTable(("<th>",), (("<script>",), (Bar(1, 2),))))))
    assert page.count("&lt;") == 6
    assert "<script>" not in page
    assert '<rect width="120" height="14"/>' in page
