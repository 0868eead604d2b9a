"""Finalized features are compatible with a broker only within the versions it supports."""

from __future__ import annotations

import pytest

from understudy.foundation.cluster.features import SupportedFeature, incompatibilities

SUPPORTED = (SupportedFeature("f", 1, 3), SupportedFeature("g", 0, 0))


@pytest.mark.spec("BR-8", "ZN-7")
@pytest.mark.parametrize(
    ("finalized", "wrong"),
    [
        ({}, ()),
        ({"f": 1, "g": 0}, ()),
        ({"f": 3}, ()),
        ({"f": 4}, ("f is finalized at 4 and supported from 1 to 3",)),
        ({"f": 0}, ("f is finalized at 0 and supported from 1 to 3",)),
        ({"z": 1, "h": 1, "f": 2}, ("h is finalized at 1 and not supported", "z is finalized at 1 and not supported")),
    ],
)
def test_a_finalized_version_must_be_within_the_supported_range(
    finalized: dict[str, int], wrong: tuple[str, ...]
) -> None:
    assert incompatibilities(SUPPORTED, finalized) == wrong
