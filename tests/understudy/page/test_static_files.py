"""The files of the page: complete, by their names, and with nothing from elsewhere."""

from __future__ import annotations

import hashlib
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import unquote

import pytest

from understudy.page.classroom import phone_app
from understudy.page.static_files import (
    FOLDER,
    IMPORT_MAP,
    LESSON,
    icon,
    modules,
    page_in_one_file,
    read_static,
    served_page,
)

NOTICE = (FOLDER / "NOTICE").read_text()
OURS = "are this project's own"


def test_each_file_of_others_is_named_with_its_version_licence_and_hash() -> None:
    """A line of a vendored file is `NAME VERSION LICENCE sha256:HASH ADDRESS`, the licence by its SPDX name."""
    assert OURS in NOTICE
    entries = [line.split() for line in NOTICE.splitlines() if "sha256:" in line]
    for name, version, licence, digest, address in entries:
        assert version[0].isdigit(), name
        assert licence[0].isupper(), name
        assert address.startswith("https://"), name
        assert digest == f"sha256:{hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()}"
    named = {entry[0] for entry in entries}
    known = re.compile(r"(?:index|lesson)\.html|NOTICE|[a-z0-9_]+\.(?:js|css)")
    for path in FOLDER.iterdir():
        assert path.name in named or known.fullmatch(path.name), f"{path.name} is no file of ours: name it in NOTICE"
        if path.name not in named:
            assert not re.search(rb"@license|Copyright \(c\)|sourceMappingURL", path.read_bytes()), path.name


@pytest.mark.parametrize("name", modules())
def test_a_module_imports_only_other_modules_by_their_names(name: str) -> None:
    text = (FOLDER / name).read_text()
    for imported in re.findall(r"""(?:\bfrom|\bimport)\s*\(?\s*["']([^"']+)["']""", text):
        assert imported.startswith("#"), f"{name} imports {imported!r}; expected a name such as #source"
        assert (FOLDER / f"{imported[1:]}.js").is_file(), f"{name} imports {imported}, which does not exist"


def test_every_module_is_in_the_import_map() -> None:
    html, _ = served_page()
    assert IMPORT_MAP in (FOLDER / "index.html").read_text()
    for name in modules():
        assert f'"#{name.removesuffix(".js")}": "/static/{name}"' in html
        assert read_static(name) == (FOLDER / name).read_bytes()


def test_a_served_page_names_at_once_all_that_it_loads_first() -> None:
    html, _ = served_page()
    preloaded = set(re.findall(r'<link rel="modulepreload" href="/static/(\w+\.js)">', html))
    assert preloaded == {name for name in modules() if not name.startswith("lesson")}
    assert html.index("importmap") < html.index("modulepreload") < html.index('import "#main"')
    assert '<link rel="preload" href="run.json"' in html
    lesson, _ = served_page(LESSON)
    assert "/static/lesson_source.js" in re.findall(r'<link rel="modulepreload" href="([^"]+)">', lesson)
    assert "run.json" not in lesson


def test_one_file_has_everything_and_may_connect_to_nothing() -> None:
    html = page_in_one_file("")
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", html)
    assert "/static/" not in re.sub(r"base64,[\w+/=]+", "", html)
    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', html)
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy
    assert html.index("Content-Security-Policy") < html.index("<script")


@pytest.mark.parametrize("name", ["", ".", "..", "../app.py", "NOTICE", "index.html", "a" * 100 + ".js", "source.js\n"])
def test_no_other_file_is_read(name: str) -> None:
    assert read_static(name) is None


def test_each_page_contains_the_same_icon() -> None:
    [address] = re.findall(r'href="data:image/svg\+xml,([^"]+)"', icon())
    assert ET.fromstring(unquote(address)).tag == "{http://www.w3.org/2000/svg}svg"
    pages = [*FOLDER.glob("*.html"), *Path(phone_app.__file__).parent.glob("static/*.html")]
    assert len(pages) == 3
    assert [path.name for path in pages if icon() not in path.read_text(encoding="utf-8")] == []
    assert icon() in page_in_one_file()
