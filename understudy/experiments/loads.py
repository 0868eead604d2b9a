"""The producers and consumers of an experiment as coroutines, for any event loop."""

from __future__ import annotations

import random
from collections.abc import Coroutine

from understudy.client_load import ClientLoad
from understudy.clients.producer import ALL_ACKS
from understudy.experiments.language.document import LoadPlan
from understudy.experiments.language.frozen import FrozenStep
from understudy.simulator.randomness import derived


def coroutines(load: ClientLoad, plan: LoadPlan, seed: int) -> list[Coroutine[object, object, None]]:
    """Return one coroutine for each producer and consumer; each ends once `load.is_stopping`."""
    acks = ALL_ACKS if plan.acks == "all" else int(plan.acks)
    mean_s = plan.producers / plan.rate

    def gap_s(source: random.Random) -> float:
        return source.uniform(0.5, 1.5) * mean_s

    producers = [
        load.produce(name, acks, derived(seed, name), gap_s=gap_s)
        for name in (f"producer-{number}" for number in range(1, plan.producers + 1))
    ]
    return [*producers, *(load.consume(f"consumer-{number}") for number in range(1, plan.consumers + 1))]


def step_producer(load: ClientLoad, step: FrozenStep) -> Coroutine[object, object, None]:
    """Return the coroutine of a step that produces."""
    acks = step.options.get("acks", "all")
    count = step.options.get("count", 1)
    return load.send_once(f"step-{step.number}", ALL_ACKS if acks == "all" else int(acks), step.step.value, count)
