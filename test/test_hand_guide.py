"""Hand guiding without ROS: states, faults, limits, locked directions, tank, and the led path."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from rbd_control.control import hand_guide
from rbd_control.control.hand_guide import Command, HandGuide, HandGuideParameters, State
from rbd_control.dynamics import Model, frame_jacobian, frame_placement
from rbd_control.errors import InputError, ParameterError
from rbd_control.simulation import arm7_urdf

MODEL = Model.from_urdf(arm7_urdf())
HOME = np.array([0.0, 0.5, 0.0, 1.1, 0.0, 0.8, 0.0])
TOOL = "tool"
STEP = 0.008
LAG = 3
"""Steps from a command to the motion, 24 ms."""
NOISE = 0.3
"""Standard deviation of the estimated force [N] and moment [N·m] per component."""
FORWARD = np.array([0.0, 0.0, 0.0, 0.0, 10.0, 0.0])
"""Wrench of a hand: 10 N along y."""


@dataclass
class Cell:
    """An arm that follows its commands late, a detector, and a hand at the tool.

    Attributes:
        hand: wrench ``[moment; force]`` of the hand in root axes, from position and twist of the
            tool.
        silent: inputs that do not arrive.
        frozen: whether the arm ignores its commands.
    """

    guide: HandGuide
    now: float = 10.0
    q: np.ndarray = field(default_factory=HOME.copy)
    v: np.ndarray = field(default_factory=lambda: np.zeros(7))
    hand: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda _x, _u: np.zeros(6)
    link: str = TOOL
    level: str = "contact"
    flag: bool | None = None
    silent: set[str] = field(default_factory=set)
    frozen: bool = False
    shift: float = 0.0
    wrench: np.ndarray = field(default_factory=lambda: np.zeros(6))
    felt: np.ndarray = field(default_factory=lambda: np.zeros(6))
    energy: list[float] = field(default_factory=lambda: [0.0])
    speeds: list[float] = field(default_factory=list)
    command: Command | None = None
    rng: Any = field(default_factory=lambda: np.random.default_rng(1))

    def __post_init__(self) -> None:
        self._waiting: deque[np.ndarray | None] = deque([None] * LAG)

    def step(self) -> None:
        """Advance by one period."""
        placement = frame_placement(MODEL, self.q, TOOL)
        twist = frame_jacobian(MODEL, self.q, TOOL) @ self.v
        self.wrench = self.hand(placement[:3, 3], twist)
        self.energy.append(self.energy[-1] - float(self.wrench @ twist) * STEP)
        self.speeds.append(float(np.linalg.norm(twist[3:])))
        self.felt += (STEP / 0.02) * (self.wrench - self.felt)
        self._tell(placement[:3, :3])
        self.command = self.guide.step(self.now)
        self._move()
        self.now += STEP

    def _tell(self, R: np.ndarray) -> None:
        guide, now, stamp = self.guide, self.now, self.now + self.shift
        touched = bool(np.abs(self.felt).max() > 3.0) if self.flag is None else self.flag
        if "joints" not in self.silent:
            guide.update_joints(stamp, self.q.copy(), self.v.copy(), now)
        if "verdict" not in self.silent:
            guide.update_verdict(touched, now)
        if "level" not in self.silent:
            guide.update_level(*((self.level, self.link) if touched else ("none", "")), now)
        if "wrench" not in self.silent:
            local = np.concatenate([R.T @ self.felt[:3], R.T @ self.felt[3:]])
            local += NOISE * self.rng.standard_normal(6)
            guide.update_wrench(stamp, TOOL, local, NOISE**2 * np.eye(6), now)

    def _move(self) -> None:
        command = self.command
        wanted = None
        if command is not None:
            wanted = command.q if self.guide.arm == "position" else command.v
        self._waiting.append(wanted)
        due = self._waiting.popleft()
        before = self.q
        if due is not None and not self.frozen:
            self.q = due if self.guide.arm == "position" else before + STEP * due
        self.v = (self.q - before) / STEP

    def run(self, seconds: float) -> None:
        """Advance by a time [s]."""
        for _ in range(round(seconds / STEP)):
            self.step()

    def until(self, state: State, longest: float = 3.0) -> float:
        """Run until a state; return the time [s]."""
        begin = self.now
        while self.guide.state != state:
            assert self.now - begin < longest, (self.guide.state, self.guide.reason)
            self.step()
        return self.now - begin

    @property
    def place(self) -> np.ndarray:
        """Position of the tool, (3,) [m]."""
        return np.asarray(frame_placement(MODEL, self.q, TOOL)[:3, 3])


def pushing(wrench: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda _x, _u: wrench


def spring(
    stiffness: float, damping: float, target: Callable[[], np.ndarray]
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A hand that holds the tool at a place."""

    def wrench(x: np.ndarray, twist: np.ndarray) -> np.ndarray:
        return np.concatenate([np.zeros(3), stiffness * (target() - x) - damping * twist[3:]])

    return wrench


