"""Tests of the format of Java properties files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.brokers.config.properties import MalformedProperties, format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1\nb: 2\nc 3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# comment\n  ! another\n\n \t\na=#not one", {"a": "#not one"}),
        ("hosts=a,\\\n      b,\\\r\n\tc", {"hosts": "a,b,c"}),
        ("a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        ("key\\ with\\:signs\\==v", {"key with:signs=": "v"}),
        ("a=\\u00e9\\t\\q", {"a": "é\tq"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1 ", {"a": "1 "}),
        ("a==1", {"a": "=1"}),
        ("a=dangling\\", {"a": "dangling"}),
        ("  a\t:\t1", {"a": "1"}),
    ],
)
def test_the_format_of_java_properties(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_broken_unicode_escape_names_its_line() -> None:
    with pytest.raises(MalformedProperties, match=r"line 2: .*four hexadecimal digits"):
        parse_properties("a=1\nb=\\u12g4")


_text = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.dictionaries(_text.filter(bool), _text, max_size=5))
def test_formatted_properties_are_read_again(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties
