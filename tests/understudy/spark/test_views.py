"""The SQL of a table has all views that it reads, in order and with comments, and only tables of a lake in braces."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from zipfile import ZipFile

import pytest

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.spark.package_archive import package_archive
from understudy.spark.views.definitions import RECORDS, SMALL, TABLES, definition, views


@pytest.mark.parametrize("name", TABLES)
def test_a_definition_has_each_view_with_a_comment_before_those_that_read_it(name: str) -> None:
    text = definition(name)
    assert text.startswith(("WITH\n\n--", "-- "))
    defined = re.findall(r"^(\w+) AS \($", text, re.MULTILINE)
    assert len(re.findall(r"(?:^--.*\n)+^(?:\w+ AS \(|SELECT)", text, re.MULTILINE)) == len(defined) + 1
    for place, each in enumerate(defined):
        assert set(views()[each].reads) <= set(defined[:place])
    assert set(views()[name].reads) <= set(defined)
    assert set(re.findall(r"{(\w+)}", text)) <= {*PAYLOAD_BY_TYPE, RECORDS, "clocks"}


def test_no_view_is_left_over() -> None:
    read = {each for name in TABLES for each in re.findall(r"^(\w+) AS \($", definition(name), re.MULTILINE)}
    assert views().keys() - read - PAYLOAD_BY_TYPE.keys() <= set(TABLES)
    written = "".join(
        file.read_text() for file in files("understudy.spark.views").iterdir() if file.name.endswith(".sql")
    )
    assert written.count("CREATE TEMPORARY VIEW") == len(views().keys() - PAYLOAD_BY_TYPE.keys()) + 1


def test_given_views_are_in_braces_and_what_only_they_read_is_left_out() -> None:
    text = definition("reigns", given=SMALL)
    assert "FROM {reign_times}" in text
    assert "WITH" not in text
    of_reigns = definition("reign_times", given=SMALL)
    assert "reign_times AS (" not in of_reigns
    assert "JOIN {incarnations} i" in of_reigns
    assert "incarnations AS (" not in of_reigns
    assert "{clocks}" not in of_reigns


def test_an_unknown_view_is_named() -> None:
    with pytest.raises(KeyError, match="there is no view 'nothing'; the tables are settings, totals, "):
        definition("nothing")


def test_the_archive_of_the_package_has_the_sql(tmp_path: Path) -> None:
    """`spark-submit --py-files` gives the archive to a driver as well."""
    with ZipFile(package_archive(tmp_path)) as archive:
        names = {Path(name).name for name in archive.namelist() if name.startswith("understudy/spark/views/")}
    assert {file.name for file in files("understudy.spark.views").iterdir() if file.name.endswith(".sql")} <= names
