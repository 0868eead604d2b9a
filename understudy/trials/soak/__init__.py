"""Injects faults into a running cluster for hours, and judges it and its clients meanwhile: `understudy soak`.

The modules here make the decisions; only the modules of `live` use processes, files, sockets and the clock.
"""
