"""The `understudy` command: one module for each verb, which imports what it needs only when the verb runs.

Flags are as in Kafka's tools: long options, `--name=value`, unique prefixes. An error is one sentence on stderr. The
exit code is 2 if the command line is wrong, 1 if the command failed. No other package imports this one.
"""