def cell(arm: Any = "position", **changes: Any) -> Cell:
    return Cell(HandGuide(MODEL, HandGuideParameters(tool_frame=TOOL, **changes), arm))


def led(wrench: np.ndarray = FORWARD, arm: Any = "position", **changes: Any) -> Cell:
    """Return a cell whose arm a hand leads."""
    c = cell(arm, **changes)
    c.guide.start()
    c.run(1.0)
    c.hand = pushing(wrench)
    c.until("led")
    return c


# The states ---------------------------------------------------------------------------------------


def test_a_touch_without_start_or_before_the_tare_moves_nothing() -> None:
    c = cell()
    c.hand = pushing(FORWARD)
    c.run(2.0)
    assert (c.guide.state, c.command) == ("stopped", None)
    c.guide.start()
    c.run(2.0)
    assert c.guide.reason == "waits for a tare: the tool is touched"
    assert c.command is None
    c.hand = pushing(np.zeros(6))
    c.run(1.0)
    assert c.guide.reason == "waits for a hand on the tool"
    assert np.array_equal(c.q, HOME)


def test_the_tool_follows_the_hand_stands_when_let_go_and_latches() -> None:
    c = led()
    c.run(1.0)
    # (10 N - dead zone of 4 N) / 80 N·s/m, and the noise of the estimate
    assert c.speeds[-1] == pytest.approx(6.0 / 80.0, rel=0.25)
    c.hand = pushing(np.zeros(6))
    c.run(0.2)
    assert max(c.speeds[-3:]) < 0.005
    assert c.until("stopped") <= 0.6
    assert c.guide.reason == "the hand has let go"
    c.hand = pushing(FORWARD)
    c.run(1.0)
    assert (c.guide.state, c.command) == ("stopped", None)
    c.hand = pushing(np.zeros(6))
    c.guide.start()
    c.run(1.0)
    c.hand = pushing(-FORWARD)
    c.until("led")


def test_the_weight_of_what_hangs_on_the_tool_is_tared() -> None:
    weight = np.array([0.0, 0.0, 0.0, 0.0, 0.0, -15.0])
    c = cell()
    c.hand, c.flag = pushing(weight), False
    c.guide.start()
    c.run(2.0)
    assert c.guide.state == "idle"
    c.flag = None
    c.hand = pushing(weight + FORWARD)
    c.until("led")
    c.run(0.5)
    assert c.guide.force[3:] == pytest.approx(FORWARD[3:], abs=1.5)


def pause(c: Cell, seconds: float) -> None:
    """Let the node pause, and the clock of the stamps not."""
    c.now, c.shift = c.now + seconds, c.shift - seconds


FAULTS: dict[str, tuple[Callable[[Cell], Any], str]] = {
    "no verdict": (lambda c: c.silent.add("verdict"), "no verdict about contact"),
    "no level": (lambda c: c.silent.add("level"), "no level and link"),
    "no wrench": (lambda c: c.silent.add("wrench"), "no wrench"),
    "no joint states": (lambda c: c.silent.add("joints"), "no joint states"),
    "elbow": (lambda c: setattr(c, "link", MODEL.joint_links[2]), "not in hand_links"),
    "unknown link": (lambda c: setattr(c, "link", ""), "an unknown link"),
    "collision": (lambda c: setattr(c, "level", "collision"), "collision"),
    "force": (lambda c: setattr(c, "hand", pushing(8.0 * FORWARD)), "force of"),
    "clock back": (lambda c: setattr(c, "shift", -1.0), "jumped"),
    "clock ahead": (lambda c: setattr(c, "shift", 5.0), "jumped"),
    "pause": (lambda c: pause(c, 0.3), "paused"),
    "arm": (lambda c: setattr(c, "frozen", True), "away from its command"),
    "outside": (lambda c: c.guide.fail("parameters changed"), "parameters changed"),
    "service": (lambda c: c.guide.stop("service"), "service"),
}


