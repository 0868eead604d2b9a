"""Generates the pages of docs/ that are made from the code: `python -m devtools.pages`.

tests/test_pages.py fails if a page is not current.
"""
