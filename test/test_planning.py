"""Planning beside the control loop: prepared in another thread, accepted in microseconds."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, STILL, Loop, give, started
from scipy.interpolate import CubicSpline

from rbd_control.control import (
    Command,
    ControllerParameters,
    PassivityController,
    TrajectoryArrays,
    TrajectoryPoint,
)
from rbd_control.control.planner import Planning
from rbd_control.control.trajectory import fill_velocities
from rbd_control.control.waypoints import MOST_POINTS
from rbd_control.dynamics import Model
from rbd_control.errors import StalePlanError, TrajectoryError
from rbd_control.nodes.trajectory_input import PlanningThread
from rbd_control.simulation import arm7_urdf


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def wave(count: int, period: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """Positions (count, 7) and times (count,) of a slow wave away from home and back."""
    times = period * np.arange(1, count + 1)
    phase = np.pi * np.arange(1, count + 1) / count
    return HOME + 0.3 * np.sin(phase)[:, None] ** 2, times


def arrays(count: int, period: float = 0.01) -> TrajectoryArrays:
    """Return the same, with time to get to the first point from anywhere near."""
    q, times = wave(count, period)
    return TrajectoryArrays(q, times + 2.0)


# --- Prepared and accepted -----------------------------------------------------------------------


@pytest.mark.parametrize("moving", [False, True])
def test_a_plan_is_followed_from_its_splice_without_a_jump(model: Model, moving: bool) -> None:
    controller = started(model)
    if moving:
        controller.set_trajectory(
            model.joint_names, [TrajectoryPoint(HOME + 0.3, time_from_start=1.0)]
        )
    stamp, states = 0.0, []

    def see(times: int) -> Command:
        nonlocal stamp
        for _ in range(times):
            stamp += 0.001
            command = controller.update(stamp, HOME, STILL)
            states.append(command)
        return command

    see(300)
    planned = controller.plan_trajectory(
        model.joint_names, [TrajectoryPoint(HOME - 0.2, time_from_start=1.0)], lead=0.05
    )
    see(30)
    controller.accept(planned)
    command = see(1)
    assert (command.mode, command.goal) == ("follow", "moving")
    command = see(18)
    assert np.all(command.v_d > 0.1) if moving else not command.v_d.any()
    see(200)
    v_d = np.array([state.v_d for state in states])
    q_d = np.array([state.q_d for state in states])
    # 1 ms of an acceleration of up to 5 rad/s².
    assert np.abs(np.diff(v_d, axis=0)).max() < 0.006
    assert np.abs(np.diff(q_d, axis=0) - 0.001 * v_d[:-1]).max() < 1e-5
    command = see(1200)
    assert np.allclose(command.q_d, HOME - 0.2)


def test_a_stamped_plan_keeps_its_time_whatever_the_lead(model: Model) -> None:
    for lead in (0.0, 0.1, 0.3):
        controller = started(model)
        controller.accept(
            controller.plan_trajectory(
                model.joint_names,
                [TrajectoryPoint(HOME + 0.1, time_from_start=1.0)],
                now=50.0,
                stamp=50.5,
                lead=lead,
            )
        )
        for k in range(1, 1450):
            command = controller.update(0.001 * k, HOME, STILL)
        assert not np.allclose(command.q_d, HOME + 0.1, atol=1e-5)
        for k in range(1450, 1503):
            command = controller.update(0.001 * k, HOME, STILL)
        assert np.allclose(command.q_d, HOME + 0.1)


def change(controller: PassivityController, model: Model, what: str) -> None:
    """Make a plan that was made before stale."""
    if what == "trajectory":
        controller.set_trajectory(
            model.joint_names, [TrajectoryPoint(HOME + 0.1, time_from_start=1.0)]
        )
    elif what == "parameters":
        controller.set_parameters(replace(controller.parameters, velocity_limit=(0.5,)))
    elif what == "cancel":
        controller.modes.cancel()
    elif what == "hold":
        controller.modes.order("hold")
        controller.resume()
    elif what == "clock":
        controller.clock_went_back()
        controller.update(-1.0, HOME, STILL, now=0.4)
    else:
        for k in range(401, 500):
            controller.update(0.001 * k, HOME, STILL)


@pytest.mark.parametrize("what", ["trajectory", "parameters", "cancel", "hold", "clock", "late"])
def test_a_plan_that_does_not_fit_any_more_is_made_anew_or_refused(model: Model, what: str) -> None:
    controller = started(model)
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME + 0.3, time_from_start=1.0)])
    for k in range(1, 401):
        controller.update(0.001 * k, HOME, STILL)
    large = controller.plan_trajectory(model.joint_names, arrays(1000), lead=0.05)
    small = controller.plan_trajectory(model.joint_names, arrays(40, 0.1), lead=0.05)
    change(controller, model, what)
    before = controller.motion.desired()
    with pytest.raises(StalePlanError, match="plan it again"):
        controller.accept(large)
    assert controller.motion.desired() is before or np.array_equal(
        controller.motion.desired(), before
    )
    controller.accept(small)
    after = controller.motion.desired()
    assert np.allclose(after.q_d, before.q_d)
    assert np.allclose(after.v_d, before.v_d)


def test_an_error_while_a_plan_is_repeated_refuses_the_trajectory(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reached the callback of the joint state, which sends zero torque after an exception."""
    controller = started(model)
    small = controller.plan_trajectory(model.joint_names, arrays(40, 0.1), lead=0.05)
    change(controller, model, "parameters")
    before = controller.motion.desired()

    def fail(*_: object) -> None:
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr(Planning, "prepare", fail)
    with pytest.raises(TrajectoryError, match="planning failed: ZeroDivisionError"):
        controller.accept(small)
    assert np.array_equal(controller.motion.desired(), before)
    assert controller.mode == "hold"


