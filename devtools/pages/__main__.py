"""`python -m devtools.pages`: write every page that is made from the code."""

from __future__ import annotations

from devtools.pages import architecture, event_log, invariants, kafka_names, state_machines, tables, verbs
from devtools.pages.source import DOCS
from tests import metrics_page

PAGES = {
    metrics_page.PAGE.relative_to(DOCS).as_posix(): metrics_page.page,
    **{
        module.NAME: module.page
        for module in (architecture, event_log, invariants, kafka_names, state_machines, tables, verbs)
    },
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
