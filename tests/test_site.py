"""Tests of the site that `make site` builds from docs/: nothing is loaded from a network, and links are checked."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from devtools.pages.source import DOCS

pytestmark = pytest.mark.xdist_group("site")

_LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}
"""The elements that a browser loads something for, and the attribute that says what; `a` is loaded by a reader only."""
_IN_STYLES = re.compile(r"(?:url\(|@import)\s*['\"]?([^'\")\s;]+)")
_REMOTE = re.compile(r"(?:https?:)?//", re.IGNORECASE)


def build(pages: Path, site: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Build a site as strictly as `make site`; `more` are further options."""
    options = [
        *more,
        "--builder",
        "html",
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
        "--doctree-dir",
        f"{site}-cache",
    ]
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(pages), str(site)], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = build(DOCS, folder)
    assert (built.returncode, built.stderr) == (0, "")
    return folder


def test_every_page_of_docs_is_a_page_of_the_site(site: Path) -> None:
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert pages == {page.relative_to(site) for page in site.rglob("*.html")} - {Path("search.html")}


def test_no_page_loads_anything_from_a_network(site: Path) -> None:
    texts = [file for file in site.rglob("*") if file.suffix in {".html", ".css", ".svg"}]
    remote = [f"{file.relative_to(site)}: {address}" for file in texts for address in loaded(file.read_text())]
    assert [each for each in remote if _REMOTE.match(each.partition(": ")[2])] == []
    assert any(each.endswith("furo.css") or "furo.css?" in each for each in remote), "no style sheet was seen"


def test_the_index_of_the_search_knows_the_pages(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    assert "reference/event-log" in index
    assert '"leaderandisr"' in index or "leaderandisr:" in index
    assert "searchindex.js" in (site / "search.html").read_text()


def test_links_to_files_outside_of_docs_are_text(site: Path) -> None:
    page = (site / "guides" / "testing-clients.html").read_text()
    assert re.search(r"a named point \(<code[^>]*><span[^>]*>controller/points\.py</span></code>\)", page)
    assert not [
        target for target in re.findall(r'<a [^>]*href="([^"#]*)', page) if target.endswith((".py", "README.md"))
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[one](one.md)", ""),
        ("[one](one.md#second-heading)", ""),
        ("[one](one.md#third-heading)", "third-heading"),
        ("[one](one.md), [two](two.md)", "two.md"),
        ("nothing", "isn't included in any toctree"),
    ],
    ids=["a page", "an anchor", "no such anchor", "no such page", "a page without a link"],
)
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path, text: str, problem: str) -> None:
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "conf.py").write_text((DOCS / "conf.py").read_text())
    (pages / "one.md").write_text("# One\n\n## Second heading\n")
    (pages / "index.md").write_text(f"# First\n\n{text}\n")
    built = build(pages, tmp_path / "site")
    assert (built.returncode == 0) == (not problem), built.stderr
    assert problem in built.stderr


@pytest.mark.parametrize("has_lessons", [True, False])
def test_the_navigation_has_the_lessons_if_they_are_written(tmp_path: Path, has_lessons: bool) -> None:
    folder = tmp_path / "docs" / "guides"
    folder.mkdir(parents=True)
    (folder.parent / "conf.py").write_text((DOCS / "conf.py").read_text())
    (folder / "one.md").write_text("# One\n")
    (folder.parent / "index.md").write_text("# First\n\n[one](guides/one.md)\n")
    built = build(folder.parent, tmp_path / "site", *(["--tag", "lessons"] if has_lessons else []))
    assert built.returncode == 0, built.stderr
    pages = {"index.html": "lessons/index.html", "guides/one.html": "../lessons/index.html", "search.html": "lessons/"}
    for page, address in pages.items():
        assert (f'href="{address}' in (tmp_path / "site" / page).read_text()) == has_lessons


class _Loads(HTMLParser):
    """Collects what a page makes a browser load, and its styles."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        wanted = _LOADED.get(tag)
        self.addresses += [value for name, value in attrs if value and name == wanted]


def loaded(text: str) -> Iterator[str]:
    """The addresses in a page or a style sheet that a browser loads by itself."""
    parser = _Loads()
    parser.feed(text)
    yield from parser.addresses
    yield from _IN_STYLES.findall(text)


def test_addresses_are_found_in_pages_and_styles() -> None:
    page = '<link rel="stylesheet" href="//a/b.css"><script src="https://c/d.js"></script><a href="https://e/">e</a>'
    style = "@import 'https://f/g.css'; p { background: url(\"h.png\") }"
    assert list(loaded(page + style)) == ["//a/b.css", "https://c/d.js", "https://f/g.css", "h.png"]
    assert [bool(_REMOTE.match(each)) for each in loaded(page + style)] == [True, True, True, False]