def test_a_plan_is_not_followed_where_the_arm_must_stay(model: Model) -> None:
    controller = started(model)
    planned = controller.plan_trajectory(model.joint_names, arrays(10, 0.1))
    for order in ("hold", "float", "fault"):
        give(controller, order, "test")
        with pytest.raises(TrajectoryError, match="resume first"):
            controller.accept(planned)
        with pytest.raises(TrajectoryError, match="resume first"):
            controller.plan_trajectory(model.joint_names, arrays(10, 0.1))
        assert controller.update(0.001, HOME, STILL).goal == "none"


def test_an_arm_at_rest_takes_a_late_plan(model: Model) -> None:
    """The start of the plan is still valid; the motion begins later."""
    controller = started(model)
    for k in range(1, 200):
        controller.update(0.001 * k, HOME, STILL)
    planned = controller.plan_trajectory(model.joint_names, arrays(1000), lead=0.02)
    for k in range(200, 400):
        controller.update(0.001 * k, HOME, STILL)
    controller.accept(planned)
    states = [controller.update(0.001 * k, HOME, STILL) for k in range(400, 500)]
    assert states[0].mode == "follow"
    assert np.abs(np.diff([state.v_d for state in states], axis=0)).max() < 0.005


def test_planning_in_a_thread_does_not_stall_the_loop(model: Model) -> None:
    """A hundred plans of 2,000 points while another thread updates; no motion jumps.

    The machine may be busy, so update times are not compared with a fixed limit. No update may wait
    for a plan: none takes as long as the longest plan.
    """
    loop = Loop(model)
    loop.run(0.2)
    plans: list[float] = []
    failed: list[BaseException] = []
    done = threading.Event()

    def plan() -> None:
        points = arrays(MOST_POINTS)
        try:
            for _ in range(100):
                begin = time.perf_counter()
                planned = loop.controller.plan_trajectory(model.joint_names, points, lead=60.0)
                plans.append(time.perf_counter() - begin)
                assert planned.trajectory.duration == pytest.approx(22.0)
                assert np.isfinite(planned.trajectory.coefficients).all()
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    worker = threading.Thread(target=plan)
    worker.start()
    states = []
    while not done.is_set():
        if not loop.controller.motion.moving:
            loop.follow(HOME + (0.1 if loop.arm.q[0] < 0.05 else 0.0), 0.2)
        states.append(loop.run(0.001))
    worker.join()
    assert not failed
    assert len(plans) == 100
    q_d = np.array([state.q_d for state in states])
    assert np.abs(np.diff(q_d, axis=0)).max() < 2e-3
    assert {state.mode for state in states} <= {"hold", "follow"}


