"""The parts of verbs that need packages of the extra `spark`.

A verb imports its part when it runs, so that its help, the completion and the other verbs need no extra.
"""
