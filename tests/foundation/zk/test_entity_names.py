"""Tests of config entities: encoded names and change notifications."""

from __future__ import annotations

import pytest

from understudy.foundation.zk.admin_znodes import (
    DEFAULT_ENTITY,
    ConfigEntityChangeNotificationZNode,
    ConfigEntityZNode,
    desanitized,
    sanitized,
)
from understudy.foundation.zk.znodes import MalformedZNode


@pytest.mark.spec("ZN-10")
@pytest.mark.parametrize(
    ("name", "entity"),
    [
        ("alice", "alice"),
        ("CN=a b,OU=x/y", "CN%3Da%20b%2COU%3Dx%2Fy"),
        ("star*plus+tilde~", "star%2Aplus%2Btilde%7E"),
        ("._-", "._-"),
        ("größe", "gr%C3%B6%C3%9Fe"),
        ("<default>", "%3Cdefault%3E"),
    ],
)
def test_the_names_of_users_and_clients_are_encoded_as_kafkas_sanitizer_does(name: str, entity: str) -> None:
    assert sanitized(name) == entity
    assert desanitized(entity) == name


@pytest.mark.spec("ZN-10")
def test_the_default_entity_keeps_its_literal_name() -> None:
    assert ConfigEntityZNode.path("brokers", DEFAULT_ENTITY) == "/config/brokers/<default>"
    assert desanitized(DEFAULT_ENTITY) == DEFAULT_ENTITY


@pytest.mark.spec("CF-1")
@pytest.mark.parametrize(
    ("data", "entity_path"),
    [
        (b'{"version":2,"entity_path":"users/alice/clients/c"}', "users/alice/clients/c"),
        (b'{"version" : 1, "entity_type":"topics", "entity_name" : "orders"}', "topics/orders"),
        (b'{"version":1,"entity_type":"clients","entity_name":"c"}', "clients/c"),
    ],
)
def test_both_versions_of_a_notification_are_read(data: bytes, entity_path: str) -> None:
    assert ConfigEntityChangeNotificationZNode.decode("/n", data) == entity_path


@pytest.mark.spec("CF-1")
@pytest.mark.parametrize(
    "data", [b"", b"7", b'{"version":2}', b'{"version":1,"entity_type":"brokers","entity_name":"1"}', b'{"version":3}']
)
def test_malformed_notifications_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedZNode):
        ConfigEntityChangeNotificationZNode.decode("/n", data)


def test_a_notification_is_written_as_kafka_writes_it() -> None:
    assert (
        ConfigEntityChangeNotificationZNode.encode("brokers/<default>")
        == b'{"version":2,"entity_path":"brokers/<default>"}'
    )
