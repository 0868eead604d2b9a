"""What pages are written with: numbers with their noun, lines of one width, and HTML that escapes what it shows."""

from __future__ import annotations

import re

from understudy.history.writing import WIDTH, Html, counted, cut, element, fitted, joined, page, table


def test_a_number_has_its_noun_in_the_plural_but_for_one() -> None:
    assert [counted(number, "run") for number in (0, 1, 1_200)] == ["0 runs", "1 run", "1,200 runs"]


def test_a_line_of_text_is_cut_and_shows_control_characters_as_text() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
    assert fitted("\x1b[31mred  ") == "\\x1b[31mred"
    assert len(fitted("x" * 200)) == WIDTH


def test_an_element_escapes_texts_and_values_and_keeps_what_is_html() -> None:
    assert element("p", "<b> & ", element("b", '"'), class_='a"b') == (
        '<p class="a&quot;b">&lt;b&gt; &amp; <b>&quot;</b></p>'
    )
    assert element("rect", width=3, stroke_width=0.5) == '<rect width="3" stroke-width="0.5"/>'
    assert element("td", "") == "<td></td>"
    assert joined(("<", Html("<i>"))) == "&lt;<i>"


def test_a_table_has_a_row_for_each_row_and_may_have_none() -> None:
    shown = table(("a", ""), [("1", "<"), (element("b", "2"), "3")], caption="c", numbers=True)
    assert re.findall(r"<td>(.*?)</td>", shown) == ["1", "&lt;", "<b>2</b>", "3"]
    assert '<table class="numbers"><caption>c</caption>' in shown
    assert "<tbody></tbody>" in table(("a",), [])


def test_a_page_is_one_file_for_light_and_dark() -> None:
    text = page("A & B", "a paragraph <", element("h2", "head"))
    assert text.startswith("<!DOCTYPE html>")
    assert "<title>A &amp; B</title>" in text
    assert "<h1>A &amp; B</h1>\n<p>a paragraph &lt;</p>\n<h2>head</h2>" in text
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"<script|https?://|<link|<img", text)
