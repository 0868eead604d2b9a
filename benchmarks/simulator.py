"""How fast the simulator is: simulated seconds per second of one core, with 5 brokers, 6 partitions and all checks on.

python benchmarks/simulator.py [--seeds 20] [--seconds 30]
"""

from __future__ import annotations

import argparse
import time

from understudy.simulator.seeds import run_seed


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--seconds", type=int, default=30)
    chosen = options.parse_args()
    began = time.perf_counter()
    reports = [run_seed(seed, chosen.seconds, brokers=5, partitions=6) for seed in range(1, chosen.seeds + 1)]
    took = time.perf_counter() - began
    simulated = chosen.seeds * chosen.seconds
    messages = sum(report.messages for report in reports)
    callbacks = sum(report.callbacks for report in reports)
    records = sum(report.judgement.records for report in reports)
    failed = sum(bool(report.problems) for report in reports)
    print(f"{chosen.seeds} seeds of {chosen.seconds} simulated seconds, 5 brokers, 6 partitions, all checks: {took:.1f} s")
    print(f"{simulated / took:10.1f} simulated seconds per second")
    print(f"{took / messages * 1e6:10.1f} µs per message ({messages / simulated:.0f} messages per simulated second)")
    print(f"{callbacks / took:10.0f} callbacks per second")
    print(f"{records / simulated:10.1f} event-log records per simulated second")
    print(f"{failed:10d} seeds failed")


if __name__ == "__main__":
    main()
