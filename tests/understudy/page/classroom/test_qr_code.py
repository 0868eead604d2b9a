"""QR codes of an address, as a picture and as characters."""

from __future__ import annotations

import re

import segno

from understudy.page.classroom.qr_code import half_blocks, qr_lines, qr_svg

ADDRESS = "http://192.168.100.200:43817/#zv66rz"


def test_two_rows_of_modules_are_a_line_of_half_blocks() -> None:
    assert half_blocks([(True, False, True, False), (True, False, False, True), (True, False, False, True)]) == [
        "█ ▀▄",
        "▀  ▀",
    ]


def test_the_lines_have_the_modules_of_the_code_with_their_border() -> None:
    lines = [re.sub("\x1b\\[[\\d;]*m", "", line) for line in qr_lines(ADDRESS)]
    rows = [row for line in lines for row in ([each in "█▀" for each in line], [each in "█▄" for each in line])]
    matrix = [[bool(each) for each in row] for row in segno.make_qr(ADDRESS, error="m").matrix]
    assert [row[4:-4] for row in rows[4 : 4 + len(matrix)]] == matrix
    assert not any(any(row) for row in (*rows[:4], *rows[4 + len(matrix) :]))


def test_the_picture_is_dark_on_white_with_nothing_from_elsewhere() -> None:
    picture = qr_svg(ADDRESS).decode()
    assert 'fill="#fff"' in picture
    assert 'stroke="#000"' in picture
    assert "href" not in picture
