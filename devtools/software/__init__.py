"""Software seen working: programs that nobody here wrote, across the deaths of leaders, coordinator and controller.

Each program copies one topic to another. `programs` says how each is had and started, `run` feeds it, kills brokers and
compares the two topics, `page` writes docs/reference/software.md. `python -m devtools.software --help` runs them.
"""
