"""``python -m bench.commission``: the first hour on a position-controlled arm, and its faults.

A Panda follows trajectories at 125 Hz as a position-controlled arm does: exactly, 20 ms
late. Its efforts are those of an arm with friction, noise, and masses 3 % off. For each fault the
command must name it at rest or in the slow motion, before the arm moves fast; the healthy arm must
end with an arm file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.contacts.arms import arm
from bench.contacts.plant import typical_friction
from rbd_control.control.trajectory import DesiredState, Trajectory
from rbd_control.control.waypoints import TrajectoryArrays
from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.robot.inertial_corrections import corrected_model
from rbd_control.ros.processes import NodeProcesses, free_domain

RATE = 125.0
"""Rate of the joint states [Hz]."""
LAG = 0.02
"""Delay between a trajectory and the motion [s]."""
HAND, CENTRE = 0.73, (0.0, 0.0, 0.06)
"""Mass of the hand that the arm carries [kg], and its centre in the last link [m]."""
MASS_ERROR = 0.03
"""Standard deviation of the relative error of each mass."""
NOISE = 0.001
"""Standard deviation of an effort, as a share of the effort limit."""
FAULTS = {
    "none": "",
    "hand missing in the URDF": "payload",
    "effort of joint 4 reversed": "effort",
    "efforts without gravity": "effort",
}
"""Faults, and the topic of the line that must be WRONG."""
TOPIC = "joint_trajectory_controller/joint_trajectory"


def true_model(model: Model, fault: str, rng: np.random.Generator) -> Model:
    """Return the arm as it is; with a hand that the description lacks, if this is the fault."""
    errors = np.zeros((model.nv, 5))
    errors[:, 0] = MASS_ERROR * rng.normal(size=model.nv) * model.arrays.mass[model.dof_row]
    true = corrected_model(model, errors)
    if fault == "hand missing in the URDF":
        true = true.with_payload(model.joint_links[-1], HAND, np.array(CENTRE), 1e-3 * np.eye(3))
    return true


def run_arm(fault: str) -> None:
    """Run the node of the arm until it is terminated."""
    import rclpy
    from rclpy.node import Node
    from sensor_msgs.msg import JointState
    from trajectory_msgs.msg import JointTrajectory

    from rbd_control.ros.transports import without_shared_memory

    rng = np.random.default_rng(0)
    shown = Model.from_urdf(str(arm("panda").urdf))
    true, names = true_model(shown, fault, rng), list(shown.joint_names)
    coulomb, viscous = typical_friction(shown)
    with without_shared_memory():
        rclpy.init(args=[])
        node = Node("position_arm")
    publisher = node.create_publisher(JointState, "joint_states", 10)
    q = arm("panda").centre
    motion: list[tuple[float, Trajectory]] = []

    def take(message: JointTrajectory) -> None:
        now = time.monotonic() + LAG
        here = motion[0][1].sample(now - motion[0][0]) if motion else DesiredState.at_rest(q)
        stamps = [p.time_from_start for p in message.points]
        points = TrajectoryArrays(
            np.array([p.positions for p in message.points]),
            np.array([stamp.sec + 1e-9 * stamp.nanosec for stamp in stamps]),
            np.array([p.velocities for p in message.points]),
            np.array([p.accelerations for p in message.points]),
        )
        path = Trajectory.from_points(tuple(names), message.joint_names, points, start=here)
        motion[:] = [(now, path)]

    def step() -> None:
        stamp, state = node.get_clock().now().to_msg(), DesiredState.at_rest(q)
        if motion:
            begin, path = motion[0]
            state = path.sample(max(time.monotonic() - begin, 0.0))
        v = state.v_d
        tau = inverse_dynamics(true, state.q_d, v, state.a_d)
        tau += coulomb * np.tanh(v / 0.005) + viscous * v
        tau += NOISE * shown.effort_limit * rng.normal(size=v.size)
        if fault == "efforts without gravity":
            tau -= gravity_torque(shown, state.q_d)
        if fault == "effort of joint 4 reversed":
            tau[3] = -tau[3]
        message = JointState(name=names)
        message.header.stamp = stamp
        noisy = v + 1e-4 * rng.normal(size=v.size)
        position = state.q_d + 1e-5 * rng.normal(size=v.size)
        message.position, message.velocity = position.tolist(), noisy.tolist()
        message.effort = tau.tolist()
        publisher.publish(message)

    node.create_subscription(JointTrajectory, TOPIC, take, 10)
    node.create_timer(1.0 / RATE, step)
    rclpy.spin(node)


def commission(fault: str, folder: Path) -> tuple[str, str]:
    """Run the command beside an arm with a fault; return its last step and its WRONG lines."""
    urdf = folder / "panda.urdf"
    urdf.write_text(str(arm("panda").urdf), encoding="utf-8")
    with NodeProcesses(os.environ, folder) as processes:
        processes.start("bench.commission", ["--arm", fault], "arm")
        words = ["commission", "--urdf", str(urdf), "--folder", str(folder / "commission")]
        words += ["--out", str(folder / "arm.yaml"), "--trajectories", TOPIC, "--speed", "0.25"]
        ended = subprocess.run(
            [sys.executable, "-m", "rbd_control.cli.main", *words],
            input="yes\n" * 3,
            capture_output=True,
            text=True,
            check=False,
        )
        processes.check()
    lines = ended.stdout.splitlines()
    last = [line for line in lines if line.startswith(("stopped at", "use:"))]
    wrong = [line for line in lines if "WRONG" in line]
    return (last or [ended.stdout[-500:] + ended.stderr[-500:]])[-1], "\n  ".join(wrong)


def main(arguments: Sequence[str]) -> int:
    """Run the command beside each arm, and print where it ended; return 0 if all ended rightly."""
    parser = argparse.ArgumentParser(prog="python -m bench.commission", description=__doc__)
    parser.add_argument("--fault", nargs="*", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--arm", choices=FAULTS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.arm is not None:
        run_arm(given.arm)
        return 0
    failed = 0
    os.environ.update(ROS_DOMAIN_ID=str(free_domain()), ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST")
    for fault in given.fault:
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            last, wrong = commission(fault, Path(folder))
        topic = FAULTS[fault]
        is_right = last.startswith("use:") if not topic else topic in wrong and "fast" not in last
        failed += not is_right
        print(f"{fault}, {time.monotonic() - begin:.0f} s: {last}\n  {wrong}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
