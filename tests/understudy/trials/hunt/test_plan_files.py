"""Plan files: written and read back, and refused if they cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from understudy.foundation.eventlog.fences import Fence
from understudy.trials.hunt.plan_files import SCHEMA, BadSeedPlan, read_plan, write_plan
from understudy.trials.seeds.seed_groups import PlannedMember
from understudy.trials.seeds.seed_plans import draw_plan

READER = PlannedMember(
    group="readers", name="reader", topics=("ledger",), assignors=("range",), joins_at_ms=1_000, ends_at_ms=9_000
)
PLAN = structs.replace(draw_plan(1, 60, groups=False, fences_off=(Fence.BROKER_EPOCH,)), members=(READER,))


def written(folder: Path) -> Path:
    file = folder / "plan.json"
    write_plan(file, PLAN, violates="C4b", commit="0123456789ab")
    return file


@pytest.mark.parametrize("seed", range(1, 30))
def test_every_drawn_plan_is_read_as_it_was_written(seed: int, tmp_path: Path) -> None:
    file, plan = tmp_path / "plan.json", draw_plan(seed, 40)
    write_plan(file, plan, violates="C3", commit="")
    assert read_plan(file).plan == plan


def test_a_file_names_its_format_and_what_it_violates(tmp_path: Path) -> None:
    file = read_plan(written(tmp_path))
    assert (file.schema, file.violates, file.commit, file.plan) == (SCHEMA, "C4b", "0123456789ab", PLAN)


def changed(change: Callable[[dict[str, Any]], object], folder: Path) -> Path:
    file = written(folder)
    document = msgspec.json.decode(file.read_bytes())
    change(document)
    file.write_bytes(msgspec.json.encode(document))
    return file


BAD: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda d: d.update(schema="understudy-seed-plan/v9"), "its schema is 'understudy-seed-plan/v9'; expected"),
    (lambda d: d.pop("plan"), "missing required field `plan`"),
    (lambda d: d["plan"].update(broker=3), "unknown field `broker`"),
    (lambda d: d["plan"].update(brokers=2), "Expected `int` >= 3 - at `$.plan.brokers`"),
    (lambda d: d["plan"].update(absent=6), "absent is 6; expected null or one of the brokers 1 to"),
    (lambda d: d["plan"].update(absent=0), "Expected `int` >= 1 - at `$.plan.absent`"),
    (lambda d: d["plan"].update(fences_off=["moat"]), "fences_off: 'moat' is no fence or fix"),
    (lambda d: d["plan"].update(load=["producer-9"]), "'producer-9' is no part of the load; did you mean 'producer-"),
    (
        lambda d: d["plan"]["schedule"].update(healed_at=1),
        "schedule: 'healed_at' is no key; did you mean 'healed_at_ms'?",
    ),
    (lambda d: d["plan"]["schedule"].update(healed_at_ms=99_000), "healed_at_ms is 99000; expected 0 to the 60"),
    (lambda d: d["plan"]["schedule"].update(unknown_probability=2.0), "unknown_probability is 2.0; expected 0 to 1"),
    (lambda d: d["plan"]["schedule"]["faults"][0].update(kind="kil"), "faults[0]: 'kil' is no kind; did you mean"),
    (lambda d: d["plan"]["schedule"]["faults"][1].update(at_ms=50_000), "faults[1]: at_ms is 50000; expected 0 to"),
    (lambda d: d["plan"]["schedule"]["faults"][2].update(target=77), "faults[2]: target is 77; expected a broker"),
    (lambda d: d["plan"]["schedule"]["faults"][2].update(lasts_ms=-1), "faults[2]: lasts_ms is -1; expected 0"),
    (lambda d: d["plan"]["schedule"]["faults"][3].update(why="x"), "faults[3]: 'why' is no key"),
    (
        lambda d: d["plan"]["schedule"]["faults"][0].update(kind="point-pause", detail="partition.after_writ"),
        "did you mean 'partition.after_write'?",
    ),
    (
        lambda d: d["plan"]["schedule"]["faults"][0].update(kind="step-clock", detail="much"),
        "faults[0]: detail is 'much'; expected by how many ms the clock steps",
    ),
    (lambda d: d["plan"]["actions"][0].update(kind="dance"), "actions[0]: 'dance' is no kind; expected one of"),
    (lambda d: d["plan"]["members"][0].update(joins_at=1), "unknown field `joins_at` - at `$.plan.members[0]`"),
    (lambda d: d["plan"]["members"][0].update(assignors=["rang"]), "members[0]: assignors: 'rang' is no assignor; did"),
    (
        lambda d: d["plan"]["members"][0].update(assignors=["range", "cooperative-sticky"]),
        "members[0]: assignors are range, cooperative-sticky; expected cooperative ones only, or none",
    ),
    (lambda d: d["plan"]["members"][0].update(topics=["leger"]), "members[0]: topics: 'leger' is no topic; did you"),
    (lambda d: d["plan"]["members"][0].update(joins_at_ms=50_000), "members[0]: joins_at_ms is 50000; expected 0 to"),
    (lambda d: d["plan"]["members"][0].update(ends_at_ms=900), "members[0]: ends_at_ms is 900; expected null or 1000"),
    (lambda d: d["plan"]["members"].append(d["plan"]["members"][0]), "members: 'reader' is there twice; each needs"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_a_bad_file_is_refused_with_the_value(
    change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path
) -> None:
    file = changed(change, tmp_path)
    with pytest.raises(BadSeedPlan) as bad:
        read_plan(file)
    assert message in str(bad.value)
    assert str(bad.value).startswith(f"{file}: ")


def test_a_fault_that_an_older_plan_calls_crash_is_read_as_a_kill(tmp_path: Path) -> None:
    file = changed(lambda d: d["plan"]["schedule"]["faults"][0].update(kind="crash"), tmp_path)
    assert read_plan(file).plan.schedule.faults[0].kind == "kill"


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("faults: none")
    (tmp_path / "list").write_text("[1]")
    for name, message in (("text", "it is not JSON"), ("list", "its schema is None"), ("gone", "No such file")):
        with pytest.raises(BadSeedPlan, match=message):
            read_plan(tmp_path / name)
