"""The files of the page: the HTML, its style sheets and modules, with the import map and the hashes that it needs.

`index.html` has an empty `<script type="importmap"></script>`, which is filled with a name `#x` for each module
`static/x.js`, and links its style sheets as `/static/x.css`. Modules import each other by those names, so that the same
sources run from a server and from one file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

FOLDER: Final = Path(__file__).with_name("static")
TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The media types of the files that are served, by suffix."""
INDEX: Final = "index.html"
LESSON: Final = "lesson.html"
IMPORT_MAP: Final = '<script type="importmap"></script>'
_NAME: Final = re.compile(r"[a-z0-9_]{1,64}\.(?:js|css|svg)")
_ICON: Final = re.compile(r'<link rel="icon" href="data:image/svg[^"]+">')
_INLINE_SCRIPT: Final = re.compile(r"<script(?P<attributes>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)
_RUN: Final = ('type="importmap"', 'type="module"')
_IMPORT: Final = re.compile(r'^\s*(?:import|export|\}).*"#(\w+)";$', re.MULTILINE)
_COMMENT: Final = re.compile(rb"^[ \t]*/\*\*.*?\*/\n", re.DOTALL | re.MULTILINE)
_STYLE: Final = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL)
_STYLE_SHEET: Final = re.compile(
    r'<link rel="stylesheet" href="/static/(?P<name>[a-z0-9_]+\.css)"(?P<attributes>[^>/]*)/?>'
)


def icon() -> str:
    """Return the HTML element that links the icon of all pages. It contains the icon."""
    [found] = _ICON.findall((FOLDER / INDEX).read_text(encoding="utf-8"))
    assert isinstance(found, str)
    return found


def read_static(name: str) -> bytes | None:
    """Return a file of the page; None if there is none of this name."""
    path = FOLDER / name
    return path.read_bytes() if _NAME.fullmatch(name) and path.is_file() else None


def served_page(name: str = INDEX, *, frames: str = "'none'", ancestors: str = "'none'") -> tuple[str, str]:
    """Return the HTML of a page as it is served, and its Content-Security-Policy.

    Args:
        name: the HTML file in the folder of the page.
        frames: which pages it may show in frames, as in the directive `frame-src`.
        ancestors: which pages may show it in a frame, as in the directive `frame-ancestors`.
    """
    html = _with_import_map(lambda module: f"/static/{module}", name)
    # Otherwise a browser finds a module only when it has read those that import it, four requests in a row.
    links = [f'<link rel="modulepreload" href="/static/{module}">' for module in _modules_of(html)]
    if name == INDEX:
        links.append('<link rel="preload" href="run.json" as="fetch" crossorigin>')
    html = _insert(html, "\n" + "\n".join(links), after="</script>")
    policy = (
        "default-src 'none'",
        f"script-src 'self' {' '.join(_script_hashes(html))}",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        f"frame-src {frames}",
        "base-uri 'none'",
        "form-action 'none'",
        f"frame-ancestors {ancestors}",
    )
    return html, "; ".join(policy)


