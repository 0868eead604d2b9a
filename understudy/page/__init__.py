"""The page of a run in a browser: what `understudy watch` serves and `understudy page` writes into one file.

`recorded` has a run as the page takes it, `served` serves finished and live runs over HTTP, `lessons` and
`classroom` are for lessons, and `export` writes one file. The page itself is in `static`;
docs/inside/decisions/0011-page.md says how they fit.
"""
