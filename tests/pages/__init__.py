"""The pages of docs/ that are made from the code. `python -m tests.pages` writes them; tests/test_pages.py compares
them with what the code says today."""
