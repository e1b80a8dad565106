"""From messages to motions: partial points, turns, streams, time scaling."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, SCRIPTED, STILL, Loop, started
from hypothesis import given, settings
from hypothesis import strategies as st

from rbd_control.control import (
    ControllerParameters,
    DesiredState,
    PassivityController,
    TrajectoryPoint,
    planner,
)
from rbd_control.control.limits import ArmLimits, SoftLimits
from rbd_control.control.planner import PlanningState, TrajectoryRequest
from rbd_control.control.samples import SampleJudge
from rbd_control.control.trajectory import Trajectory
from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.errors import StalePlanError, TrajectoryError
from rbd_control.simulation import arm7_urdf

NUMBERS = st.sampled_from(
    [0.0, -0.0, 0.1, 1.0, -3.0, 1e-9, 1e-300, 1e9, 1e16, 1e300, -1e300, np.nan, np.inf, -np.inf]
)
TIMES = st.sampled_from([0.0, 1e-9, 0.5, 1.0, 2.0**31, 1e300, -1.0, np.nan])
FIELD = st.one_of(st.just([]), st.just([0.2] * 7), st.lists(NUMBERS, min_size=7, max_size=7))
POINT = st.builds(TrajectoryPoint, FIELD, FIELD, FIELD, TIMES)
RULES = {
    "allow_partial_joints_goal": st.booleans(),
    "angle_wraparound": st.booleans(),
    "stretch_to_limits": st.booleans(),
}

REST = DesiredState.at_rest(HOME)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def plan(
    model: Model,
    *points: TrajectoryPoint,
    names: tuple[str, ...] = (),
    start: DesiredState = REST,
    **parameters: Any,
) -> Trajectory:
    """Return the motion from ``start`` through the points, by these parameters."""
    p = ControllerParameters(**parameters)
    state = PlanningState(
        parameters=p,
        limits=ArmLimits.of(model, p),
        soft=SoftLimits(model, p).now(),
        weight=lambda q: np.abs(gravity_torque(model, q)),
        base=Trajectory.stop(model.joint_names, start.q_d, start.v_d, 1.0),
        splice=0.0,
        start=start,
        lead=0.0,
        stamp=0.0,
        turned=None,
        stream=None,
    )
    request = TrajectoryRequest(names or model.joint_names, points, None, 0.0)
    return planner.plan(model, SampleJudge(model).continuous.tolist(), request, state).trajectory


def test_joints_left_out_stay_where_they_are(model: Model) -> None:
    names = ("joint_4", "joint_2")
    points = [TrajectoryPoint((-1.0, 0.6), (), (), 0.5), TrajectoryPoint((-0.9, 0.7), (), (), 1.0)]
    with pytest.raises(TrajectoryError, match="joint 'joint_1' is missing"):
        plan(model, *points, names=names)
    trajectory = plan(model, *points, names=names, allow_partial_joints_goal=True)
    expected = HOME.copy()
    expected[[3, 1]] = -0.9, 0.7
    assert np.array_equal(trajectory.final, expected)
    others = [0, 2, 4, 5, 6]
    for t in np.linspace(0.0, 1.0, 50):
        state = trajectory.sample(t)
        assert np.allclose(state.q_d[others], HOME[others], rtol=0, atol=1e-15)
        assert not state.v_d[others].any()
    moving = DesiredState(HOME, np.full(7, 0.2), STILL)
    with pytest.raises(TrajectoryError, match="'joint_1' is missing but still moves with 0.2"):
        plan(model, *points, names=names, start=moving, allow_partial_joints_goal=True)


def test_continuous_joints_take_the_short_way_when_asked(model: Model) -> None:
    endless = np.full(7, np.inf)
    free = replace(model, lower_limit=-endless, upper_limit=endless)
    turn = 2.0 * np.pi * np.array([1, 0, -2, 0, 3, 0, 0])
    points = [TrajectoryPoint(HOME + turn + 0.1 * k, (), (), float(k)) for k in (1, 2)]
    trajectory = plan(free, *points, angle_wraparound=True)
    assert np.allclose(trajectory.final, HOME + 0.2)
    with pytest.raises(TrajectoryError, match="speed"):
        plan(free, *points)
    # A joint with limits is never shifted.
    with pytest.raises(TrajectoryError, match="outside its limits"):
        plan(model, *points, angle_wraparound=True)


@pytest.mark.parametrize("speed", [0.0, 0.5])
def test_stretching_keeps_limits_and_little_more(model: Model, speed: float) -> None:
    """From rest and from a moving arm; the tightest limit is used to a percent."""
    start = DesiredState(HOME, np.full(7, speed), STILL)
    points = [TrajectoryPoint(HOME + d, (), (), t) for d, t in ((0.5, 0.1), (-0.4, 0.25))]
    trajectory = plan(model, *points, start=start, stretch_to_limits=True, torque_share=(0.6,))
    q, v, a = (x.reshape(-1, 7) for x in trajectory.probe(200))
    effort = np.abs(inverse_dynamics(model, q, v, a)) / (0.6 * model.effort_limit)
    used = max((np.abs(v) / model.velocity_limit).max(), effort.max())
    assert 0.9 < used < 1.01
    assert np.allclose(trajectory.sample(0.0)[:2], start[:2])
    first, last = trajectory.knots[1:]
    assert last / first == pytest.approx(2.5)  # evenly
    with pytest.raises(TrajectoryError, match="speed"):
        plan(model, *points, start=start)


def test_stretching_keeps_the_effort_limits_of_short_fast_motions(model: Model) -> None:
    """Far below the speed limits, the torque of the acceleration decides."""
    points = [TrajectoryPoint(HOME + d, (), (), t) for d, t in ((0.03, 0.02), (0.0, 0.04))]
    trajectory = plan(model, *points, stretch_to_limits=True, torque_share=(0.6,))
    q, v, a = (x.reshape(-1, 7) for x in trajectory.probe(200))
    effort = np.abs(inverse_dynamics(model, q, v, a)) / (0.6 * model.effort_limit)
    assert (np.abs(v) / model.velocity_limit).max() < 0.9
    assert 0.9 < effort.max() < 1.01


@pytest.mark.parametrize("count", [100, 300, 2000])
@pytest.mark.parametrize("amplitude", [0.1, 0.4])
def test_stretching_sees_each_segment(model: Model, count: int, amplitude: float) -> None:
    """From 300 segments on, torque and speed were computed at their ends only, where both are 0."""
    times = 0.6 * amplitude * np.arange(1, count + 1)
    joint = np.arange(7) == 0
    points = [
        TrajectoryPoint(HOME + amplitude * (i % 2 == 0) * joint, STILL, STILL, t)
        for i, t in enumerate(times)
    ]
    limits: dict[str, Any] = {"torque_share": (0.9,)}
    trajectory = plan(model, *points, stretch_to_limits=True, **limits)
    q, v, a = (x[:50].reshape(-1, 7) for x in trajectory.probe(200))
    effort = np.abs(inverse_dynamics(model, q, v, a)) / (0.9 * model.effort_limit)
    used = max((np.abs(v) / model.velocity_limit).max(), effort.max())
    assert trajectory.duration > 1.1 * times[-1]
    # 2000 segments have 4 intervals each, and the peak between them is 3 % higher.
    assert 0.98 < used < (1.03 if count == 2000 else 1.01)


def test_a_posture_too_heavy_is_not_stretched_for_ever(model: Model) -> None:
    point = TrajectoryPoint((0.0, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0), (), (), 1.0)
    with pytest.raises(TrajectoryError, match=r"joint 'joint_2'.*the weight alone takes"):
        plan(model, point, stretch_to_limits=True, torque_share=(0.25,))


@pytest.mark.parametrize("rate", [10.0, 30.0, 100.0])
def test_a_stream_is_smooth_and_does_not_stop_in_between(model: Model, rate: float) -> None:
    """Even motion of the teleoperator, each point due in 0.1 s: even motion of the arm."""
    controller = started(model)
    speed, period = 0.4, round(1000.0 / rate)
    speeds, accelerations, lag = [], [], []
    for k in range(3000):
        if k % period == 0:
            target = HOME + [speed * 1e-3 * k, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
            controller.set_trajectory(
                model.joint_names, [TrajectoryPoint(target, time_from_start=0.1)]
            )
        controller.update(1e-3 * (k + 1), controller.motion.desired().q_d, STILL)
        q_d, v_d, a_d = controller.motion.desired()
        speeds.append(v_d[0])
        accelerations.append(a_d[0])
        lag.append(speed * 1e-3 * (k + 1) - (q_d - HOME)[0])
    # It has caught up after a second; then it is as late as the points are due.
    assert np.allclose(speeds[1000:], speed, rtol=0.05)
    assert np.allclose(lag[1000:], speed * 0.1, atol=speed * 0.005 + speed / rate * 0.05)
    assert np.abs(accelerations[1000:]).max() < 1.0
    for k in range(3000, 3500):  # no more points: it stops at the last one
        command = controller.update(1e-3 * (k + 1), controller.motion.desired().q_d, STILL)
    assert command.reason == ""
    assert (command.mode, command.goal) == ("hold", "reached")
    assert np.allclose(command.q_d, target)


@pytest.mark.parametrize("late", [0.0, 0.002, 0.005])
@pytest.mark.parametrize("lost", [0.0, 0.05])
def test_late_and_lost_points_of_a_stream_do_not_make_it_brake(
    model: Model, late: float, lost: float
) -> None:
    """The desired motion braked from full speed and turned back: torque swung, mode safe."""
    chance = np.random.default_rng(0)
    n = model.nv
    controller = PassivityController(model, replace(NO_RATE, tracking_limit=(100.0,)))
    controller.start(0.0, np.zeros(n), np.zeros(n))
    due = sorted(
        (0.01 * k + chance.uniform(0.0, late), 0.01 * k)
        for k in range(1, 200)
        if chance.uniform() >= lost
    )
    accelerations, before = [], np.zeros(n)
    q, v = np.zeros(n), np.zeros(n)
    for k in range(1, 2000):
        now = 0.001 * k
        while due and due[0][0] <= now:
            sent = due.pop(0)[1]
            target = np.full(n, 0.3 - 0.3 * np.cos(np.pi * (sent + 0.01)))
            controller.set_trajectory(
                model.joint_names, [TrajectoryPoint(target, time_from_start=0.01)]
            )
        command = controller.update(now, q, v)
        q, v = command.q_d, command.v_d  # an arm that follows exactly
        if now > 0.3:
            accelerations.append(np.abs(v - before).max() / 0.001)
        before = v
    # The cosine has 3 rad/s²; the speed limits in stop_time are 20 and more.
    assert max(accelerations) < 40.0


@pytest.mark.parametrize("due", [1e-12, 1e-9, 1e-7, 1e-3])
def test_a_stream_brakes_gently_for_a_point_that_is_due_at_once(model: Model, due: float) -> None:
    """A point that was due in a nanosecond stopped the arm within 1 ms."""
    controller = started(model)
    names, along = model.joint_names, np.arange(7) == 0
    for k in range(400):
        if k % 40 == 0:
            target = HOME + 1e-3 * k * along
            controller.set_trajectory(names, [TrajectoryPoint(target, time_from_start=0.1)])
        controller.update(1e-3 * (k + 1), controller.motion.desired().q_d, STILL)
    here = controller.motion.desired()
    assert here.v_d[0] > 0.8
    point = [TrajectoryPoint(here.q_d, time_from_start=due)]
    planned = controller.plan_trajectory(names, point, lead=0.0)
    assert planned.state.stream is not None
    p = controller.parameters
    assert planned.trajectory.knots[1] <= 2.0 * p.stream_horizon
    steepest = np.abs(planned.trajectory.probe(100).a_d).max((0, 1))
    assert (steepest <= model.velocity_limit / p.stop_time).all()


def test_a_stream_with_a_short_horizon_takes_the_longest_time(model: Model) -> None:
    """The horizon limits the delay; the bound on the acceleration is then exceeded."""
    parameters = replace(NO_RATE, stream_horizon=0.02, stop_time=1.0)
    controller = started(model, parameters)
    names, point = model.joint_names, [TrajectoryPoint(HOME + 0.03, time_from_start=1e-9)]
    controller.set_trajectory(names, [TrajectoryPoint(HOME, time_from_start=0.01)])
    controller.update(0.001, HOME, STILL)
    planned = controller.plan_trajectory(names, point, lead=0.0)
    assert planned.state.stream is not None
    assert planned.trajectory.knots[1] == pytest.approx(0.04)


def test_a_stream_keeps_the_speed_limits(model: Model) -> None:
    """A step of the teleoperator is taken in short time; one too far away is refused."""
    controller = started(model)

    def send(target: np.ndarray) -> None:
        controller.set_trajectory(model.joint_names, [TrajectoryPoint(target, (), (), 0.05)])

    send(HOME)
    controller.update(0.001, HOME, STILL)
    send(HOME + 0.2)  # 4 rad/s
    fastest = 0.0
    for k in range(500):
        command = controller.update(0.002 + 0.001 * k, HOME, STILL)
        fastest = max(fastest, (np.abs(command.v_d) / model.velocity_limit).max())
    assert 0.7 < fastest <= 1.0
    assert np.allclose(command.q_d, HOME + 0.2)
    send(HOME + 0.2)
    with pytest.raises(TrajectoryError, match="speed"):
        send(HOME - 1.5)


def test_two_trajectories_a_millisecond_apart(model: Model) -> None:
    """Neither speeds the arm up nor makes it jump; points of a stream and goals alike."""
    for time in (0.2, 1.0):
        loop = Loop(model)
        loop.run(0.1)
        loop.follow(HOME + 0.1, time)
        loop.run(0.001)
        loop.follow(HOME + 0.15, time)
        states = []
        loop.run(2.5, lambda command, states=states: states.append(command))
        assert np.abs([c.v_d for c in states]).max() <= 2.0 * 0.15 / time
        assert np.abs(np.diff([c.q_d for c in states], axis=0)).max() < 2.5e-3 * 0.15 / time
        assert states[-1].goal == "reached"
        assert np.allclose(states[-1].q_d, HOME + 0.15)


@settings(max_examples=300, deadline=None)
@given(
    joints=st.integers(0, 7),
    points=st.lists(POINT, max_size=3),
    stamp=st.sampled_from([0.0, 0.5, 1e9, -2e9, np.nan]),
    rules=st.fixed_dictionaries(RULES),
    endless=st.booleans(),
)
def test_every_message_is_followed_or_refused(
    model: Model,
    joints: int,
    points: list[TrajectoryPoint],
    stamp: float,
    rules: dict[str, bool],
    endless: bool,
) -> None:
    """No other exception is raised, which would end the node, and no motion ends in a fault."""
    if endless:
        far = np.full(7, np.inf)
        model = replace(model, lower_limit=-far, upper_limit=far)
    controller = started(model, ControllerParameters(**rules, **SCRIPTED))
    cut = [p._replace(**{f: getattr(p, f)[:joints] for f in p._fields[:3]}) for p in points]
    names = model.joint_names[:joints]
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME, time_from_start=0.2)])
    with suppress(TrajectoryError):
        controller.set_trajectory(names, cut, now=1.0, stamp=stamp)
    for k in range(1, 4):
        command = controller.update(0.02 * k, HOME, STILL)
        assert (command.mode, command.reason) == ("follow", "")
        assert np.isfinite([*command.torque, *command.q_d, *command.v_d]).all()


@pytest.mark.parametrize("between", ["several points", "a point that is due later"])
def test_what_is_no_stream_ends_a_stream(model: Model, between: str) -> None:
    """The next single point was compared with the point before, and passed at a wrong pace."""
    controller = started(model)
    near = [TrajectoryPoint(HOME + 0.001, time_from_start=0.1)]
    far = [TrajectoryPoint(HOME + 0.01, time_from_start=2.0)]
    several = [*near, TrajectoryPoint(HOME + 0.01, time_from_start=2.0)]
    controller.set_trajectory(model.joint_names, near)
    assert controller.planning._stream is not None
    controller.update(0.01, HOME, STILL)
    controller.set_trajectory(model.joint_names, several if between == "several points" else far)
    assert controller.planning._stream is None


def test_a_stop_ends_a_stream(model: Model) -> None:
    """The next point was passed without a stop, at a pace measured from before the stop."""
    controller = started(model)
    names, near = model.joint_names, [TrajectoryPoint(HOME + 0.001, time_from_start=0.1)]
    controller.set_trajectory(names, near)
    controller.update(0.01, HOME, STILL)
    assert controller.planning.prepare(names, near, None, 0.0).state.stream is not None
    controller.modes.cancel()
    controller.update(0.02, HOME, STILL)
    assert controller.planning.prepare(names, near, None, 0.0).state.stream is None


def test_without_a_horizon_there_are_no_streams(model: Model) -> None:
    controller = started(model, replace(NO_RATE, stream_horizon=0.0))
    now = [TrajectoryPoint(HOME, time_from_start=0.0)]
    for _ in range(2):
        controller.set_trajectory(model.joint_names, now)
        assert controller.planning._stream is None


def test_a_trajectory_waits_for_the_first_joint_state_after_a_start(model: Model) -> None:
    """It was accepted, and ended with the first joint state as if the clock had jumped."""
    controller = started(model)
    controller.clock_went_back()  # as a node does when it is activated
    names, near = model.joint_names, [TrajectoryPoint(HOME + 0.001, time_from_start=0.1)]
    planned = controller.planning.prepare(names, near, None, 0.0)
    with pytest.raises(StalePlanError, match="no joint state"):
        controller.accept(planned)
    controller.update(0.001, HOME, STILL)
    controller.set_trajectory(names, near)
    assert controller.update(0.002, HOME, STILL).mode == "follow"
