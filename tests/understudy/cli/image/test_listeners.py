"""Tests of the listeners that the settings of a container leave open."""

from __future__ import annotations

import pytest

from understudy.brokers.config.config_def import ConfigError
from understudy.cli.image.listeners import derived_listeners, without_listeners


@pytest.mark.parametrize(
    ("properties", "others", "derived"),
    [
        (
            {"advertised.listeners": "PLAINTEXT://kafka:29092,PLAINTEXT_HOST://localhost:9092"},
            {},
            {"listeners": "PLAINTEXT://0.0.0.0:29092,PLAINTEXT_HOST://0.0.0.0:9092"},
        ),
        ({"advertised.listeners": "A://[::1]:1"}, {}, {"listeners": "A://0.0.0.0:1"}),
        ({"listeners": "INSIDE://:9092", "advertised.listeners": "INSIDE://kafka:9092"}, {}, {}),
        ({"listeners": "PLAINTEXT://:9092"}, {}, {}),
        (
            {"listeners": "PLAINTEXT://:9092,B://0.0.0.0:2"},
            {"KAFKA_ADVERTISED_HOST_NAME": "kafka"},
            {"advertised.listeners": "PLAINTEXT://kafka:9092,B://kafka:2"},
        ),
        (
            {},
            {"KAFKA_ADVERTISED_HOST_NAME": "kafka", "KAFKA_ADVERTISED_PORT": "19092", "KAFKA_PORT": "9093"},
            {"listeners": "PLAINTEXT://:9093", "advertised.listeners": "PLAINTEXT://kafka:19092"},
        ),
        ({}, {}, {"listeners": "PLAINTEXT://:9092"}),
    ],
)
def test_listeners_follow_from_other_settings(
    properties: dict[str, str], others: dict[str, str], derived: dict[str, str]
) -> None:
    assert derived_listeners(properties, others) == derived


def test_a_port_that_is_no_number_is_refused_with_its_variable() -> None:
    with pytest.raises(ConfigError, match="KAFKA_ADVERTISED_PORT=x: expected a port"):
        derived_listeners({}, {"KAFKA_ADVERTISED_HOST_NAME": "kafka", "KAFKA_ADVERTISED_PORT": "x"})


def test_listeners_of_a_kraft_controller_are_left_out() -> None:
    assert without_listeners("PLAINTEXT://:9092, controller://:9093", {"CONTROLLER"}) == "PLAINTEXT://:9092"
