"""Trajectories: properties of the splines, and rejection of bad trajectories with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import BPoly, CubicSpline

from rbd_control.control.trajectory import (
    DesiredState,
    JointLimits,
    Trajectory,
    TrajectoryPoint,
    travels,
)
from rbd_control.errors import TrajectoryError

JOINTS = ("shoulder", "elbow")
LIMITS: JointLimits = SimpleNamespace(
    lower_limit=np.array([-2.0, -2.0]),
    upper_limit=np.array([2.0, 2.0]),
    velocity_limit=np.array([3.0, 1.0]),
)
UNEVEN: JointLimits = SimpleNamespace(
    lower_limit=np.array([-0.5, -2.0]),
    upper_limit=LIMITS.upper_limit,
    velocity_limit=LIMITS.velocity_limit,
)
HERE = DesiredState(np.array([0.1, -0.2]), np.array([0.3, 0.0]), np.array([0.5, -0.5]))
TIMES = (0.9, 1.7, 3.0)
Q = np.array([[0.4, -0.5], [0.9, -0.3], [0.2, 0.1]])
V = np.array([[0.5, 0.1], [-0.1, 0.2], [0.0, 0.0]])
A = np.array([[0.1, -0.3], [0.2, 0.4], [0.3, 0.0]])


def points(
    fields: str = "q", times: Sequence[float] = TIMES, q: np.ndarray = Q
) -> list[TrajectoryPoint]:
    return [
        TrajectoryPoint(
            q[i], V[i] if "v" in fields else (), A[i] if "a" in fields else (), times[i]
        )
        for i in range(len(times))
    ]


def build(pts: list[TrajectoryPoint], **options: Any) -> Trajectory:
    options = {"start": HERE, "limits": LIMITS, **options}
    return Trajectory.from_points(JOINTS, options.pop("names", JOINTS), pts, **options)


def sampled(trajectory: Trajectory, t: np.ndarray) -> np.ndarray:
    return np.array([trajectory.sample(x) for x in t])


@pytest.mark.parametrize("fields", ["q", "qv", "qva"])
def test_splines_against_scipy(fields: str) -> None:
    knots = np.array([0.0, *TIMES])
    q, v = np.vstack((HERE.q_d, Q)), np.vstack((HERE.v_d, V))
    if fields == "q":
        oracle = CubicSpline(knots, q, bc_type=((1, HERE.v_d), (1, np.zeros(2))))
    else:
        columns = (q, v) if fields == "qv" else (q, v, np.vstack((HERE.a_d, A)))
        oracle = BPoly.from_derivatives(knots, np.stack(columns, axis=1))
    t = np.linspace(0.0, 2.999, 200)
    expected = np.stack([oracle(t), oracle(t, 1), oracle(t, 2)], axis=1)
    # Polynomials of degree five over about a second: rounding only.
    assert np.allclose(sampled(build(points(fields)), t), expected, rtol=0, atol=1e-11)


def test_a_point_without_velocity_among_others_is_smooth_there() -> None:
    pts = points("qv")
    pts[1] = TrajectoryPoint(Q[1], time_from_start=TIMES[1])
    trajectory = build(pts)
    before, after = trajectory.sample(1.7 - 1e-9), trajectory.sample(1.7 + 1e-9)
    for x, y in zip(before, after, strict=True):
        assert np.allclose(x, y, atol=1e-7)  # 1e-9 s times a jerk of a few tens
    assert np.allclose(trajectory.sample(0.9).v_d, V[0])


def test_starts_where_the_arm_is_and_ends_at_rest() -> None:
    trajectory = build(points("qva"))
    assert np.allclose(trajectory.sample(-1.0), HERE)
    assert np.allclose(trajectory.sample(0.0), HERE)
    assert trajectory.duration == 3.0
    assert np.array_equal(trajectory.sample(3.0).q_d, Q[2])
    assert np.array_equal(trajectory.sample(9.0).q_d, trajectory.final)
    assert not np.any(trajectory.sample(9.0)[1:])


def test_joints_are_matched_by_name() -> None:
    swapped = [TrajectoryPoint(p.positions[::-1], time_from_start=p[3]) for p in points()]
    a, b = build(points()), build(swapped, names=JOINTS[::-1])
    assert np.array_equal(a.coefficients, b.coefficients)


def test_points_already_due_are_left_out() -> None:
    later = build(points("qv"), delay=-1.0)
    assert later.duration == pytest.approx(2.0)
    assert np.allclose(later.sample(0.0), (*HERE[:2], later.sample(0.0).a_d))
    assert np.allclose(later.sample(0.7).q_d, Q[1])
    assert build(points(), delay=2.0).duration == pytest.approx(5.0)


def test_a_single_point_due_at_once_is_taken_when_near() -> None:
    near = TrajectoryPoint(HERE.q_d + 0.01)
    assert np.allclose(build([near]).final, HERE.q_d + 0.01)
    with pytest.raises(TrajectoryError, match=r"point 0, joint 'elbow'.*due at once"):
        build([TrajectoryPoint(HERE.q_d + [0.0, 0.2])])


def test_first_point_at_time_zero_may_be_here_only() -> None:
    pts = points("q", times=(0.0, 1.7, 3.0), q=np.vstack((HERE.q_d, Q[1:])))
    assert np.allclose(build(pts).sample(0.0), (*HERE[:2], build(pts).sample(0.0).a_d))
    with pytest.raises(TrajectoryError, match="point 0, joint 'shoulder'"):
        build(points("q", times=(0.0, 1.7, 3.0)))


def test_the_arm_may_come_in_from_outside_its_limits() -> None:
    outside = DesiredState.at_rest(np.array([2.05, 0.0]))
    assert build(points("q"), start=outside).duration == 3.0


def test_a_start_that_is_too_fast_is_slowed_down_at_once() -> None:
    """A stop begins with the measured speed; the whole trajectory was permitted it."""
    limit = LIMITS.velocity_limit
    fast = DesiredState(HERE.q_d, 1.5 * limit, np.zeros(2))
    soon = HERE.q_d + 0.2 * limit
    stopped = [TrajectoryPoint(soon, np.zeros(2), (), 0.3)]
    assert build(stopped, start=fast, limits=LIMITS).duration == 0.3
    on = [TrajectoryPoint(HERE.q_d + 0.3 * limit, np.zeros(2), (), 1.0)]
    with pytest.raises(TrajectoryError, match="begins at a speed of .* is still too fast"):
        build(on, start=fast, limits=LIMITS)


def test_resumed_leads_into_the_rest() -> None:
    trajectory = build(points("qv"))
    start = DesiredState.at_rest(trajectory.sample(0.5).q_d)
    rest = trajectory.resumed(0.5, start, LIMITS)
    assert np.allclose(rest.sample(0.0), start)
    shift = rest.duration - trajectory.duration
    t = np.linspace(0.95, 2.99, 50)
    assert np.allclose(sampled(rest, t + shift), sampled(trajectory, t))
    fast = [np.abs(rest.sample(x).v_d) for x in np.linspace(0, rest.duration, 500)]
    assert np.all(np.max(fast, axis=0) <= LIMITS.velocity_limit * 1.01)
    near_end = trajectory.resumed(2.95, start, LIMITS)
    assert np.array_equal(near_end.final, Q[2])


def refused(i: int, **change: Any) -> list[TrajectoryPoint]:
    pts = points("qv")
    pts[i] = pts[i]._replace(**change)
    return pts


NAN = float("nan")


@pytest.mark.parametrize(
    ("pts", "options", "message"),
    [
        ([], {}, "no points"),
        (points(), {"names": ("shoulder", "elbw")}, "no joint 'elbw'; joints are shoulder, elbow"),
        (points(), {"names": ("shoulder",)}, "joint 'elbow' is missing"),
        (points(), {"names": ("elbow", "shoulder", "elbow")}, "'elbow' is named twice"),
        (points(), {"names": (), "partial": True}, "names no joints; joints are shoulder, elbow"),
        (refused(1, positions=(0.0,)), {}, "point 1 has 1 positions but .* 2 joints"),
        (refused(1, positions=()), {}, "point 1 has 0 positions"),
        (refused(2, velocities=(0.0, 0.0, 0.0)), {}, "point 2 has 3 velocities"),
        (refused(0, accelerations=(0.0,)), {}, "point 0 has 1 accelerations"),
        (refused(0, velocities=(), accelerations=(0, 0)), {}, "accelerations but no velocities"),
        (refused(1, positions=(0.0, NAN)), {}, "point 1, joint 'elbow': positions contain nan"),
        (
            refused(1, positions=(0.0, 1e300)),
            {},
            "point 1, joint 'elbow': positions contain 1e\\+300; give finite numbers below 1e\\+09",
        ),
        (
            refused(1, velocities=(np.inf, 0)),
            {},
            "point 1, joint 'shoulder': velocities contain inf",
        ),
        (refused(0, time_from_start=NAN), {}, "point 0: time_from_start is nan"),
        (refused(0, time_from_start=-0.1), {}, "point 0: time_from_start is -0.1"),
        (refused(1, time_from_start=0.9), {}, "point 1: time_from_start is 0.9 s, not after"),
        (points(), {"delay": -3.5}, "point 2: the trajectory ended 0.5 s ago"),
        (points(), {"delay": NAN}, "give a finite time"),
        (points(), {"delay": 1.7e9}, "starts in 1.7e\\+09 s; give a finite time of this clock"),
        # At a time so far away there are no nanoseconds between numbers.
        (
            points(times=(1.0, 1.0 + 1e-9, 3.0)),
            {"delay": 1e8},
            "point 1: its time cannot be distinguished",
        ),
        (refused(2, time_from_start=1e300), {}, "point 2: time_from_start is 1e\\+300 s"),
        (refused(2, velocities=(0.0, 0.1)), {}, "point 2, joint 'elbow': the last velocity is 0.1"),
        (refused(1, positions=(0.0, 2.1)), {}, "point 1, joint 'elbow': position 2.1 .* -2 to 2"),
        (refused(1, velocities=(0.0, 1.5)), {}, "point 1, joint 'elbow': velocity 1.5 .* limit 1"),
        # 0.8 rad in 0.6 s asks the clamped spline for more than 1 rad/s though no point does.
        (
            points("qv", times=(0.9, 1.5, 3.0), q=np.array([[0.4, -0.5], [0.9, 0.3], [0.2, 0.1]])),
            {},
            "from point 0 to point 1, joint 'elbow': it would reach a speed of .* limit is 1",
        ),
        # The same backwards.
        (
            points("qv", times=(0.9, 1.5, 3.0), q=np.array([[0.4, 0.3], [0.9, -0.5], [0.2, 0.1]])),
            {},
            "from point 0 to point 1, joint 'elbow': it would reach a speed of .* limit is 1",
        ),
        (points(times=(0.01, 1.7, 3.0)), {}, "from here to point 0, joint 'shoulder'.*speed"),
        # The spline swings out past a point at the limit that it must leave with speed.
        (refused(0, positions=(1.99, -0.5), velocities=(2.0, 0.0)), {}, "spline passes"),
        (
            refused(0, positions=(-0.49, -0.5), velocities=(-1.0, 0.0)),
            {"limits": UNEVEN},
            "joint 'shoulder': the spline passes -0.5.*; its limits are -0.5 to 2",
        ),
    ],
)
def test_refusals_say_where_and_why(
    pts: list[TrajectoryPoint], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TrajectoryError, match=message):
        build(pts, **options)


@pytest.mark.parametrize("fields", ["q", "qva"])
def test_many_points_are_checked_and_quickly(fields: str) -> None:
    """The control loop waits meanwhile. A limit is passed between two points of a thousand."""
    n = 1000
    t = 0.02 * np.arange(1, n + 1)
    q = 0.5 * np.column_stack((np.cos(t), np.cos(t))) + HERE.q_d - 0.5
    v, a = -0.5 * np.sin(t), -0.5 * np.cos(t)
    v[-1] = 0.0
    pts = [
        TrajectoryPoint(
            q[i], *(([v[i]] * 2, [a[i]] * 2) if "v" in fields else ((), ())), time_from_start=t[i]
        )
        for i in range(n)
    ]
    times = []
    for _ in range(9):
        begin = process_time()
        build(pts)
        times.append(process_time() - begin)
    assert min(times) < 0.01  # 2 ms where this was written
    pts[700] = pts[700]._replace(positions=q[700] + [0.0, 0.05])
    with pytest.raises(TrajectoryError, match=r"to point (69\d|700), joint 'elbow'.* speed"):
        build(pts)
    with pytest.raises(TrajectoryError, match="2001 points; the limit is 2000"):
        build([TrajectoryPoint(HERE.q_d, time_from_start=1.0 + i) for i in range(2001)])


@pytest.mark.parametrize("count", [1, 7, 400, 2000])
@pytest.mark.parametrize("since", [0.0, 0.35, 1.0])
@pytest.mark.parametrize("most", [100, 2000])
def test_the_path_covers_the_time_from_since_to_the_end(
    count: int, since: float, most: int
) -> None:
    """No knot is left out: a motion that repeats itself after some segments would be unseen."""
    knots = np.linspace(0.0, 1.0, count + 1)
    q = np.sin(3.0 * knots)[:, None]
    none = np.full_like(q, np.nan)
    v = none.copy()
    v[[0, -1]] = 0.0
    trajectory = Trajectory.joining(("a",), knots, q, v, none)
    times, positions = trajectory.path(0.02, most, since)
    assert len(times) <= most + 2 * count + 1
    assert (times[0], times[-1]) == (since, 1.0)
    assert (np.diff(times) >= 0.0).all()
    assert np.allclose(positions, [trajectory.sample(t).q_d for t in times], atol=1e-12)
    assert np.isin(knots[knots >= since], times).all()
    # The step is the mean travel of a segment, which is exceeded where the joint is fast.
    assert np.abs(np.diff(positions[:, 0])).max() < 2.0 * 0.02


def test_a_long_way_has_positions_in_each_segment_at_different_phases() -> None:
    """There are fewer of them than the step requires, and each swing shows other postures."""
    knots = np.arange(2001.0)
    q = np.array([[-1.0], [1.0]])[np.arange(2001) % 2]
    still = np.zeros_like(q)
    trajectory = Trajectory.joining(("a",), knots, q, still, still)
    times, positions = trajectory.path(0.04, 2000)
    assert len(times) <= 6001
    between = times[times % 1.0 > 0.0]
    assert set(between.astype(int)) == set(range(2000))
    assert np.diff(np.sort(between % 1.0)).max() < 0.002
    assert np.diff(np.unique(positions[:, 0])).max() < 0.01


@pytest.mark.parametrize("seed", range(20))
def test_the_travel_of_a_segment_is_never_underestimated(seed: int) -> None:
    """And it is exact for a joint that does not turn back, as in a quintic from rest to rest."""
    rng = np.random.default_rng(seed)
    lengths = rng.uniform(0.01, 10.0, 8)
    ends = (rng.normal(size=(9, 3)) * scale for scale in (1.0, 2.0, 5.0))
    trajectory = Trajectory.joining(("a", "b", "c"), np.r_[0.0, lengths.cumsum()], *ends)
    q = trajectory.probe(1000).q_d
    travel = np.abs(np.diff(q, axis=1)).sum((1, 2))
    assert (travels(trajectory.coefficients, lengths) >= travel * (1.0 - 1e-9)).all()
    still = np.zeros((2, 3))
    q = rng.normal(size=(2, 3))
    direct = Trajectory.joining(("a", "b", "c"), np.array((0.0, 2.0)), q, still, still)
    assert travels(direct.coefficients, np.array((2.0,)))[0] == pytest.approx(
        np.abs(q[1] - q[0]).sum()
    )
