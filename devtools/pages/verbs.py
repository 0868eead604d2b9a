"""Generates docs/reference/verbs.md: the verbs on a running cluster, from the table that routes and command line are
made of."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.clusters.control.api_description import ANSWERS, OPERATIONS, READS
from understudy.clusters.verb_table import TARGETS, VERBS, Verb

NAME = "reference/verbs.md"

HEAD = """\
# Verbs on a running cluster

`understudy up` prints its run folder. From another terminal, a verb acts on that cluster by role:

```
understudy up --brokers 3 --dir runs/mine
understudy kill runs/mine controller
understudy pause runs/mine leader:orders/0 --for 5s
understudy arm runs/mine controller partition.after_write --action pause
understudy answer runs/mine leader:orders/0 --api Produce --error NOT_LEADER_OR_FOLLOWER --times 3
```

Each fault is in the event log of the run (`testbed/events`) before it is injected, with the role by which the broker
was found. A verb acts only on processes that this cluster has started. A process that is not in the state for it is
refused with the reason and exit code 1, and is not on record; a wrong target or duration has exit code 2. `all` acts on
the brokers that are in the state for the verb, and is refused if none is; of a rack, the others are named.

Verbs are done one after the other; `start` and `restart` return when the broker serves requests. With `--for` the
process of `understudy up` undoes the verb after that time, or once the verb that is being done then has ended. Undoing
it by hand earlier cancels that. At Ctrl-C paused brokers are resumed, isolations healed, and a ZooKeeper that a verb
has paused or ended runs again, so that the brokers can stop in order.

`understudy up --zookeepers 3` starts an ensemble of ZooKeepers. After `understudy kill runs/mine zookeeper:leader` the
two others elect a leader, and no session ends. After a second one the majority is gone, and nothing can be written
until `understudy start runs/mine zookeeper` starts all that are down.

`python -m devtools.pages` writes this page from `understudy/clusters/verb_table.py`; a test compares the two.
"""

ANSWER = """\
## An error on demand

`answer` lets a broker answer its next requests of one kind with an error of Kafka's, whatever it would answer itself:

```
understudy answer runs/mine leader:orders/0 --api Produce --error NOT_LEADER_OR_FOLLOWER --times 3 \\
    --topic orders --partition 0
understudy answer runs/mine all --api FindCoordinator --error COORDINATOR_NOT_AVAILABLE --client my-app --wait 30s
understudy answer runs/mine controller --api CreateTopics --error REQUEST_TIMED_OUT --and apply
understudy answer runs/mine all --api Fetch --throttle-ms 500
```

- `--api` is any request of clients that brokers serve, `--error` any error code of Kafka 3.9.1.
- The error is for everything that a request names, or for the `--topic` and its `--partition`; other partitions of the
  same request are handled. It has the level that Kafka's brokers give it: a Produce has it for each partition, an
  OffsetFetch of version 8 for each group.
- `--and ignore`, the default: the request is not handled. `--and apply`: it is handled (the records are appended), and
  the codes of its answer are replaced. Without `--error`, the answer is the broker's own with a throttle time. The
  broker itself does not delay the client's next request, as Kafka's would.
- Requests of other brokers count only if `--client` names their client id, for example `broker-2-fetcher-0`; a Produce
  with acks=0 never, because it has no answer.
- Of several answers that are armed, the first one for a request counts. They outlive a restart of the broker.

Each answer that is given is a record `AnswerInjected` of the broker. `GET /answers` of the control port has the counts
(`hits`), so that a test can wait; the command waits with `--wait`, and has exit code 1 if the answers were not given in
time. With a target of several brokers, each gives it up to `--times` times, and the counts are added. At the end of the
cluster a line names each answer that was never given.
"""

COMPOSE = """\
## On the compose cluster

With `--compose`, RUN is the folder of the compose file, and a verb is a command of docker on the container:

```
understudy kill . controller --compose
understudy isolate . leader:orders/0 --compose --for 10s
```

