"""Order in which processes that share the tests start the test files.

pytest-xdist gives each process one file after the other. Without an order a long file may start
last, and all other processes then wait for its end.
"""

from __future__ import annotations

from zlib import crc32

SECONDS = {
    "system/test_faults_control.py": 110,
    "system/test_signals.py": 80,
    "system/test_callbacks.py": 70,
    "system/test_controller_node.py": 60,
    "system/test_start_and_end.py": 55,
    "system/test_detector.py": 50,
    "system/test_controller_orders.py": 48,
    "test_tutorials.py": 46,
    "test_fuzz_and_soak.py": 45,
    "test_export_robots.py": 42,
    "system/test_signals_at_start.py": 40,
    "system/test_faults_joint_states.py": 34,
    "system/test_payload.py": 30,
    "system/test_trajectory_flood.py": 30,
    "system/test_controller_faults.py": 28,
    "system/test_detector_missing.py": 28,
    "system/test_contact_guard.py": 27,
    "system/test_demo.py": 27,
    "estimation/test_calibration.py": 27,
    "system/test_together.py": 25,
    "check/test_check.py": 23,
    "dynamics/test_kernel_cache.py": 23,
    "system/test_faults_processes.py": 21,
    "system/test_faults_trajectories.py": 20,
    "test_drive_gain_command.py": 20,
    "system/test_late_subscribers.py": 20,
    "system/test_security_policy.py": 20,
    "stateful/test_machines.py": 18,
    "system/test_faults_detector.py": 18,
    "system/test_faults_wire.py": 18,
    "system/test_controller.py": 17,
    "fleet/test_fleet_workers.py": 16,
}
"""Duration of the long test files, each alone on two cores with compiled code [s]."""


def start_order(file: str) -> tuple[int, int]:
    """Return the sort key of a test file: long files first.

    The others follow in an arbitrary order that is the same in every process. It mixes files that
    wait for nodes with files that compute, so that both kinds run at any time.

    Args:
        file: path of the test file below ``test``, with slashes.
    """
    return -SECONDS.get(file, 0), crc32(file.encode())
