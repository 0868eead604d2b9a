"""Draws numbers of runs as SVG text: distributions of groups on one axis, and phases stacked.

The same numbers give the same text. A picture is as wide as the place it is in, with texts of one size: places across
are per cents, places down are pixels. Colours are the variables `--s1` to `--s6`, `--text`, `--faint` and `--grid`
of the page, with values for light pages in case it has none; `understudy/history/writing.py` and the style of
a lesson's page set them. A picture is never the only form: a page has its numbers as a table.
"""
