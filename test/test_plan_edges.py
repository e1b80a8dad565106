"""Plans at the edges of what is permitted: due within the lead, fast starts, changed arms."""

from __future__ import annotations

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, STILL, started
from test_planner import plan

from rbd_control.control import DesiredState, TrajectoryPoint
from rbd_control.control.planner import LEAD
from rbd_control.control.waypoints import PastTrajectoryError
from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.errors import StalePlanError, TrajectoryError
from rbd_control.simulation import arm7_urdf

SHARE = 0.6
"""Share of the effort limits that a stretched trajectory may use."""


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


@pytest.mark.parametrize("due", [0.1 * LEAD, 0.8 * LEAD])
@pytest.mark.parametrize("count", [1, 3])
def test_a_point_that_is_due_within_the_lead_is_not_past(
    model: Model, due: float, count: int
) -> None:
    """Stamped points that come 4 ms ahead were refused: planning reserves 5 ms."""
    controller = started(model)
    controller.update(0.001, HOME, STILL)
    target = HOME + 0.002
    last, now = 0.001 * count, 50.0
    points = [TrajectoryPoint(target, time_from_start=0.001 * (k + 1)) for k in range(count)]
    planned = controller.plan_trajectory(
        model.joint_names, points, now=now, stamp=now + due - last, lead=LEAD
    )
    controller.accept(planned)
    for k in range(2, 300):
        command = controller.update(0.001 * k, HOME, STILL)
    assert np.allclose(command.q_d, target)


def test_a_point_before_the_present_time_is_past(model: Model) -> None:
    controller = started(model)
    points = [TrajectoryPoint(HOME, time_from_start=1.0)]
    with pytest.raises(PastTrajectoryError, match="s ago"):
        controller.plan_trajectory(model.joint_names, points, now=50.0, stamp=48.999, lead=LEAD)


def test_a_point_due_within_the_lead_must_be_near(model: Model) -> None:
    controller = started(model)
    points = [TrajectoryPoint(HOME + 0.5, time_from_start=1.0)]
    with pytest.raises(TrajectoryError, match="due at once"):
        controller.plan_trajectory(model.joint_names, points, now=50.0, stamp=49.002, lead=LEAD)


@pytest.mark.parametrize(
    ("speed", "acceleration", "offset", "time"),
    [(0.0, 45.0, 0.05, 0.5), (0.0, 30.0, -0.5, 0.2), (0.5, -60.0, -0.05, 0.5)],
)
def test_an_acceleration_at_the_start_does_not_stretch_for_ever(
    model: Model, speed: float, acceleration: float, offset: float, time: float
) -> None:
    """The arm has it already; the trajectory was refused, as no factor was large enough."""
    start = DesiredState(HOME, np.full(7, speed), np.full(7, acceleration))
    point = TrajectoryPoint(HOME + offset, STILL, STILL, time)
    trajectory = plan(model, point, start=start, stretch_to_limits=True, torque_share=(SHARE,))
    q, v, a = (x.reshape(-1, 7) for x in trajectory.probe(200))
    effort = np.abs(inverse_dynamics(model, q, v, a)) / (SHARE * model.effort_limit)
    assert (np.abs(v) / model.velocity_limit).max() < 1.01
    assert trajectory.duration < 3.0 * time
    # A trajectory that is not stretched begins with the torque of the start, and needs no more.
    at_start = effort[0].max() if trajectory.duration == time else 0.0
    assert effort.max() < 1.01 * max(at_start, 1.0)


def test_a_plan_for_another_payload_is_made_again(model: Model) -> None:
    """It was followed to an end at which the motors could not hold the arm."""
    low, high = HOME.copy(), HOME.copy()
    low[1], high[1] = 0.0, 1.4  # an upright arm, and one that is stretched out
    low[3] = high[3] = 0.0
    heavy = model.with_payload("tool", 25.0, np.zeros(3), 0.01 * np.eye(3))
    controller = started(model, NO_RATE, q=low)
    few = [TrajectoryPoint(high, time_from_start=3.0)]
    many = [TrajectoryPoint(high, time_from_start=3.0 + k) for k in range(60)]
    plans = [controller.plan_trajectory(model.joint_names, each) for each in (few, many)]
    controller.set_parameters(controller.parameters, heavy)
    with pytest.raises(TrajectoryError, match="at the last point"):
        controller.accept(plans[0])
    with pytest.raises(StalePlanError, match="plan it again"):
        controller.accept(plans[1])
    assert controller.update(0.001, low, STILL).goal == "none"
