"""Finds why a run has failed: what ends it, what it leaves over, and what the logs of the leaders lack.

`watch.py` lets the test run and finds that it never ends, `verdict.py` judges the run after it, and `code_lines.py`
names the lines of a user's code.
"""
