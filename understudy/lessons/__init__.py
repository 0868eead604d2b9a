"""Lessons: a question, a prediction, a run that stops where it matters, and the same run without its defence.

A lesson is a file (`language`) around an experiment of `understudy.experiments`. `running` runs both of its sides,
`paper` finds the stops and fills in the measured values, and `telling` goes through the result as text.
"""
