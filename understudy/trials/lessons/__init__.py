"""Lessons: a question, a prediction, a run with stops at the moments that matter, and the same run without its defence.

A lesson is a file around an experiment: `document` and `reading` say what a file may have. `running` runs both sides of
a lesson, `prepared_lesson` finds the stops and fills in the measured values, and `lesson_text` shows the result as
text.
"""
