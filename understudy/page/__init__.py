"""The page of a run in a browser: what `understudy watch` serves and `understudy page` writes into one file.

`records` encodes the records of the event logs as the page gets them, `chunks` holds them, `runs` reads finished and
live runs, `app` is the HTTP application, `server` runs it, and `export` writes one file. The page itself is in
`static`; docs/inside/decisions/0011-page.md says how they fit.
"""