# --- Speed and size ------------------------------------------------------------------------------


@pytest.mark.parametrize("stretch", [False, True])
def test_two_thousand_points_are_planned_quickly(model: Model, stretch: bool) -> None:
    controller = started(model, replace(NO_RATE, stretch_to_limits=stretch))
    points = arrays(MOST_POINTS)
    best = min(_timed(lambda: controller.plan_trajectory(model.joint_names, points)))
    # 3 and 15 ms where this was written; a busy machine takes longer.
    assert best < (0.03 if stretch else 0.01)


def test_accepting_takes_microseconds(model: Model) -> None:
    controller = started(model)
    planned = controller.plan_trajectory(model.joint_names, arrays(MOST_POINTS), lead=60.0)
    assert min(_timed(lambda: controller.accept(planned))) < 5e-4  # 5 µs where this was written


class Endless(list[TrajectoryPoint]):
    """Points that may be counted, but not looked at."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> object:  # type: ignore[override]
        raise AssertionError("looked at")

    def __getitem__(self, index: object) -> object:  # type: ignore[override]
        raise AssertionError("looked at")


def test_size_comes_before_all_else(model: Model) -> None:
    controller = started(model)
    with pytest.raises(TrajectoryError, match="2001 points; the limit is 2000"):
        controller.set_trajectory(model.joint_names, Endless(2001))
    with pytest.raises(TrajectoryError, match="no points"):
        controller.set_trajectory(model.joint_names, Endless(0))
    names = [f"joint_{i}" for i in range(200_000)]
    point = TrajectoryPoint(HOME, time_from_start=1.0)

    def refused() -> None:
        with pytest.raises(TrajectoryError, match="no joint 'joint_0'"):
            controller.set_trajectory(names, [point])
        with pytest.raises(TrajectoryError, match="'joint_1' is named twice"):
            controller.set_trajectory(["joint_1"] * 200_000, [point])

    assert min(_timed(refused)) < 0.01


def _timed(action: object) -> list[float]:
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        action()  # type: ignore[operator]
        times.append(time.perf_counter() - begin)
    return times


# --- Arrays --------------------------------------------------------------------------------------


def test_arrays_and_points_give_the_same_motion(model: Model) -> None:
    q, times = wave(30, 0.1)
    v, a = np.gradient(q, times, axis=0), np.zeros_like(q)
    v[-1] = 0.0
    v[7:12], a[20:25] = np.nan, np.nan
    a[np.isnan(v)] = np.nan
    points = [
        TrajectoryPoint(
            q[i],
            () if np.isnan(v[i, 0]) else v[i],
            () if np.isnan(a[i, 0]) else a[i],
            times[i],
        )
        for i in range(30)
    ]
    controller = started(model)
    one = controller.plan_trajectory(model.joint_names, points)
    other = controller.plan_trajectory(model.joint_names, TrajectoryArrays(q, times, v, a))
    assert np.array_equal(one.trajectory.coefficients, other.trajectory.coefficients)
    assert one.trajectory.knots == other.trajectory.knots


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (TrajectoryArrays(np.zeros((3, 6)), np.arange(3.0)), r"positions have shape \(3, 6\)"),
        (TrajectoryArrays(np.zeros((3, 7)), np.arange(2.0)), r"times have shape \(2,\)"),
        (
            TrajectoryArrays(np.zeros((2, 7)), np.array([1.0, 2.0]), np.zeros((1, 7))),
            r"velocities have shape \(1, 7\)",
        ),
        (
            TrajectoryArrays(np.full((2, 7), np.nan), np.array([1.0, 2.0])),
            "point 0, joint 'joint_1': positions contain nan",
        ),
        (
            TrajectoryArrays(
                np.tile(HOME, (2, 1)),
                np.array([1.0, 2.0]),
                np.array([[np.nan] * 6 + [0.0], [0.0] * 7]),
            ),
            "point 0, joint 'joint_1': velocities contain nan",
        ),
        (TrajectoryArrays(np.zeros((2, 7)), np.array([1.0, np.nan])), "time_from_start is nan"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    model: Model, points: TrajectoryArrays, message: str
) -> None:
    with pytest.raises(TrajectoryError, match=message):
        started(model).set_trajectory(model.joint_names, points)


@pytest.mark.parametrize("seed", range(5))
def test_clamped_splines_against_scipy(seed: int) -> None:
    random = np.random.default_rng(seed)
    knots = np.concatenate(((0.0,), np.cumsum(random.uniform(1e-3, 1.0, 20))))
    q, v = random.normal(size=(21, 3)), np.full((21, 3), np.nan)
    given = [0, 5, 6, 20] if seed % 2 else [0, 20]
    v[given] = random.normal(size=(len(given), 3))
    expected = v.copy()
    for first, last in zip(given, given[1:], strict=False):
        run = slice(first, last + 1)
        if last > first + 1:
            spline = CubicSpline(knots[run], q[run], bc_type=((1, v[first]), (1, v[last])))
            expected[first + 1 : last] = spline(knots[first + 1 : last], 1)
    fill_velocities(knots, q, v)
    # Segments of 1 ms beside such of 1 s make velocities of 1e3.
    assert np.allclose(v, expected, rtol=1e-9, atol=1e-8)


def test_numbers_that_overflow_a_spline_are_refused(model: Model) -> None:
    endless = np.full(7, np.inf)
    free = replace(model, lower_limit=-endless, upper_limit=endless, velocity_limit=endless)
    controller = started(free, ControllerParameters())
    points = [TrajectoryPoint(HOME + 1e8 * k, time_from_start=1e-200 * (k + 1)) for k in range(3)]
    with pytest.raises(TrajectoryError, match="numbers are too large"):
        controller.set_trajectory(model.joint_names, points)


# --- The thread ----------------------------------------------------------------------------------


def test_a_late_plan_is_made_again_unless_a_newer_one_is_valid() -> None:
    """It was dropped in silence for a newer trajectory that was then refused."""
    go = threading.Event()
    superseded: list[str] = []
    refused: list[str] = []

    def plan(order: str) -> str:
        go.wait()
        if order == "invalid":
            raise TrajectoryError("invalid")
        return f"plan of {order}"

    thread = PlanningThread(plan, lambda order, _: refused.append(order), superseded.append)

    def taken() -> str:
        end = time.monotonic() + 60.0
        while time.monotonic() < end:
            found = thread.take()
            if found is not None:
                return found
            time.sleep(0.001)
        raise AssertionError("no plan")

    try:
        thread.submit("first")
        go.set()
        assert taken() == "plan of first"
        go.clear()
        thread.submit("invalid")
        thread.submit_again("first")
        go.set()
        assert taken() == "plan of first"
        assert refused == ["invalid"]
        go.clear()
        thread.submit("second")
        thread.submit_again("first")
        go.set()
        assert taken() == "plan of second"
        thread.submit("third")
        assert taken() == "plan of third"
        assert superseded == ["first"]
    finally:
        go.set()
        thread.end()


def test_a_discarded_trajectory_is_not_refused_as_well() -> None:
    """It was logged and counted twice if its planning failed."""
    is_planning, go = threading.Event(), threading.Event()
    refused: list[str] = []

    def plan(order: str) -> str:
        is_planning.set()
        go.wait()
        raise TrajectoryError(order)

    thread = PlanningThread(plan, lambda order, _: refused.append(order))
    try:
        thread.submit("first")
        assert is_planning.wait(60.0)
        assert thread.discard() == ["first"]
        thread.submit("second")
        go.set()
        end = time.monotonic() + 60.0
        while not refused and time.monotonic() < end:
            time.sleep(0.001)
        assert refused == ["second"]
    finally:
        go.set()
        thread.end()


def test_a_trajectory_is_discarded_once() -> None:
    # A second cancel during the same planning reported success, although nothing was left.
    begun, go_on = threading.Event(), threading.Event()

    def plan(order: str) -> str:
        begun.set()
        assert go_on.wait(60.0)
        return order

    thread = PlanningThread(plan, lambda _order, _error: None)
    thread.submit("first")
    assert begun.wait(60.0)
    assert thread.discard() == ["first"]
    assert thread.discard() == []
    go_on.set()
    thread.end()
    assert thread.take() is None
