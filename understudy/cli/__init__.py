"""The `understudy` command: thin, one module per verb, each imported only when it is asked for.

Kafka's habit with flags is kept: long options, `--name=value`, unique prefixes. Errors are one sentence on stderr; exit
code 2 says that the command line is wrong, 1 that what was asked for failed. Nothing imports this package.
"""
