"""Reads a `KafkaConfig` from properties, and checks it. Mirrors `KafkaConfig.fromProps`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from understudy.brokers.config.accepted_keys import ACCEPTED_PREFIXES, AUTHORIZER_KEYS, check_accepted
from understudy.brokers.config.config_checks import check_config
from understudy.brokers.config.dynamic_keys import BROKER_KEYS, REPLICATION_QUOTAS
from understudy.brokers.config.kafka_config import TABLE, KafkaConfig, field_name


def read_config(properties: Mapping[str, str]) -> KafkaConfig:
    """Read and check a configuration. Unknown keys are ignored (`unknown_keys` finds them).

    Raises:
        ConfigError: a value cannot be read, contradicts another, or is not supported.
    """
    properties = _with_synonyms(properties)
    values = {key: TABLE[key].parse(text) for key, text in properties.items() if key in TABLE}
    check_accepted(properties)
    config = KafkaConfig(
        **{field_name(key): value for key, value in values.items()},  # type: ignore[arg-type]  # parsed above
        originals=properties,
    )
    check_config(config, properties)
    return config


def reconfigured(config: KafkaConfig, originals: Mapping[str, str], changed: Iterable[str]) -> KafkaConfig:
    """Return `config` with the values that `originals` has for the keys in `changed`.

    A key that `originals` no longer has takes its default.

    Raises:
        ConfigError: as `read_config`.
    """
    removed = config.originals.keys() - originals.keys()
    values = {field_name(key): TABLE[key].default for key in removed if key in TABLE}
    values |= {field_name(key): TABLE[key].parse(originals[key]) for key in changed if key in TABLE}
    check_accepted(originals)
    config = dataclasses.replace(config, originals=originals, **values)  # type: ignore[arg-type]  # parsed above
    check_config(config, originals)
    return config


def unknown_keys(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys, sorted, that neither this broker nor Kafka 3.9 has: most likely typing errors."""
    known = {*BROKER_KEYS, *REPLICATION_QUOTAS, *AUTHORIZER_KEYS}
    return tuple(sorted(key for key in properties if key not in known and not key.startswith(ACCEPTED_PREFIXES)))


def _with_synonyms(properties: Mapping[str, str]) -> dict[str, str]:
    """Add `broker.id` for `node.id`, KRaft's name of it, and the other way round."""
    found = dict(properties)
    for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if name not in found and other in found:
            found[name] = found[other]
    return found
