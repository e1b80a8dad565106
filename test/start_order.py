"""Order in which processes that share the tests start the test files.

pytest-xdist gives each process one file after the other. Without an order a long file may start
last, and all other processes then wait for its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

SECONDS = {
    "test_tutorials.py": 50,
    "system/test_together.py": 50,
    "stateful/test_machines.py": 49,
    "system/test_trajectory_flood.py": 47,
    "system/test_contact_guard_overload.py": 45,
    "system/test_faults_control.py": 44,
    "system/test_detector.py": 41,
    "system/test_payload.py": 41,
    "system/test_controller_orders.py": 39,
    "system/test_demo.py": 38,
    "system/test_start_and_end.py": 38,
    "system/test_controller_node.py": 33,
    "check/test_check.py": 32,
    "system/test_contact_guard.py": 32,
    "test_fuzz_and_soak.py": 30,
    "system/test_signals.py": 30,
    "test_export.py": 30,
    "system/test_discovery.py": 29,
    "system/test_faults_arms.py": 29,
    "system/test_faults_detector.py": 28,
    "system/test_faults_processes.py": 28,
    "system/test_security_policy.py": 27,
    "test_compare.py": 26,
    "view/test_view_browser.py": 25,
    "estimation/test_calibration.py": 25,
    "system/test_faults_wire.py": 25,
    "system/test_signals_at_start.py": 25,
    "system/test_whole_robot.py": 24,
    "system/test_callbacks.py": 23,
    "system/test_faults_joint_states.py": 23,
    "system/test_detector_missing.py": 22,
    "system/test_contact_guard_retreat.py": 21,
    "check/test_weakest_push.py": 20,
    "system/test_two_arms.py": 20,
    "system/test_faults_publishing.py": 19,
    "test_bench_guard.py": 19,
    "system/test_controller_faults.py": 17,
    "test_recording.py": 17,
    "estimation/test_drive_gains.py": 16,
    "system/test_documented_topics.py": 16,
    "system/test_joint_name_prefix.py": 16,
    "fleet/test_fleet_workers.py": 15,
    "test_drive_gain_command.py": 15,
    "dynamics/test_symbolic.py": 15,
    "system/test_monitor.py": 14,
    "system/test_player.py": 13,
    "dynamics/test_kernel_cache.py": 13,
    "test_reactions.py": 13,
    "system/test_contact_guard_decisions.py": 12,
    "system/test_controller.py": 12,
    "system/test_transports.py": 12,
    "test_continuous_joints.py": 12,
    "test_stops.py": 12,
    "system/test_detector_defect.py": 11,
    "test_tool_wrench_study.py": 11,
    "system/test_demo_scenario.py": 10,
    "test_damaged_files.py": 10,
    "test_delay.py": 10,
}
"""Duration of the long test files, three at a time on two busy cores, with compiled code [s]."""

SHORT = 2
"""Duration of a test file that is not in the table [s]."""


ONE_AT_A_TIME = frozenset(
    f"system/test_{name}.py"
    for name in (
        "contact_guard",
        "cycle_memory",
        "demo",
        "demo_scenario",
        "payload",
        "queue",
        "signals",
        "signals_at_start",
        "start_and_end",
        "together",
        "trajectory_flood",
        "two_arms",
        "view",
        "whole_robot",
    )
)
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
