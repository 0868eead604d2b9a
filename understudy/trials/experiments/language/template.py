"""The file that `understudy experiment new` writes."""

from __future__ import annotations

_TEMPLATE = """\
# An experiment: what is done to a cluster, and what must hold. Check it, then run it:
#   understudy experiment explain {name}.yaml
#   understudy experiment run {name}.yaml                  # simulated, in a second
#   understudy experiment run {name}.yaml --engine real    # processes and a real ZooKeeper
schema: understudy/v1
name: {name}
question: Do clients continue when the controller is killed?

cluster:
  brokers: 3
  session: 3s                    # the ZooKeeper session timeout
  topics: [{{name: orders, partitions: 3, replicas: 3, min_insync: 2}}]

load: {{producers: 2, consumers: 1, rate: 20, acks: all}}

steps:
  # `at`: a time. `when`: an event. `after`: the mark of another step. Without any: after the step before.
  - {{at: 2s, as: C, kill: controller}}
  - {{when: elected, not: C, mark: successor}}
  - {{after: successor, wait: 1s..2s, start: C}}        # the seed draws from 1s..2s

expect:
  always: [all-safety]                                 # or ids: [C1, P1-P6, H1]; see docs/reference/invariants.md
  within: {{L1: 6s, L2: 7s, L3: 15s}}                    # after the last fault
  sometimes: [elected]                                 # what the run must reach

story: >
  What one sees, and why.
"""


def template(name: str) -> str:
    """Return the text of a new experiment."""
    return _TEMPLATE.format(name=name)
