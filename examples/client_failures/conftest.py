"""Says what it means if one of these tests fails: they pass while the client fails as they describe."""

import aiokafka
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        client = "faust-streaming" if "faust" in item.path.name else f"aiokafka {aiokafka.__version__}"
        report.sections.append(
            (
                "a failure of the client",
                f"This test passes if {client} fails as its docstring says. Does it fail no "
                "more? Then it is mended: say so in docs/reference/client-failures.md, with the version.",
            )
        )
    return report
