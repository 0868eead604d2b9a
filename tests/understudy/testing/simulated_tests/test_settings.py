"""The settings of a test in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.testing.simulated_tests.arguments import BadArguments, checked_arguments


@pytest.mark.parametrize(
    ("given", "text"), [(2, "2"), (True, "true"), ("2", "2"), (0.5, "0.5")], ids=["number", "boolean", "text", "float"]
)
def test_a_setting_is_written_as_server_properties_have_it(given: Any, text: str) -> None:
    assert checked_arguments({"settings": {"some.key": given}}).settings == {"some.key": text}


def test_settings_are_a_dictionary() -> None:
    with pytest.raises(BadArguments, match=r"such as \{'min.insync.replicas': 2\}, and not \['some.key'\]"):
        checked_arguments({"settings": ["some.key"]})
