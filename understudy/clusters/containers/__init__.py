"""Runs clusters in containers of a compose project, by the `docker` command.

`compose_project` acts on the containers of any project, `compose_cluster` starts a separate project for one cluster
and takes it down, and `cleanup` takes it down if the program that started it was killed.
"""