@pytest.mark.parametrize("arm", ["position", "velocity"])
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_stops_the_arm(fault: str, arm: Any) -> None:
    c = led(1.4 * FORWARD, arm)
    c.run(0.3)
    assert c.speeds[-1] > 0.05
    cause, reason = FAULTS[fault]
    cause(c)
    begin = c.now
    # Joint states that have ended leave it unknown whether the arm rests: up to a second.
    c.until("stopped", 1.6)
    assert reason in c.guide.reason
    assert c.command is None
    assert fault != "arm" or c.now - begin < 1.5
    # Timeout of 0.1 s, ramp of 0.05 s, lag of 0.024 s, force of 50 N through a filter of 0.02 s
    moving = np.count_nonzero(np.array(c.speeds[-round((c.now - begin) / STEP) :]) > 0.005)
    assert moving * STEP < 0.75 if fault == "arm" else moving * STEP < 0.25
    with pytest.raises(InputError):
        cell().guide.play()


@pytest.mark.parametrize(("name", "value"), [("level", "collision"), ("link", "")])
def test_after_a_collision_the_arm_holds_where_it_is(name: str, value: str) -> None:
    """Not at the commanded position, which is ahead by the lag of the drives."""
    c = led(1.4 * FORWARD)
    c.run(0.3)
    setattr(c, name, value)
    c.until("stopping")
    assert c.command is not None
    before = c.q - c.v * STEP  # the joint state that the law had in this step
    assert c.command.q == pytest.approx(before, abs=1e-9)
    assert not c.command.v.any()


def test_a_fault_makes_the_tare_invalid() -> None:
    c = cell()
    c.guide.start()
    c.run(1.0)
    c.silent.add("wrench")
    c.run(0.2)
    assert c.guide.reason.startswith("waits for a tare: no wrench")
    c.silent.clear()
    c.hand = pushing(FORWARD)
    c.run(1.0)
    assert c.guide.state == "idle"


@pytest.mark.parametrize("bad", ["frame", "nan"])
def test_a_wrench_that_is_none_stops(bad: str) -> None:
    c = led()
    frame, value = ("elbow", 0.0) if bad == "frame" else (TOOL, np.nan)
    c.guide.update_wrench(c.now, frame, np.full(6, value), np.eye(6), c.now)
    c.until("stopped", 0.3)
    assert "wrench is" in c.guide.reason


def test_a_hold_without_a_ramp_ends_everything() -> None:
    c = led()
    assert c.guide.end("blocked")
    c.step()
    assert (c.guide.state, c.command) == ("stopped", None)
    assert not c.guide.end("again")
    assert c.guide.reason == "blocked"


@pytest.mark.parametrize("push", [0.7, 1.5, 5.0])
def test_an_arm_that_takes_velocities_must_follow_them(push: float) -> None:
    """Also late, too slowly, and with a hand that goes to and fro."""
    for share in (1.0, 0.8):
        c = led(FORWARD, "velocity", tool_speed=0.3)
        c._waiting.extend([None] * round(0.1 / STEP))
        c.hand = lambda *_, c=c: push * FORWARD * np.sign(np.sin(4.0 * (c.now - 10.0)))
        for _ in range(500):
            c.step()
            if c._waiting[-1] is not None:
                c._waiting[-1] = share * c._waiting[-1]
        assert c.guide.state == "led", c.guide.reason
    c.hand, c.frozen = pushing(push * FORWARD), True
    c.until("stopping", 1.2)


def test_an_arm_that_floats_gets_no_commands() -> None:
    c = led(arm="torque")
    c.hand = pushing(np.zeros(6))
    swing = 0.05 * np.ones(7)
    for _ in range(120):  # the arm floats on, without a force that is felt
        c.step()
        c.q, c.v = c.q + STEP * swing, swing
        assert c.command is None
    assert c.guide.state == "led"
    c.until("stopped", 1.0)
    with pytest.raises(InputError, match="not with output float"):
        c.guide.play()


# Directions and limits ----------------------------------------------------------------------------


