"""The page's scripts in a browser, and records as they get them, for tests of the fold, of histories and of strips."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from importlib import resources

import msgspec
from playwright.sync_api import Page

from understudy.foundation.eventlog.records import Envelope
from understudy.page.recorded.exact import exact, exact_micros
from understudy.page.recorded.payloads import page_data

MODULES = (
    "catalogue",
    "channels",
    "completeness",
    "coordinators",
    "dom",
    "fold",
    "history",
    "offsets",
    "paths",
    "requests",
    "state",
    "tables",
    "timeline",
    "words",
    "znodes",
)
_HTML = """<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,">
<script type="importmap">{imports}</script>
<script type="module">
import * as fold from "#fold";
import * as history from "#history";
import {{ Catalogue }} from "#catalogue";
import {{ Completeness, placeOf }} from "#completeness";
import {{ Timeline }} from "#timeline";
import * as words from "#words";
const {{ document: documentOf, ...others }} = fold;
Object.assign(window, {{ ...others, ...history, Catalogue, Completeness, Timeline, documentOf, placeOf, words }});
window.loaded = true;
</script>"""


def load(page: Page) -> None:
    """Load the modules into a page, from `data:` URLs; what they export becomes global, `document` as
    `documentOf`."""
    static = resources.files("understudy.page") / "static"
    imports = {
        f"#{name}": f"data:text/javascript;base64,{base64.b64encode((static / f'{name}.js').read_bytes()).decode()}"
        for name in MODULES
    }
    page.set_content(_HTML.format(imports=json.dumps({"imports": imports})))
    page.wait_for_function("window.loaded")


def page_text(records: Sequence[Envelope]) -> str:
    """Return records as the JSON text that the page gets, without words and links."""
    return msgspec.json.encode([_array(record) for record in records]).decode()


def _array(record: Envelope) -> tuple[object, ...]:
    return (
        exact_micros(record.mono_ms),
        record.node,
        exact(record.incarnation),
        exact(record.seq),
        record.type,
        None if record.cause is None else exact(record.cause),
        exact(record.zxid),
        exact(record.controller_epoch),
        page_data(record),
        None,
        None,
    )
