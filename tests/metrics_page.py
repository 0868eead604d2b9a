"""Generates docs/reference/metrics.md from the table of MBeans: `python -m tests.metrics_page`; a test keeps it
current."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from understudy.brokers.mbeans import MBEANS
from understudy.controller.controller_state import ControllerState
from understudy.foundation.metrics.mbeans import MBean, MetricKind

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"

HEAD = """\
# Metrics

With `metrics.port=7071` in `server.properties`, a broker answers `GET /metrics` with its metrics in Prometheus' text
format (`0` takes any free port; without the key no port is opened). It listens on the loopback address unless
`metrics.host` names another; the broker logs the address it has bound, and writes it as `host:port` to the file
`metrics.address` in the log directory.

```
curl -s http://127.0.0.1:7071/metrics | grep activecontrollercount
```

The names are those that the JMX exporter gives Kafka's MBeans with its own example rules for Kafka, so dashboards and
alerts made for Apache Kafka find them ([decision 4](../inside/decisions/0004-metrics-names.md)). The kind of an MBean
determines its series:

| kind | series |
|---|---|
| gauge | the name itself |
| meter | `…_total`, a counter; per s `<name>_meanrate` `…_oneminuterate` `…_fiveminuterate` `…_fifteenminuterate` |
| histogram | `<name>{quantile}` 0.50 0.75 0.95 0.98 0.99 0.999, `…_count` (total) `…_min` `…_max` `…_mean` `…_stddev` |
| timer | as a histogram, in ms, and the rates of a meter |
| attribute | the name itself; a rate is one of the last half minute, `NaN` stands for no value |

As in Kafka, counts of the cluster are those after the controller's last event: a scrape during an event waits up to a
second for its end. They are counted at a scrape, if an event has been processed since the last one. Kafka's gauges of
each partition (`kafka.cluster:type=Partition`), of the logs and of the request handlers are missing.
"""


def page() -> str:
    return "\n".join([HEAD, *_tables(MBEANS), *_states()]) + "\n"


def _tables(mbeans: Iterable[MBean]) -> Iterator[str]:
    for place, group in groupby(mbeans, key=lambda mbean: (mbean.domain, mbean.type)):
        yield f"## {place[0]}:type={place[1]}\n\n| name | kind | in Prometheus | what it says |\n|---|---|---|---|"
        for mbean in group:
            shown = mbean.total if mbean.kind is MetricKind.METER else mbean.series
            label = f"{{{mbean.tag.replace('-', '_')}}}" if mbean.tag else ""
            yield f"| {mbean.name} | {mbean.kind.value} | `{shown}{label}` | {mbean.doc} |"
        yield ""


def _states() -> Iterator[str]:
    yield "## ControllerState\n\n| value | state | its timer |\n|---|---|---|"
    for state in ControllerState:
        yield f"| {state.value} | {state.label} | {state.timer or '-'} |"


if __name__ == "__main__":
    PAGE.write_text(page())
