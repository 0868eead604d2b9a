"""Injects faults into a running cluster for hours, and judges it and its clients all the while: `understudy soak`.

The modules here decide, and know no world; those of `live` touch processes, files, sockets and the clock.
"""
