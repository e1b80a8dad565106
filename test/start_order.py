"""Order in which processes that share the tests start the test files.

pytest-xdist gives each process one file after the other. Without an order a long file may start
last, and all other processes then wait for its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

SECONDS = {
    "system/test_contact_guard.py": 55,
    "test_tutorials.py": 54,
    "system/test_payload.py": 51,
    "dynamics/test_frozen.py": 50,
    "test_fuzz_and_soak.py": 36,
    "system/test_detector.py": 33,
    "stateful/test_machines.py": 31,
    "test_examples.py": 29,
    "system/test_together.py": 27,
    "system/test_queue.py": 27,
    "system/test_loop_measurement.py": 22,
    "system/test_demo.py": 21,
    "dynamics/test_arguments.py": 21,
    "fleet/test_fleet_workers.py": 20,
    "test_compare.py": 20,
    "dynamics/test_symbolic.py": 19,
    "estimation/test_diagnosis.py": 18,
    "system/test_commission.py": 18,
    "check/test_check.py": 15,
    "system/test_start_and_end.py": 13,
    "system/test_signals.py": 11,
    "system/test_two_arms.py": 10,
    "system/test_callbacks.py": 10,
    "test_robots_study.py": 9,
    "test_contact_study.py": 9,
    "test_conditions.py": 9,
}
"""Duration of the long test files, three at a time on two cores, with compiled code [s]."""

SHORT = 2
"""Duration of a test file that is not in the table [s]."""


ONE_AT_A_TIME = frozenset(
    f"system/test_{name}.py"
    for name in (
        "contact_guard",
        "demo",
        "hand_guide",
        "payload",
        "queue",
        "signals",
        "signals_at_start",
        "start_and_end",
        "together",
        "two_arms",
        "view",
        "whole_robot",
    )
) | {"launch_tests/test_launch_files.py", "test_cycle_memory.py", "test_examples.py"}
"""Files that one process runs, one after another.

Their nodes exchange joint states at 1 kHz or have deadlines of milliseconds, or they keep a
processor busy, which would make those late.
"""


def start_order(files: Iterable[str]) -> list[str]:
    """Return test files in the order in which they start, which is the same in every process.

    Files that wait for nodes and files that compute have an order each, long files first. The two
    are merged so that both kinds run at any time and end together.

    Args:
        files: paths of the test files below ``test``, with slashes.
    """
    place: dict[str, float] = {}
    kinds: dict[bool, list[str]] = {True: [], False: []}
    for file in set(files):
        kinds[file.startswith("system/")].append(file)
    for kind in kinds.values():
        kind.sort(key=lambda file: (-SECONDS.get(file, SHORT), crc32(file.encode())))
        total, passed = sum(SECONDS.get(file, SHORT) for file in kind), 0
        for file in kind:
            place[file] = passed / total
            passed += SECONDS.get(file, SHORT)
    return sorted(place, key=lambda file: (place[file], file))
