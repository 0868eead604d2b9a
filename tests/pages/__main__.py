"""`python -m tests.pages`: write every page that is made from the code."""

from __future__ import annotations

from tests.pages import event_log, kafka_names, state_machines
from tests.pages.source import DOCS

PAGES = {module.NAME: module.page for module in (event_log, kafka_names, state_machines)}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
