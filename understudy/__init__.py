"""What people do with the cluster: run it, break it, watch it, replay it.

`testbed` is the real world on one machine, `simulator` another world for the same code, `checkers` what must always hold,
`replay` Spark over event logs, `cli` the `understudy` command.
"""
