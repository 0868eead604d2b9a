"""Tests of `TaskTimer`: due actions come in order, and postponed or cancelled ones do not come."""

from __future__ import annotations

from functools import partial

from understudy.brokers.coordinator.group.timer import TaskTimer


def due(timer: TaskTimer, now_ms: float) -> int:
    """Do the due actions; return their number."""
    count = 0
    while (action := timer.take_due(now_ms)) is not None:
        action()
        count += 1
    return count


def test_actions_are_done_in_the_order_of_their_times() -> None:
    timer, done = TaskTimer(), list[str]()
    timer.add(20, lambda: done.append("later"))
    timer.add(10, lambda: done.append("first"))
    timer.add(10, lambda: done.append("second"))
    assert timer.next_ms == 10
    assert due(timer, 9) == 0
    assert due(timer, 10) == 2
    assert done == ["first", "second"]
    assert due(timer, 100) == 1
    assert len(timer) == 0
    assert timer.next_ms is None


def test_a_postponed_action_is_sorted_in_again_when_its_old_time_comes() -> None:
    timer, done = TaskTimer(), list[int]()
    task = timer.add(10, lambda: done.append(1))
    assert timer.reschedule(task, 30) is task
    assert timer.next_ms == 10
    assert due(timer, 29) == 0
    assert timer.next_ms == 30
    assert due(timer, 30) == 1


def test_an_action_that_is_to_come_earlier_replaces_the_task() -> None:
    timer, done = TaskTimer(), list[int]()
    task = timer.add(30, lambda: done.append(1))
    earlier = timer.reschedule(task, 5)
    assert earlier is not task
    assert due(timer, 5) == 1
    assert due(timer, 100) == 0
    assert done == [1]


def test_cancelled_actions_are_not_done_and_not_kept() -> None:
    timer, done = TaskTimer(), list[int]()
    tasks = [timer.add(1_000 + number, partial(done.append, number)) for number in range(1_000)]
    for task in tasks[1:]:
        timer.cancel(task)
        timer.cancel(task)
    timer.cancel(None)
    assert len(timer) == 1
    assert len(timer._heap) < 200, "a storm of members that join and leave must not fill the memory"
    assert due(timer, 5_000) == 1
    assert done == [0]
    timer.cancel(tasks[0])
    assert len(timer) == 0
