"""Converts Kafka's MBeans to Prometheus text, as the JMX exporter does (docs/inside/decisions/0004-metrics-names.md).

The rules are from the exporter's own example for Kafka, `kafka-2_0_0.yml`: `kafka_<domain>_<type>_<name>` in lower case
for a gauge, `…_total` without `PerSec` for the count of a meter, `…_count` and a label `quantile` for a histogram or
timer. What these rules leave out of an instrument (mean, extremes, rates) follows under the name of its attribute.
MBeans without a name, which these rules leave out as a whole, get the exporter's own name: `kafka_<domain>_<type>_` and
the attribute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from understudy.foundation.metrics.instruments import QUANTILES, Histogram, Meter, Timer

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Value: TypeAlias = float | Meter | Histogram | Timer


class MetricKind(Enum):
    GAUGE = "gauge"
    METER = "meter"
    HISTOGRAM = "histogram"
    TIMER = "timer"
    ATTRIBUTE = "attribute"
    """A number of Kafka's own metrics library: an attribute of an MBean that has a type and no name."""


@dataclass(frozen=True, slots=True)
class MBean:
    """One of Kafka's MBeans, for example `kafka.controller:type=KafkaController,name=ActiveControllerCount`.

    Attributes:
        tag: the one key beyond type and name, such as `broker-id`; empty if there is none.
        doc: one line of help for dashboards.
    """

    domain: str
    type: str
    name: str
    kind: MetricKind
    doc: str
    tag: str = ""

    @property
    def object_name(self) -> str:
        if self.kind is MetricKind.ATTRIBUTE:
            return f"{self.domain}:type={self.type} {self.name}"
        tag = f",{self.tag}=…" if self.tag else ""
        return f"{self.domain}:type={self.type},name={self.name}{tag}"

    @property
    def series(self) -> str:
        """The name that all its series begin with."""
        return re.sub(r"[^a-z0-9_:]", "_", f"{self.domain}_{self.type}_{self.name}".lower())

    @property
    def total(self) -> str:
        """The series of a meter's count: the rules replace `PerSec` by `_total`."""
        return re.sub(r"persec\w*$", "", self.series) + "_total"


class MetricReading(NamedTuple):
    """The present value of an MBean. `tag` is the value of its tag, if it has one."""

    mbean: MBean
    value: Value
    tag: str = ""


class _Line(NamedTuple):
    """One line of the text. `family` is its name as in the line of its type, which is `counter` or `gauge`."""

    family: str
    kind: str
    labels: tuple[tuple[str, str], ...]
    value: float


def exposition(readings: Iterable[MetricReading]) -> str:
    """Return the text of all `readings`: the lines of a family together, families in the order of first readings."""
    families: dict[str, list[str]] = {}
    for reading in readings:
        for line in _lines(reading):
            if line.family not in families:
                families[line.family] = [
                    f"# HELP {line.family} {reading.mbean.doc}",
                    f"# TYPE {line.family} {line.kind}",
                ]
            labels = ",".join(f'{name}="{value}"' for name, value in line.labels)
            families[line.family].append(
                f"{line.family}{{{labels}}} {line.value!r}" if labels else f"{line.family} {line.value!r}"
            )
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def _lines(reading: MetricReading) -> Iterator[_Line]:
    mbean, value = reading.mbean, reading.value
    # The exporter makes a label of a key by putting `_` for what a label may not hold.
    labels = ((mbean.tag.replace("-", "_"), reading.tag),) if mbean.tag else ()
    match value:
        case Meter():
            yield _Line(mbean.total, "counter", labels, float(value.count))
            yield from _rates(mbean, value, labels)
        case Histogram():
            yield from _distribution(mbean, value, labels)
        case Timer():
            yield from _distribution(mbean, value.durations, labels)
            yield from _rates(mbean, value.calls, labels)
        case _:
            yield _Line(mbean.series, "gauge", labels, float(value))


def _distribution(mbean: MBean, histogram: Histogram, labels: tuple[tuple[str, str], ...]) -> Iterator[_Line]:
    found = histogram.distribution()
    yield _Line(f"{mbean.series}_count", "counter", labels, float(found.values))
    for name, value in zip(QUANTILES, found.quantiles, strict=True):
        yield _Line(mbean.series, "gauge", (*labels, ("quantile", name)), float(value))
    yield _Line(f"{mbean.series}_min", "gauge", labels, float(found.minimum))
    yield _Line(f"{mbean.series}_max", "gauge", labels, float(found.maximum))
    yield _Line(f"{mbean.series}_mean", "gauge", labels, found.mean)
    yield _Line(f"{mbean.series}_stddev", "gauge", labels, found.standard_deviation)


def _rates(mbean: MBean, meter: Meter, labels: tuple[tuple[str, str], ...]) -> Iterator[_Line]:
    rates = meter.rates()
    yield _Line(f"{mbean.series}_meanrate", "gauge", labels, rates.mean)
    yield _Line(f"{mbean.series}_oneminuterate", "gauge", labels, rates.one_minute)
    yield _Line(f"{mbean.series}_fiveminuterate", "gauge", labels, rates.five_minute)
    yield _Line(f"{mbean.series}_fifteenminuterate", "gauge", labels, rates.fifteen_minute)
