"""The file that `understudy lesson new` writes."""

from __future__ import annotations

_TEMPLATE = """\
# A lesson: an experiment with a question before it, moments to stop at, and the same run without its defence.
#   understudy lesson check {name}.yaml
#   understudy lesson {name}.yaml --simulated
schema: understudy/lesson/v1
name: {name}
title: The controller is killed
question: How long is the cluster without a controller?
minutes: 5

# The name of an experiment (`understudy experiment list`), or one written here, without `schema` and `name`.
experiment: kill-controller
seed: 1                              # of both runs; in the simulator it decides everything

called: with a session timeout of 3 s
other:                               # the run beside it; simulated also if the first one is not
  called: with a session timeout of 12 s
  # One of: `without: kip-380` (a fence or a fix off), `set: {{KEY: VALUE}}` (server.properties), `experiment: …`,
  # `recording: COMMAND` (a run that is not simulated)
  experiment:
    cluster: {{session: 12s, topics: [{{name: orders, partitions: 6, replicas: 3, min_insync: 2}}]}}
    load: {{producers: 2, consumers: 1, rate: 20}}
    steps: [{{at: 2s, as: C, kill: controller}}, {{when: ready, not: C, mark: successor}}]
    expect: {{within: {{L1: 20s}}}}

intro: >
  What happens, as far as the learner has to know it before predicting.

predict:
  question: What takes the longest?
  choices:                           # exactly one condition may hold: NAME SIGN NAME-OR-NUMBER, joined by `and`
    - {{text: Finding out that it is gone., when: detection_ms > takeover_ms}}
    - {{text: The work of the next one., when: detection_ms <= takeover_ms}}
  # or a number: {{answer: outage_ms, unit: ms, within: 30}}

stops:
  # A record by its type and its fields; docs/reference/event-log.md lists them. `nth`, `after: STOP`, `side: other`.
  - name: killed
    find: FaultInjected
    where: {{fault: kill}}
    headline: The controller is killed
    text: >
      What to notice. A value from the run is written in braces: {{stop.killed.target}} was killed.
  - name: elected
    find: ControllerElected
    after: killed
    headline: Broker {{stop.elected.broker_id}} is elected, {{between.killed.elected}} later
    text: Detection took {{detection_ms}}, everything else {{takeover_ms}}.
  - name: elected-other
    side: other
    find: ControllerElected
    nth: 2
    headline: With the longer timeout
    text: Here detection took {{other.detection_ms}}.

check:
  question: What would you change so that the time without a controller becomes shorter?
  choices:
    - {{text: The session timeout., when: detection_ms > takeover_ms}}
    - {{text: The number of partitions., when: detection_ms <= takeover_ms}}
  because: Why this is right.

explain: >
  What to explain at the end.

read:
  - kafka: core/src/main/scala/kafka/controller/KafkaController.scala
    why: onControllerFailover
"""


def template(name: str) -> str:
    """Return the text of a new lesson file."""
    return _TEMPLATE.format(name=name)
