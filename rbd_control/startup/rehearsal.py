"""Short runs of all compiled code of a node, so that no code is compiled while the node is active.

A function is compiled, or loaded from disk, at its first call. Each rehearsal calls the functions
with artificial input and discards the results.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from rbd_control.dynamics import Model, frame_placement, inverse_dynamics
from rbd_control.errors import TrajectoryError

if TYPE_CHECKING:
    from rbd_control.estimation import DetectorParameters
    from rbd_control.simulation import SimulatedArm

LARGE_EFFORT = 1e5
"""Effort limit of the controller in a rehearsal [N·m or N].

It is the largest value that the parameter ``effort_limit`` allows.
"""


def rehearse_intake() -> None:
    """Process one artificial joint-state message, so that the code of the intake is compiled."""
    from rbd_control.joint_states import JointStateIntake

    JointStateIntake(("joint",)).accept(1.0, 1.0, ("joint",), [0.0], [0.0], [0.0])


def rehearse_detector(model: Model, parameters: DetectorParameters) -> None:
    """Run all compiled functions of a contact detector.

    An artificial contact is detected and located; then the checks of the model and of the kind of
    the efforts run. Of the parameters, only ``tool_frame`` selects functions; after changes of the
    others, while the detector runs, there is nothing left to compile or to load.

    Args:
        model: the robot.
        parameters: of the detector, per-joint values in the order of the model. Thresholds and
            times are replaced, so that few samples suffice.
    """
    from rbd_control.estimation import ContactDetector, EffortKindJudge, FitWatch
    from rbd_control.estimation.default_thresholds import default_contact_thresholds
    from rbd_control.estimation.least_force import least_forces_by_statistic
    from rbd_control.robot.surface import Surface

    default_contact_thresholds(model)  # needed when a threshold is changed to zero
    step = min(0.005, parameters.maximum_gap)
    # A few samples suffice, because the onset is searched in the samples before the detection.
    hasty = replace(
        parameters,
        settling_time=0.0,
        onset_debounce=10.0 * step,
        observer_gain=(100.0,),
        contact_threshold=(0.01,),
        collision_threshold=(1.0,),
        implausible_effort=1000.0,
        default_effort_limit=1e6,
    )
    # One point of a surface suffices; for the other links the places along their middle are used.
    last, up = np.array([model.bodies - 1], np.intp), np.array([[0.0, 0.0, 1.0]])
    detector = ContactDetector(model, hasty, surface=Surface(last, 0.1 * up, up, np.ones(1)))
    rest, zero = np.zeros(model.nq), np.zeros(model.nv)
    strong = np.full(model.nv, 2.0) / np.array(parameters.for_joints("effort_gain", model.nv))
    for k in range(1000):
        if detector.update(k * step, rest, zero, strong).contact:
            break
    detector.tool_wrench()
    detector.set_parameters(hasty)
    detector.update((k + 1) * step, rest, None, None)
    frame_placement(model, rest, model.joint_links[-1])
    watch = FitWatch(10.0)
    for k in range(1000):
        watch.add(0.01 * k, rest, zero, strong)
    watch.mismatches(detector)
    judge = EffortKindJudge(model, parameters)
    for k in range(200):
        judge.add(0.01 * k, rest, zero, strong)
    row, one = zero[None, :], np.ones(1)  # the check of the first seconds calls it
    least_forces_by_statistic(row, row, row, np.eye(model.nv), one, one, one.copy())


# Long: one call for each compiled function.
def rehearse_controller(model: Model) -> None:
    """Run all compiled functions of a controller of this arm, also those of disabled features."""
    from rbd_control.control import ControllerParameters, PassivityController, TrajectoryPoint
    from rbd_control.control.drive_response import LIKELY, DriveResponse
    from rbd_control.control.kernels import close_behind, largest_share
    from rbd_control.control.loop_fit import DelayFit, Record, momentum
    from rbd_control.joint_states.plausibility import unwrap

    rest, zero = np.zeros(model.nq), np.zeros(model.nv)
    # A start requires enough torque for the weight; 0 means the limit of the description.
    described = np.isfinite(model.effort_limit) & (model.effort_limit > LARGE_EFFORT)
    enough = tuple(np.where(described, 0.0, LARGE_EFFORT).tolist())
    for adaptive in (False, True):
        parameters = ControllerParameters(
            effort_limit=enough,
            velocity_limit=(1.0,),
            adaptive=adaptive,
            tank_capacity=1.0,
            stretch_to_limits=adaptive,
            friction_model="coulomb_viscous",
            stop_time=0.001,
        )
        controller = PassivityController(model, parameters)
        stamps = count(1)

        def see(
            v: float = 0.0,
            controller: PassivityController = controller,
            stamps: count[int] = stamps,
        ) -> None:
            for _ in range(3):  # enough joint states to be compared with each other
                controller.update(0.001 * next(stamps), rest, zero + v, effort=zero)
                controller.energy.balance(zero)

        controller.start(0.0, rest, zero)
        controller.law.damping(rest)
        # Effort limits so low that the torque is cut.
        controller.set_parameters(replace(parameters, effort_limit=(1.0,)))
        see()
        for seconds in (1.0, 0.1, 0.1):  # the last is one of a stream
            with suppress(TrajectoryError):
                point = TrajectoryPoint(rest.tolist(), time_from_start=seconds)
                controller.set_trajectory(model.joint_names, [point])
            see()
        controller.touched(model.joint_links[-1], np.array((0.0, 0.0, 1.0)))
        controller.modes.order("retract")
        see()
        see(0.5)
        controller.modes.order("float")
        see(0.5)
        controller.modes.fault("rehearsal")
        see(0.5)
    inverse_dynamics(model, rest, zero, zero)
    unwrap(rest.copy(), rest, np.arange(model.nv))
    close_behind(rest, 0.0, zero, zero, zero.copy(), zero.copy())
    largest_share(zero, zero, zero + 1.0)
    drives = DriveResponse(model.nv)
    drives.set_parameters(model, zero + 1.0, parameters)
    for _ in range(2):  # longer than the window of the comparison
        drives.take(1.0, rest, zero, zero)
    drives.fault(LIKELY, zero, zero)
    momentum(model.packed, rest, zero)
    times = 0.001 * np.arange(40.0)
    fit = DelayFit(Record(times, times, times, times, times), 0.01)
    while not fit.step():
        pass
    fit.result()


def rehearse_arm(arm: SimulatedArm) -> None:
    """Push a simulated arm and simulate one period, so that its code is compiled.

    Args:
        arm: the arm, which must not be used afterwards.
    """
    arm.push(arm.model.joint_links[-1], (1.0, 0.0, 0.0))
    arm.step()
    assert arm.contacts
