"""Verbs on a running cluster: kill, pause, isolate, …, by the HTTP control port of `understudy up`, or by compose.

`verb_table` lists the verbs once, for routes, command line and pages. `verbs` does them on a `LocalCluster`, `app` is
the HTTP application, `server` runs it, and `client` calls it. `compose` does the verbs on containers, and
`compose_server` runs the same application for them.
"""