@pytest.mark.parametrize("motion", hand_guide.FREE)
def test_locked_directions_stay_locked(motion: str) -> None:
    axis = np.array([1.0, 2.0, 2.0]) / 3.0
    wrench = np.array([2.0, -3.0, 2.5, 8.0, 12.0, -2.0])
    c = led(wrench, motion=motion, axis=tuple(2.0 * axis))
    twists = []
    for _ in range(100):
        c.step()
        assert c.command is not None
        twists.append(c.command.twist)
    angular, linear = np.abs(np.array(twists)).max(axis=0).reshape(2, 3)
    turns = motion in ("free", "rotation")
    assert (angular.max() > 0.05) == turns
    assert (linear.max() > 0.03) == (motion != "rotation")
    mean = np.mean(twists, axis=0)[3:]
    # The damping near singularities leaves the locked directions by 1 % here.
    slack = 0.02 * float(np.linalg.norm(mean))
    if motion == "plane":
        assert abs(axis @ mean) < slack
    if motion == "line":
        assert np.linalg.norm(np.cross(axis, mean)) < slack


@pytest.mark.parametrize("motion", hand_guide.FREE)
def test_the_dead_zone_takes_power_only(motion: str) -> None:
    """With errors of any size; and what is within the errors drives nothing."""
    guide = HandGuide(MODEL, HandGuideParameters(tool_frame=TOOL, motion=motion))
    S, rng = guide.parameters.directions(), np.random.default_rng(3)
    for _ in range(300):
        wrench = rng.normal(scale=[2, 2, 2, 15, 15, 15])
        root = rng.normal(scale=3.0, size=(6, 6))
        drive = guide._drive(wrench, root @ root.T)
        assert wrench @ drive >= 0.0
        assert np.linalg.norm(drive) <= np.linalg.norm(S.T @ wrench) + 1e-9
        assert S @ (S.T @ drive) == pytest.approx(drive)
        inside = root @ rng.normal(size=6)
        inside *= 0.99 / np.sqrt(inside @ np.linalg.solve(root @ root.T, inside))
        assert not guide._drive(inside, root @ root.T).any()


def test_friction_at_rest_widens_the_dead_zone_and_known_friction_does_not() -> None:
    friction = np.full(7, 3.0)
    rough = Cell(
        HandGuide(MODEL, HandGuideParameters(tool_frame=TOOL), friction=friction), flag=True
    )
    smooth = cell()
    for c in (rough, smooth):
        c.flag = False
        c.guide.start()
        c.run(1.0)
        c.flag, c.hand = True, pushing(0.7 * FORWARD)
        c.run(0.5)
    assert (rough.guide.state, smooth.guide.state) == ("idle", "led")
    rough.hand = pushing(3.0 * FORWARD)
    rough.until("led")
    rough.run(0.5)
    rough.hand = pushing(1.5 * FORWARD)
    rough.run(0.5)
    assert rough.speeds[-1] > 0.05


@pytest.mark.parametrize("force", [np.array([20.0, 0, 0]), np.array([0, 20.0, 20.0])])
def test_box_and_speeds_are_kept(force: np.ndarray) -> None:
    start = Cell(HandGuide(MODEL, HandGuideParameters(tool_frame=TOOL))).place
    wrench = np.concatenate([np.zeros(3), 2.0 * force])
    c = led(
        wrench,
        box_lower=tuple(start - 0.1),
        box_upper=tuple(start + 0.05),
        tool_speed=0.1,
        joint_speed=0.1,
    )
    for _ in range(250):
        c.step()
        assert c.speeds[-1] < 0.1 * 1.05
        assert (np.abs(c.v) <= 0.1 * MODEL.velocity_limit * 1.001).all()
        assert (c.place < start + 0.05 + 0.005).all()  # a lag of 24 ms at a falling speed
    assert c.guide.state == "led"
    assert c.place[np.argmax(force)] > start[np.argmax(force)] + 0.03


def test_joints_stop_before_their_limits_and_the_others_continue() -> None:
    c = led(np.array([0.0, 0.0, 0.0, 0.0, 0.0, -40.0]), tool_speed=1.0, largest_force=200.0)
    for _ in range(1000):
        c.step()
        assert (c.q < MODEL.upper_limit - 0.03).all()
        assert (c.q > MODEL.lower_limit + 0.03).all()
    assert np.abs(c.v).max() < 1.0


# Passivity ----------------------------------------------------------------------------------------