The fault is recorded in `run/compose/testbed/events`, which the user of the containers (uid 1000) owns; if the command
may not write there, it refuses. With `--for` the command itself waits, and undoes the verb also at Ctrl-C. `isolate`
takes the container off its network: traffic is lost, while a held connection would deliver it late.

`understudy watch . --compose` shows the cluster in a browser, and does the verbs from there
([page.md](../guides/page.md)).
"""

PORT = """\
## The control port

The commands use a control port, which tests in any language can use as well. It listens on 127.0.0.1, on a free port or
on the port of `understudy up --control 127.0.0.1:PORT`. `RUN/control.json`, readable only by its user, has the address
and a token; with `--control` they are also printed. A request that changes the cluster needs the token:

```
curl -s localhost:8099/verbs/pause -H "Authorization: Bearer $TOKEN" -d '{"target": "controller", "for": "5s"}'
curl -s localhost:8099/topics      -H "Authorization: Bearer $TOKEN" -d '{"name": "orders", "partitions": 3}'
curl -s localhost:8099/elections   -H "Authorization: Bearer $TOKEN" -d '{"partitions": ["orders/0"]}'
curl -s localhost:8099/produce     -H "Authorization: Bearer $TOKEN" -d '{"partition": "orders/0", "values": ["a"]}'
curl -s localhost:8099/cluster
```

Requests with another `Host` than the address, or with an `Origin`, are refused: web pages cannot use the port.
`/docs` shows every route with its body in a browser.

In a container this port and the brokers have to be open to others. `--control 0.0.0.0:8099` needs a token of your own,
of at least 16 characters, in `UNDERSTUDY_CONTROL_TOKEN` or by `--control-token`. Then every request needs the token,
also a `GET`, and may have any `Host`; one with an `Origin` is refused as well. The connection is not encrypted:
everyone on the way can read the token.

```
export UNDERSTUDY_CONTROL_TOKEN=$(openssl rand -hex 16)
understudy up --ports 19092,19093,19094 --advertised-host localhost --control 0.0.0.0:8099
curl -s http://HOST:8099/verbs/kill -H "Authorization: Bearer $UNDERSTUDY_CONTROL_TOKEN" -d '{"target": "controller"}'
```

With `--ports` (or `--port 19092`, the first of as many) each broker keeps its port when it starts again, also in
another `understudy up`. With `--advertised-host` the brokers listen on every interface and advertise that host with
these ports; among each other they use a second listener, on loopback, so that the host has to be reachable from clients
only. There is no authentication: whoever reaches a port can read and write all topics.
"""


def page() -> str:
    return "\n".join([*_verbs(), *_targets(), ANSWER, COMPOSE, *_compose(), PORT, *_routes(), *_answers()])


def _verbs() -> Iterator[str]:
    yield HEAD
    yield "| verb | what it does | `--for` | on ZooKeeper |"
    yield "|---|---|---|---|"
    for name, verb in VERBS.items():
        yield f"| `{name}` | {verb.meaning} | {_then(verb)} | {'yes' if verb.on_zookeeper else 'no'} |"
    yield ""


def _then(verb: Verb) -> str:
    return f"then `{verb.undo}`" if verb.undo else "no"


def _targets() -> Iterator[str]:
    yield "| target | what it means |"
    yield "|---|---|"
    for form, meaning in TARGETS.items():
        yield f"| `{form}` | {meaning} |"
    yield ""


def _compose() -> Iterator[str]:
    yield "| verb | on compose |"
    yield "|---|---|"
    for name, verb in VERBS.items():
        done = verb.on_compose or "not possible"
        yield f"| `{name}` | {f'`{done}`' if done.startswith('docker ') else done} |"
    yield ""


def _routes() -> Iterator[str]:
    yield "| route | what it does |"
    yield "|---|---|"
    for path, meaning in READS.items():
        yield f"| `GET {path}` | {meaning} |"
    for operation in OPERATIONS:
        yield f"| `POST {operation.path}` | {operation.meaning} |"
    yield ""


def _answers() -> Iterator[str]:
    yield "| status | what it means |"
    yield "|---|---|"
    for code, meaning in ANSWERS.items():
        yield f"| {code} | {meaning} |"
    yield ""
