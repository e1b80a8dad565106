"""Velocities that contradict the positions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from control_loop import HOME, SHIPPED, STILL, Loop
from lone_check import LoneCheck
from robots import REAL_PANDA
from scipy.signal import butter, lfilter

from rbd_control.control import Command, PassivityController
from rbd_control.control.velocity_match import Contradictory
from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.playback.recording import read_recording
from rbd_control.simulation import arm7_urdf

Array = np.ndarray


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


class WrongLoop(Loop):
    """A controller that receives distorted velocities of a simulated arm."""

    fastest = 0.0
    """Largest speed before mode safe [rad/s]."""
    repeats = 1
    """Number of joint states after which the hardware has new values."""

    def distort(self, time: float, wrong: Callable[[Array], Array]) -> list[Command]:
        """Run; return the commands."""
        commands = []
        for k in range(round(time * self.rate)):
            sample = self.arm.reading()
            assert sample is not None
            assert sample.v is not None
            if k % self.repeats == 0:
                q, v = sample.q, wrong(sample.v)
            commands.append(self.controller.update(sample.stamp, q, v, effort=sample.tau))
            self.arm.step(commands[-1].torque)
            if commands[-1].mode != "safe":
                self.fastest = max(self.fastest, float(np.abs(self.arm.v).max()))
        return commands


WRONG: dict[str, Callable[[Array], Array]] = {
    "sign": np.negative,
    "order": lambda v: v[::-1].copy(),
    "zero": np.zeros_like,
    "constant": lambda v: np.full_like(v, 0.3),
}


@pytest.mark.parametrize(("kind", "repeats"), [*((kind, 1) for kind in WRONG), ("sign", 10)])
def test_velocities_that_contradict_the_positions_drive_no_arm(
    model: Model, kind: str, repeats: int
) -> None:
    """The arm was driven to 18 rad/s, and on in mode safe, and so by repeated samples."""
    loop = WrongLoop(model, **(SHIPPED if repeats > 1 else {}))
    loop.repeats = repeats
    loop.follow(HOME + 0.1 * np.arange(1.0, 8.0), 1.0)
    loop.run(0.5)
    before = np.abs(loop.arm.v).max()
    commands = loop.distort(0.06 if repeats == 1 else 0.4, WRONG[kind])
    modes = [command.mode for command in commands]
    assert modes[-1] == "safe"
    assert "contradicts its positions" in commands[-1].reason
    assert not commands[-1].torque.any()
    # Wrong from one sample to the next, at full speed; it would have been tens of rad/s.
    assert repeats > 1 or loop.fastest < 2.5 * before
    # A swinging arm turns back, and wrong velocities match for a moment.
    for command in loop.distort(2.0, WRONG[kind]):
        assert not command.torque.any()


@pytest.mark.parametrize("kind", ["sign", "order", "zero"])
def test_a_driver_that_is_wrong_from_the_start_moves_the_arm_hardly(
    model: Model, kind: str
) -> None:
    """Noticed within 0.1 rad and below the speed of the trajectory that is asked for."""
    loop = WrongLoop(model)
    start = loop.arm.q.copy()
    loop.follow(HOME + np.array([0.6, 0.0, 0.0, 0.0, 0.0, 0.0, -0.3]), 1.0)
    modes = []
    for _ in range(50):
        modes += [command.mode for command in loop.distort(0.01, WRONG[kind])]
        if modes[-1] == "safe":
            break
    assert modes[-1] == "safe"
    assert np.abs(loop.arm.q - start).max() < 0.1
    assert loop.fastest < 1.1


def test_messages_that_come_twice_do_not_hide_a_contradiction() -> None:
    match = LoneCheck(Contradictory)
    reasons = [
        match.take(0.001 * (k // 2), np.array([0.001 * (k // 2)]), np.array([-1.0]))
        for k in range(40)
    ]
    assert reasons[-1]


def filtered(constant: float) -> Callable[[Array], Array]:
    """Return a low-pass filter of velocities at 1 kHz with a time constant [s]."""
    state = np.zeros(7)

    def low_pass(v: Array) -> Array:
        state[:] += (v - state) * 0.001 / constant
        return state.copy()

    return low_pass


@pytest.mark.parametrize(
    "near",
    [lambda v: 1.2 * v, lambda v: v + 0.03, filtered(0.01), lambda v: v * (np.abs(v) > 0.03)],
    ids=["scale", "bias", "filter", "dead band"],
)
def test_velocities_that_nearly_match_are_taken(
    model: Model, near: Callable[[Array], Array]
) -> None:
    """Sensors of real arms: 20 %, 0.03 rad/s, 10 ms."""
    loop = WrongLoop(model)
    loop.follow(HOME + 0.8, 0.8)
    commands = loop.distort(2.0, near)
    assert {command.reason for command in commands} == {""}


@pytest.mark.parametrize(("factor", "contradicts"), [(1.0, False), (0.8, False), (-1.0, True)])
def test_velocities_of_a_real_arm_match_its_positions(factor: float, contradicts: bool) -> None:
    """A Panda at 30 Hz, whose velocities are 18 ms late."""
    messages = list(read_recording(REAL_PANDA, "joint_states").messages())
    match = LoneCheck(Contradictory, tuple(messages[0].name))
    reasons = {
        match.take(x.stamp, np.array(x.position), factor * np.array(x.velocity)) for x in messages
    }
    assert (reasons != {""}) == contradicts


@pytest.mark.parametrize("rate", [1000, 200, 30])
def test_a_collision_is_no_contradiction(rate: int) -> None:
    """The joint stops, or turns back, at any time between two samples."""
    for part in np.linspace(0.0, 1.0, 11):
        match = LoneCheck(Contradictory)
        for k in range(-rate, rate):
            time = (k + part) / rate
            q, v = (2.0 * time, 2.0) if time < 0.0 else (-0.8 * time, -0.8)
            assert match.take(k / rate, np.array([q]), np.array([v])) == ""


@pytest.mark.parametrize("stall", [0.01, 0.03, 0.045])
@pytest.mark.parametrize("speed", [0.3, 2.0])
def test_messages_that_had_to_wait_for_their_stamps_are_no_contradiction(
    stall: float, speed: float
) -> None:
    """Drivers stamp when they publish; on a busy computer some messages come late, in a burst."""
    match = LoneCheck(Contradictory)
    for k in range(3000):
        measured = 0.002 * k
        begin = 0.5 * np.floor(measured / 0.5)  # twice a second the driver stands still
        late = begin + stall + 1e-5 * (measured - begin)
        stamp = max(measured, late) if begin else measured
        q = np.array([speed * measured])
        assert match.take(stamp, q, np.array([speed])) == "", k


@pytest.mark.parametrize("rate", [4000, 1000])
def test_lost_joint_states_are_no_contradiction(rate: int) -> None:
    """A busy machine loses joint states of a light wrist that swings at 60 Hz meanwhile."""
    random = np.random.default_rng(0)
    match = LoneCheck(Contradictory)
    until = 0.0
    for k in range(5 * rate):
        time = k / rate
        if time >= until and random.random() < 80.0 / rate:
            until = time + random.uniform(0.005, 0.045)
        if time < until:
            continue
        w = 120.0 * np.pi
        q, v = 6.0 / w * np.sin(w * time), 6.0 * np.cos(w * time)
        assert match.take(time, np.array([q]), np.array([v])) == "", time


@pytest.mark.parametrize(("after", "names"), [(0.02, True), (0.3, False)])
def test_a_contradiction_after_a_gap_names_lost_joint_states(after: float, names: bool) -> None:
    match = LoneCheck(Contradictory)
    reason = ""
    for k in range(1000):
        time = 0.001 * k + (0.04 if k > 500 else 0.0)
        v = -1.0 if time > 0.54 + after else 1.0
        reason = match.take(time, np.array([time]), np.array([v])) or reason
    assert reason.startswith("joint states were lost or came late, for 0.041 s: the ") == names
    assert "the velocity of joint contradicts its positions" in reason
    assert ("check the machine and the network, then its sign" in reason) == names


def test_wrapping_gaps_and_jumps_of_the_clock_are_no_contradiction() -> None:
    match = LoneCheck(Contradictory, ("spin",), turn=2.0 * np.pi)
    stamp, q = 0.0, 3.0
    for k in range(2000):
        dt = 0.001 if k % 100 else 0.09
        stamp, q = stamp + dt, q + 1.5 * dt
        if k % 500 == 499:
            stamp -= 1.0
        if k % 500 == 250:
            stamp += 5.0
        reported = np.array([(q + np.pi) % (2.0 * np.pi) - np.pi])
        assert match.take(stamp, reported, np.array([1.5])) == ""


def test_what_was_contradictory_is_trusted_again_after_half_a_second() -> None:
    match = LoneCheck(Contradictory)
    stamp, q, since = 0.0, 0.0, None
    for k in range(1500):
        stamp, q = stamp + 0.001, q + 0.001
        v = np.array([-1.0 if k < 100 else 1.0])
        reason = match.take(stamp, np.array([q]), v)
        if k >= 100 and not reason and since is None:
            since = k - 100
    assert since is not None
    assert 499 <= since <= 700


def test_no_tolerance_accepts_everything_at_once() -> None:
    match, reasons = LoneCheck(Contradictory), []
    for k in range(999):
        if k == 100:
            match.settings.arm["velocity_mismatch"] = 0.0
        reasons.append(match.take(0.001 * k, [0.001 * k], [-9.0]))
    assert reasons[99]
    assert not any(reasons[100:])


FINE = 1e-4
"""Period of the signals that are filtered and then sampled [s]."""

TIME = np.arange(0.0, 1.5, FINE)
"""Something happens at 1 s."""


def first_order(v: Array, late: float) -> Array:
    pole = np.exp(-FINE / late)
    return np.asarray(lfilter([1.0 - pole], [1.0, -pole], v))


def mean(v: Array, late: float) -> Array:
    """Return the difference of positions over twice the delay, as encoders without tachometer."""
    n = round(2.0 * late / FINE)
    return np.asarray(lfilter(np.full(n, 1.0 / n), [1.0], v))


def second_order(v: Array, late: float) -> Array:
    return np.asarray(lfilter(*butter(2, np.sqrt(2.0) / late, fs=2.0 * np.pi / FINE), v))


def delayed(v: Array, late: float) -> Array:
    return np.concatenate([np.zeros(round(late / FINE)), v])[: v.size]


AFTER = np.maximum(TIME - 1.0, 0.0)
BEFORE = TIME < 1.0
CRUISE = np.where(BEFORE, np.minimum(4.0 * TIME, 2.0), 0.0)
MOTIONS = {
    "stop": CRUISE + 2.0 * ~BEFORE * np.clip(1.0 - AFTER / 0.05, 0.0, 1.0),
    "collision": CRUISE - 0.6 * ~BEFORE,
    "blow": 5.0 * ~BEFORE * np.exp(-AFTER / 0.03),
    "blow that rings": 3.0 * ~BEFORE * np.exp(-AFTER / 0.05) * np.cos(125.0 * AFTER),
    "push": 5.0 * np.where(AFTER < 0.03, AFTER / 0.03, np.exp((0.03 - AFTER) / 0.03)),
}
"""Speed of a joint [rad/s]."""


@pytest.mark.parametrize("rate", [1000, 500, 125])
@pytest.mark.parametrize(
    ("filtering", "late"),
    [
        *((kind, late) for kind in (first_order, mean) for late in (0.007, 0.02)),
        *((kind, late) for kind in (second_order,) for late in (0.007, 0.015)),
        (delayed, 0.004),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_pushes_and_stops_with_late_velocities_are_no_contradiction(
    filtering: Callable[[Array, float], Array], late: float, rate: int
) -> None:
    """Velocities of a UR are 7 ms late, and an arm that was pushed got zero torque."""
    for speed in MOTIONS.values():
        q, v = np.cumsum(speed) * FINE, filtering(speed, late)
        match = LoneCheck(Contradictory)
        for k in range(0, q.size, round(1.0 / (rate * FINE))):
            assert match.take(TIME[k], q[[k]], v[[k]]) == ""


@pytest.mark.parametrize("late", [0.007, 0.015])
@pytest.mark.parametrize("direction", np.eye(3), ids="xyz")
def test_an_arm_with_filtered_velocities_can_be_pushed(
    model: Model, late: float, direction: Array
) -> None:
    """60 N for 50 ms on an arm that holds: it must go on holding."""
    loop = Loop(
        model,
        simulated={"velocity_cutoff": 1.0 / (2.0 * np.pi * late)},
        bandwidth=(10.0,),
        damping_rate=20.0,
    )
    loop.run(0.2)
    loop.arm.push("tool", 60.0 * direction, duration=0.05)
    loop.run(0.4)
    assert loop.controller.mode == "hold"


@pytest.mark.parametrize("factor", [-100.0, 30.0, 100.0])
@pytest.mark.parametrize("joint", [0, 3])
def test_velocities_of_the_motor_side_are_named_before_the_arm_is_fast(
    model: Model, factor: float, joint: int
) -> None:
    """They are implausible too; with joint states at 100 Hz the arm reached 7 rad/s."""
    loop = WrongLoop(
        model,
        simulated={"rate": 100.0, "substeps": 40},
        bandwidth=(10.0,),
        damping_rate=20.0,
        timeout=0.1,
    )
    scale = np.ones(model.nv)
    scale[joint] = factor
    loop.follow(HOME + 0.3, 1.0)
    commands = loop.distort(0.6, lambda v: scale * v)
    assert commands[-1].mode == "safe"
    assert "contradicts its positions" in " ".join(command.reason for command in commands)
    assert loop.fastest < 2.5


def test_the_cause_of_zero_torque_is_given_beside_that_of_the_mode(model: Model) -> None:
    loop = WrongLoop(model)
    loop.follow(HOME + 0.3, 1.0)
    loop.run(0.3)
    loop.controller.modes.fault("another fault")
    commands = loop.distort(0.1, np.negative)
    assert commands[-1].reason.startswith("another fault; zero torque now: the velocity of joint_")
    with pytest.raises(InputError, match="no valid joint states .the velocity of joint_"):
        loop.controller.resume()


def test_a_position_that_repeats_while_its_velocity_does_not(model: Model) -> None:
    """Encoder and velocity may come from different sensors."""
    loop = Loop(model)
    loop.follow(HOME + 0.5, 1.0)
    loop.run(0.5)
    stuck, begin, modes = loop.arm.q.copy(), loop.arm.q[0], []
    for _ in range(100):
        sample = loop.arm.reading()
        assert sample is not None
        q = sample.q.copy()
        q[0] = stuck[0]
        command = loop.controller.update(sample.stamp, q, sample.v, effort=sample.tau)
        loop.arm.step(command.torque)
        modes.append(command.mode)
        if command.mode != "safe":
            moved = abs(loop.arm.q[0] - begin)
    assert "the velocity of joint_1 contradicts its positions" in command.reason
    assert modes.index("safe") < 40
    assert moved < 0.05  # with zero torque it rolls on
    assert not command.torque.any()


def test_a_coarse_encoder_and_a_biased_velocity_do_not_contradict(model: Model) -> None:
    """Steps of 1e-3 rad, and velocities that are wrong by 0.03 rad/s at rest."""
    controller = PassivityController(model)
    random = np.random.default_rng(0)
    controller.start(0.0, HOME, STILL)
    for k in range(1, 3000):
        v = 0.03 + 0.01 * random.normal(size=7)
        q = HOME + 1e-3 * np.round(0.01 * np.sin(0.002 * k) / 1e-3)
        command = controller.update(0.001 * k, q, v)
        assert (command.mode, command.reason) == ("hold", "")
