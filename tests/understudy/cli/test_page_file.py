"""A page is written to a file, or one sentence says why it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.cli.arguments import Failed
from understudy.cli.page_file import write_page
from understudy.page.export import TooLarge


def too_large() -> str:
    raise TooLarge("the run has too many records")


def test_a_file_is_written_and_its_size_said(tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    assert write_page(file, lambda: "<p>é</p>") == f"{file}  9 bytes; open it in a browser"
    assert file.read_bytes() == "<p>é</p>".encode()


def test_a_page_that_is_too_large_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"^the run has too many records$"):
        write_page(tmp_path / "run.html", too_large, "--output")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("option", "begins"), [("--page", "--page "), ("", "")])
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, option: str, begins: str) -> None:
    with pytest.raises(Failed) as failed:
        write_page(tmp_path, lambda: "", option)
    assert str(failed.value) == f"{begins}{tmp_path}: Is a directory"
