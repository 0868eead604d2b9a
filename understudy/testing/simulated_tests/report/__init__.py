"""What a person gets of a run that has failed: the fewest faults, the story, the text of the report and the page.

`report.py` makes the text, with the faults of `shrink.py` and the lines of `story.py`; `client_logs.py` writes the
event logs and the page, and `trace.py` has a line for each callback, so that two runs of a seed can be compared.
"""
