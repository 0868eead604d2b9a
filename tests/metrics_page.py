"""docs/metrics.md, made of the code's own tables: `python -m tests.metrics_page` writes it; a test holds it to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from brokers.mbeans import MBEANS
from controller.controller_state import ControllerState
from foundation.metrics.mbeans import Kind, MBean

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"

HEAD = """\
# Metrics

`metrics.port=7071` in `server.properties` makes a broker answer `GET /metrics` with its numbers in Prometheus' text format
(`0` takes any free port; without the key nothing is served). It listens on the loopback address unless `metrics.host` says
otherwise; what was bound is in the log, and as `host:port` in the file `metrics.address` in the log directory.

```
curl -s http://127.0.0.1:7071/metrics | grep activecontrollercount
```

The names are those the JMX exporter gives Kafka's MBeans with its own example rules for Kafka, so that dashboards and alerts
made for Apache Kafka find them ([decision 4](decisions/0004-metrics-names.md)). The kind of an MBean says which series it has:

| kind | series |
|---|---|
| gauge | the name itself |
| meter | `…_total` as shown, a counter; per s `<name>_meanrate` `…_oneminuterate` `…_fiveminuterate` `…_fifteenminuterate` |
| histogram | `<name>{quantile}` (0.50 0.75 0.95 0.98 0.99 0.999); `…_count`, a counter; `…_min` `…_max` `…_mean` `…_stddev` |
| timer | those of a histogram, in ms, and the rates of a meter |

Counts of the cluster are those after the controller's last event, as in Kafka; a scrape in the middle of an event waits up to a
second for its end. They are taken when somebody asks and something has happened since. Kafka's gauges of each single partition
(`kafka.cluster:type=Partition`), of the logs and of the request handlers are not there; what a topic's own
`min.insync.replicas` asks for is not looked at.
"""


def page() -> str:
    return "\n".join([HEAD, *_tables(MBEANS), *_states()]) + "\n"


def _tables(mbeans: Iterable[MBean]) -> Iterator[str]:
    for place, group in groupby(mbeans, key=lambda mbean: (mbean.domain, mbean.type)):
        yield f"## {place[0]}:type={place[1]}\n\n| name | kind | in Prometheus | what it says |\n|---|---|---|---|"
        for mbean in group:
            shown = mbean.total if mbean.kind is Kind.METER else mbean.series
            label = f"{{{mbean.tag.replace('-', '_')}}}" if mbean.tag else ""
            yield f"| {mbean.name} | {mbean.kind.value} | `{shown}{label}` | {mbean.doc} |"
        yield ""


def _states() -> Iterator[str]:
    yield "## ControllerState\n\n| value | state | its timer |\n|---|---|---|"
    for state in ControllerState:
        yield f"| {state.value} | {state.label} | {state.timer or '-'} |"


if __name__ == "__main__":
    PAGE.write_text(page())
