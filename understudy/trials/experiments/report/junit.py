"""Writes verdicts as JUnit XML, which CI systems show: one test case for each expectation."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from understudy.trials.experiments.report.verdict import Expected, Status, Verdict


def junit_xml(verdicts: Iterable[Verdict]) -> str:
    """Return one test suite for each verdict."""
    root = ElementTree.Element("testsuites")
    for verdict in verdicts:
        violated = sum(each.status is Status.VIOLATED for each in verdict.expected)
        skipped = sum(each.status in (Status.UNTESTED, Status.UNJUDGED) for each in verdict.expected)
        is_without_result = verdict.status in (Status.NOT_INJECTED, Status.NOT_STARTED, Status.UNJUDGED)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"{verdict.name} on {verdict.engine}, seed {verdict.seed}",
            tests=str(len(verdict.expected) + 1),
            failures=str(violated),
            errors=str(int(is_without_result)),
            skipped=str(skipped),
        )
        steps = ElementTree.SubElement(suite, "testcase", classname=verdict.name, name="steps")
        if is_without_result:
            ElementTree.SubElement(steps, "error", message=_text(verdict.why))
        for each in verdict.expected:
            _add_case(suite, verdict, each)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_case(suite: ElementTree.Element, verdict: Verdict, expected: Expected) -> None:
    name = f"{expected.kind} {expected.name}"
    case = ElementTree.SubElement(suite, "testcase", classname=verdict.name, name=name)
    if expected.status is Status.VIOLATED:
        where = f" at {expected.where}" if expected.where else ""
        failure = ElementTree.SubElement(case, "failure", message=_text(f"{expected.seen}{where}"))
        failure.text = _text(f"It should hold that {expected.sentence}.\nAgain: {verdict.command}")
    elif expected.status is Status.UNTESTED:
        ElementTree.SubElement(case, "skipped", message="nothing in this run could have violated it")
    elif expected.status is Status.UNJUDGED:
        ElementTree.SubElement(case, "skipped", message=_text(f"cannot be judged: {expected.seen}"))


def _text(text: str) -> str:
    """Replace the characters that XML cannot contain."""
    return "".join(each if each in "\n\t" or each >= " " else "\ufffd" for each in text)