def held_stiffly(**changes: Any) -> tuple[float, float, Cell]:
    """Hold the tool with 3000 N/m and hit it; return energy to the hand and speed at the end."""
    c = led(**changes)
    c.run(0.3)
    place = c.place.copy()
    hold = spring(3000.0, 20.0, lambda: place)
    c.hand = lambda x, u: hold(x, u) + 4.0 * FORWARD
    c.run(0.024)
    c.hand = hold
    first = len(c.energy)
    c.run(3.0)
    energy = np.array(c.energy[first:])
    given = float((energy - np.minimum.accumulate(energy)).max())
    return given, float(np.sqrt(np.mean(np.square(c.speeds[-100:])))), c


def test_a_stiff_hand_feels_no_lasting_vibration_and_gets_no_more_than_the_tank() -> None:
    # Too little damping for this hand, and no limit that stops the hit itself.
    given, speed, c = held_stiffly(largest_force=400.0, release_time=10.0, damping=40.0)
    assert given <= c.guide.parameters.tank_capacity
    assert speed < 0.005
    assert c.guide.state == "led"


def test_without_the_tank_the_same_hand_vibrates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof that the test before needs the tank."""
    monkeypatch.setattr(hand_guide.WrenchTank, "add", lambda *_: None)
    given, speed, _ = held_stiffly(largest_force=400.0, release_time=10.0, damping=40.0)
    assert given > 0.5
    assert speed > 0.02


def test_an_empty_tank_gives_nothing_and_refills_by_work() -> None:
    tank = hand_guide.WrenchTank(0.5)
    push, along = np.eye(6)[3] * 10.0, np.eye(6)[3] * 0.1
    for _ in range(200):
        tank.add(-push, along, STEP)
    assert tank.level < 0.0
    assert (tank.share, tank.damping) == (0.0, hand_guide.GAIN)
    for _ in range(1000):
        tank.add(push, along, STEP)
    assert tank.level == tank.capacity
    assert tank.share == 1.0
    assert tank.damping < hand_guide.GAIN


# The led path -------------------------------------------------------------------------------------


def taught(arm: Any = "position") -> Cell:
    c = led(1.5 * FORWARD, arm)
    c.run(2.0)
    c.hand = pushing(np.zeros(6))
    c.until("stopped")
    c.run(0.2)
    return c


@pytest.mark.parametrize("arm", ["position", "velocity"])
def test_the_led_path_is_played_slowly(arm: Any) -> None:
    c = taught(arm)
    path, end = np.array(c.guide.path.points), c.q.copy()
    assert np.abs(path[0] - HOME).max() < 0.01
    assert np.abs(path[-1] - end).max() < 2e-3
    c.guide.play()
    nearest, fastest = np.full(len(path), np.inf), 0.0
    begin = c.now
    while c.guide.state != "stopped":
        assert c.now - begin < 60.0
        c.step()
        nearest = np.minimum(nearest, np.abs(path - c.q).max(axis=1))
        fastest = max(fastest, float(np.abs(c.v).max()))
    assert c.guide.reason == "the path is played"
    assert nearest.max() < 0.01
    # Splines are faster than the mean speed between two points.
    assert fastest < 1.6 * c.guide.parameters.play_speed
    # Velocities lag behind their path.
    assert np.abs(c.q - end).max() < (5e-3 if arm == "position" else 1e-2)


def test_contact_stops_the_played_path_and_elsewhere_it_is_refused() -> None:
    c = taught()
    c.guide.play()
    c.run(0.5)
    c.flag = True
    c.until("stopped", 0.5)
    assert c.guide.reason == "contact"
    c.flag = None
    c.q = c.q + 0.3
    c.step()
    with pytest.raises(InputError, match="joint_3 is 0.32 rad away from the led path.*move it"):
        c.guide.play()


def test_twists_do_not_play_a_path_of_seven_joints() -> None:
    c = taught("twist")
    with pytest.raises(InputError, match="not with output twist"):
        c.guide.play()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"axis": (0.0, 0.0, 0.0)}, "axis"),
        ({"box_lower": (0.0, 0.0, 0.0)}, "box"),
        ({"box_lower": (0.0, 0.0, 1.0), "box_upper": (1.0, 1.0, 1.0)}, "below"),
    ],
)
def test_impossible_parameters(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        HandGuideParameters(tool_frame=TOOL, **changes)


@pytest.mark.parametrize("changes", [{}, {"tool_frame": "no"}, {"tool_frame": MODEL.root_link}])
def test_impossible_links(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        HandGuide(MODEL, HandGuideParameters(**changes))