def page_in_one_file(data: str = "", name: str = INDEX, *, frames: Iterable[str] = ()) -> str:
    """Return a page with everything in it: style sheets, modules, and the HTML elements `data` with its contents.

    Its Content-Security-Policy allows no connection.

    Args:
        name: the HTML file in the folder of the page.
        frames: pages made by this function that it shows in frames. Its policy also applies in the frames.
    """
    html = _with_import_map(
        lambda module: _data_url(_without_comments(_read(module))), name, _modules_of(_read(name).decode())
    )
    html = _STYLE_SHEET.sub(lambda link: f"<style{link['attributes']}>{_read(link['name']).decode()}</style>", html)
    pages = (html, *frames)
    scripts = dict.fromkeys(each for page in pages for each in _script_hashes(page))
    styles = dict.fromkeys(_hash(style) for page in pages for style in _STYLE.findall(page))
    policy = (
        "default-src 'none'",
        f"script-src data: {' '.join(scripts)}",
        " ".join(("style-src", *(styles or ("'none'",)))),
        "img-src data:",
        "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(policy)}">'
    html = _insert(html, meta, after='<meta charset="utf-8">')
    return _insert(html, data, before="<script")


Share: TypeAlias = Callable[[str, bytes], str]
"""Takes the name of a file that pages share, and its content; returns the address by which they link it."""


def linked_style_sheets(html: str, share: Share) -> str:
    """Return HTML that links its style sheets by the addresses of shared files."""

    def link(found: re.Match[str]) -> str:
        return f'<link rel="stylesheet" href="{share(found["name"], _read(found["name"]))}"{found["attributes"]}>'

    return _STYLE_SHEET.sub(link, html)


def linked_lesson_page(script_name: str, share: Share) -> str:
    """Return the page of a lesson with style sheets and a script in files beside it.

    It runs from disk also, from which a browser reads classic scripts, but no modules. The script adds the import map,
    whose modules are data, and the element `frame` with the page that the frames of all lessons share.

    Args:
        script_name: the name of the script.
        share: called for the script and for each style sheet.
    """
    frame = page_in_one_file()
    imports = _import_map(
        lambda module: _data_url(_without_comments(_read(module))), _modules_of(_read(LESSON).decode())
    )
    text = "".join(
        f"document.currentScript.before(Object.assign(document.createElement('script'), {json.dumps(each)}));\n"
        for each in (
            {"type": "application/json", "id": "frame", "text": json.dumps(frame)},
            {"type": "importmap", "text": imports},
        )
    )
    html = linked_style_sheets((FOLDER / LESSON).read_text(), share)
    html = html.replace(IMPORT_MAP, f'<script src="{share(script_name, text.encode())}"></script>')
    scripts = " ".join(dict.fromkeys([_hash(imports), *_script_hashes(html), *_script_hashes(frame)]))
    styles = " ".join(dict.fromkeys(_hash(style) for style in _STYLE.findall(frame)))
    # The origin of a file is opaque, so that 'self' stands for nothing there.
    policy = (
        "default-src 'none'",
        f"script-src 'self' file: data: {scripts}",
        f"style-src 'self' file: {styles}",
        "img-src data:",
        "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(policy)}">'
    return _insert(html, meta, after='<meta charset="utf-8">')


def modules() -> list[str]:
    """The names of the modules' files, sorted."""
    return sorted(path.name for path in FOLDER.glob("*.js"))


def _modules_of(html: str) -> list[str]:
    """The names of the modules' files that a page imports, and those that they import."""
    found: list[str] = []
    texts = [script["text"] for script in _INLINE_SCRIPT.finditer(html)]
    for text in texts:
        for imported in _IMPORT.findall(text):
            if (module := f"{imported}.js") not in found:
                found.append(module)
                texts.append(_read(module).decode())
    return found


def _with_import_map(address: Callable[[str], str], page: str = INDEX, wanted: Iterable[str] | None = None) -> str:
    text = _import_map(address, modules() if wanted is None else wanted)
    return _insert((FOLDER / page).read_text(), text, before="</script>", inside=IMPORT_MAP)


def _import_map(address: Callable[[str], str], wanted: Iterable[str]) -> str:
    return json.dumps({"imports": {f"#{Path(name).stem}": address(name) for name in sorted(wanted)}}, indent=1)


def _insert(html: str, text: str, *, before: str = "", after: str = "", inside: str = "") -> str:
    """Insert text into `html` before or after the first place of a mark, or before a mark in the text `inside`."""
    mark = inside or before or after
    start = html.find(mark)
    if start < 0:
        raise ValueError(f"the page has no {mark}")
    place = start + (mark.index(before) if before else len(mark))
    return html[:place] + text + html[place:]


def _read(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def _without_comments(module: bytes) -> bytes:
    """Return a module without the comments before its definitions, for a file with everything in it."""
    return _COMMENT.sub(b"", module)


def _data_url(module: bytes) -> str:
    return "data:text/javascript;base64," + base64.b64encode(module).decode()


def _script_hashes(html: str) -> Iterator[str]:
    """Yield the hashes of the inline scripts that a browser runs; it does not run elements with data."""
    for script in _INLINE_SCRIPT.finditer(html):
        if script["attributes"].strip() in _RUN:
            yield _hash(script["text"])


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
