"""Motions of ``rbd-control excite`` beside random search and other motions, on simulated arms.

``python -m bench.excitation [ARM ...] [--random 10000] [--seeds 2] [--report FOLDER]``

1. The measure of the designed motion (expected torque error on other motions, relative to the
   noise) beside the measures of the comparison motion and of the best of many random motions.
2. The arm follows the designed motion in MuJoCo, with friction, noise and quantisation, and
   ``calibrate`` identifies it. The controller knows the friction, as the drives of arms that follow
   trajectories do. The same with a comparison motion of the same length: the recorded
   exciting trajectories for panda and ur10, the ordinary motion of ``bench.robots`` for the others.
   The error is the RMS torque error of the identified arm on random states in motion, as a share
   of the effort limits.
3. The largest shares of the limits that the simulated arm reaches.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from bench.robots.descriptions import describe
from bench.robots.kernel import STRIBECK_SPEED
from bench.robots.motion import Reference
from bench.robots.plant import Plant
from bench.robots.robots import ROBOTS
from bench.robots.session import Session
from rbd_control.control.waypoints import TrajectoryArrays
from rbd_control.dynamics import inverse_dynamics
from rbd_control.excitation import Design, Designer, Request
from rbd_control.excitation.design import BATCH
from rbd_control.excitation.motion import LEAD
from rbd_control.excitation.observability import PERIOD
from rbd_control.identification import RecordedMotion, calibrate
from rbd_control.identification.threshold_calibration import START
from rbd_control.playback.recording import read_recording
from rbd_control.robot import Robot
from rbd_control.robot.inertial_corrections import corrected_model

Array = NDArray[np.float64]

ARMS = ("panda", "ur10", "iiwa", "gen3")
SECONDS = 30.0
"""Length of both motions [s]."""
REST = 1.0
"""Rest before and after a motion [s]."""
RECORDED = {
    "panda": ("panda_exciting_trajectory.db3", 1),
    "ur10": ("ur10_exciting_trajectory.db3", 5),
}
"""Recording of the comparison motion, and the number of its samples from point to point."""
STATES = 2000
"""Number of random states on which the identified arm is tested."""
SHARES = (0.3, 1.0)
"""Speeds of these states, as shares of the limits of the motions."""
SLOWEST = 0.02
"""Least speed of a joint in these states; static friction below it is no function of the speed
[rad/s]."""


@dataclass(frozen=True, eq=False)
class Followed:
    """A motion that a simulated arm has followed."""

    recorded: RecordedMotion
    speed: float
    """Largest share of a velocity limit."""
    torque: float
    """Largest share of an effort limit."""
    outside: float
    """Largest distance beyond the position limits, negative inside [rad]."""


def search(designer: Designer, count: int, seed: int = 99) -> float:
    """Return the best measure of random feasible motions.

    Args:
        designer: the arm and its limits.
        count: number of feasible motions.
        seed: seed of the motions.
    """
    generator, best, done = np.random.default_rng(seed), np.inf, 0
    while done < count:
        D, ok = designer.feasible(designer.random(generator, BATCH))
        if ok.any():
            best = min(best, float(designer.measures(D[ok])[0].min()))
        done += int(ok.sum())
        if done % 1000 < BATCH:
            print(f"  {done} random motions: {best:.4f}", flush=True)
    return best


def follow(plant: Plant, points: TrajectoryArrays, start: Array) -> Followed:
    """Return what a simulated arm does when it follows a trajectory from rest at ``start``.

    Raises:
        RuntimeError: if the controller refuses the trajectory, or ends it by a fault.
    """
    parameters = replace(
        plant.robot.parameters(),
        friction_compensated=False,
        friction_model="coulomb_viscous",
        friction_coulomb=tuple(plant.joints.coulomb),
        friction_viscous=tuple(plant.joints.viscous),
    )
    session = Session(plant, parameters, start)
    rows: list[tuple[float, Array, Array, Array]] = []
    truth: list[tuple[Array, Array, Array]] = []

    def watch(each: Session) -> None:
        seen = each.seen
        if seen.effort is not None:
            rows.append((plant.t, seen.q, seen.v, seen.effort))
        state = plant.state
        truth.append((state.q.copy(), state.v.copy(), plant.delivered.copy()))

    session.run(REST)
    session.watch = watch
    if not session.follow(points):
        raise RuntimeError("the controller refuses the trajectory")
    session.run(float(points.times[-1]) + REST)
    if session.fault is not None:
        raise RuntimeError(f"fault after {session.fault.t:.1f} s: {session.fault.reason}")
    t, q, v, tau = (np.array(column) for column in zip(*rows, strict=True))
    true_q, true_v, delivered = (np.array(column) for column in zip(*truth, strict=True))
    model = plant.arm.model
    return Followed(
        RecordedMotion("simulation", t, q, v, tau),
        float((np.abs(true_v) / model.velocity_limit).max()),
        float((np.abs(delivered) / model.effort_limit).max()),
        float(np.maximum(true_q - model.upper_limit, model.lower_limit - true_q).max()),
    )


def torque_error(plant: Plant, motion: RecordedMotion, design: Design) -> tuple[float, float]:
    """Return the errors of the arm that ``calibrate`` identifies from a motion.

    Returns:
        The RMS error of the torque, and of its friction alone, on random states [share of the
        effort limits, root mean square over joints].
    """
    model = plant.arm.model
    known = calibrate([motion], model, replace(START, effort_kind="torque")).parameters
    corrections = np.zeros((model.nv, 5))
    mass = model.arrays.mass[model.dof_row]
    corrections[:, 0] = plant.mj.body_mass[plant.body] - mass
    corrections[:, 4] = plant.joints.rotor
    true, found = corrected_model(model, corrections), known.corrected(model)
    random, allowed = np.random.default_rng(7), design.allowed
    q = random.uniform(allowed.lower, allowed.upper, (STATES, model.nv))
    share = random.choice(SHARES, (STATES, 1))
    v = share * allowed.velocity * random.uniform(-1.0, 1.0, q.shape)
    v = np.copysign(np.maximum(np.abs(v), SLOWEST), v)
    a = share * allowed.acceleration * random.uniform(-1.0, 1.0, q.shape)
    friction = known.friction(model.nv).torque(v) - plant_friction(plant, v)
    whole = inverse_dynamics(found, q, v, a) - inverse_dynamics(true, q, v, a) + friction
    return tuple(  # type: ignore[return-value]
        float(np.sqrt(np.square(each / model.effort_limit).mean())) for each in (whole, friction)
    )


def plant_friction(plant: Plant, v: Array) -> Array:
    """Return the true friction of a simulated arm, (k, nv) [N·m]."""
    joints = plant.joints
    dry = joints.coulomb * (1.0 + joints.stribeck * np.exp(-np.square(v / STRIBECK_SPEED)))
    return np.asarray(dry * np.sign(v) + joints.viscous * v)


def comparison(name: str, plant: Plant, data: Path) -> tuple[TrajectoryArrays, Array]:
    """Return the comparison motion of an arm, and its start pose."""
    if name in RECORDED:
        file, every = RECORDED[name]
        recording = read_recording(data / file, "/joint_states")
        motion = _positions(recording, plant)
        t, q = motion[0][::every], motion[1][::every]
        used = t < SECONDS
        t, q = t[used], q[used]
        return TrajectoryArrays(q, t + REST), q[0]
    reference = Reference.random(plant, np.random.default_rng(1), SECONDS, 0.8)
    return reference.sampled(), plant.arm.centre


def _positions(recording: object, plant: Plant) -> tuple[Array, Array]:
    from rbd_control.playback.motions import read_motions

    found = read_motions(recording, plant.arm.model, None, 0.0)  # type: ignore[arg-type]
    motion = found.motions[0]
    return motion.t - motion.t[0], motion.q


def measure(designer: Designer, points: TrajectoryArrays) -> float:
    """Return the measure of another motion: its expected torque error, relative to the noise."""
    t = np.arange(points.times[0], points.times[-1], PERIOD)
    spline = CubicSpline(points.times, points.positions)
    q, v, a = (spline(t, order)[None] for order in range(3))
    return designer.observability.measure(designer.observability.informations(q, v, a)[0][0])


def run(name: str, random: int, seeds: int, data: Path) -> dict[str, object]:
    """Return the results of one arm."""
    arm = describe(name)
    os.environ["ROS_PACKAGE_PATH"] = str(arm.meshes)
    begin = time.process_time()
    designer = Designer(Robot.load(arm.urdf), Request())
    design = designer.run()
    result: dict[str, object] = {
        "arm": name,
        "processor seconds": round(time.process_time() - begin, 1),
        "measure": design.measure,
    }
    other, _ = comparison(name, Plant(ROBOTS[name], 0), data)
    result["ratio to the comparison motion"] = design.measure / measure(designer, other)
    print(result, *design.space.notes, sep="\n", flush=True)
    errors = []
    for seed in range(seeds):
        robot = replace(ROBOTS[name], effort="torque", compensated_friction=(0.0, 0.0))
        plant = Plant(robot, seed)
        points = design.motion.points()
        points = replace(points, times=points.times - LEAD + REST)
        mine = follow(plant, points, design.motion.start)
        usual = follow(plant, *comparison(name, plant, data))
        ours, theirs = (torque_error(plant, x.recorded, design) for x in (mine, usual))
        errors.append((*ours, *theirs))
        print(
            f"{name} seed {seed}: torque error {ours[0]:.2e}, comparison {theirs[0]:.2e} (ratio "
            f"{ours[0] / theirs[0]:.2f}); friction {ours[1]:.2e}, {theirs[1]:.2e} (ratio "
            f"{ours[1] / theirs[1]:.2f}); speed {mine.speed:.0%}, torque {mine.torque:.0%}, "
            f"beyond limits {mine.outside:.3f} rad",
            flush=True,
        )
    if errors:
        rms = np.sqrt(np.square(errors).mean(axis=0))
        result["torque error ratio"] = float(rms[0] / rms[2])
        result["friction error ratio"] = float(rms[1] / rms[3])
    if random:
        result["random search"] = search(designer, random)
        result["ratio to random search"] = design.measure / float(str(result["random search"]))
    print(result, flush=True)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the arms and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arms", nargs="*", default=ARMS)
    parser.add_argument("--random", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--data", type=Path, default=Path("test/data/real_panda"))
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args(argv)
    results = [run(n, arguments.random, arguments.seeds, arguments.data) for n in arguments.arms]
    if arguments.report:
        arguments.report.mkdir(parents=True, exist_ok=True)
        (arguments.report / "excitation.json").write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
