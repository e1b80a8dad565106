"""Hard bounds of the speed and of learned parameters."""

from __future__ import annotations

import numpy as np
import pytest
from control_loop import HOME, SCRIPTED, STILL, Loop, started
from lone_check import LoneWatch

from rbd_control.control import Command, ControllerParameters
from rbd_control.control.limits import ArmLimits
from rbd_control.control.safe_torque import LATEST, PROBE
from rbd_control.control.watches import OVERSPEED_TIME, Overspeed
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.simulation import arm7_urdf

SHIPPED = ControllerParameters()


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def watched(model: Model, speeds: list[float], dt: float = 0.001) -> int | None:
    """Return the sample at which joint 1 with these speeds, in velocity limits, is a fault."""
    limits = ArmLimits.of(model, ControllerParameters())
    watch = LoneWatch(Overspeed, model, overspeed=limits.overspeed)
    v = STILL.copy()
    for k, speed in enumerate(speeds):
        v[0] = speed * model.velocity_limit[0]
        if watch.take(dt=dt, v=v):
            return k
    return None


def test_a_speed_that_lasts_is_a_fault_and_a_recoil_is_not(model: Model) -> None:
    assert watched(model, [1.9] * 1000) is None
    assert watched(model, [2.1] * 1000) == pytest.approx(1000 * OVERSPEED_TIME, abs=1)
    assert watched(model, ([-4.0] * 10 + [0.5] * 100) * 10) is None
    assert watched(model, [2.1] * 5, dt=0.033) == 0


def test_an_oscillating_joint_is_too_fast(model: Model) -> None:
    """Its speed falls below the limit in each of its swings."""
    k = watched(model, list(5.0 * np.sin(2.0 * np.pi * np.arange(1000) / 30.0)))
    assert k is not None
    assert k < 60


@pytest.mark.parametrize("mode", ["hold", "float"])
def test_too_fast_is_safe_and_braked(model: Model, mode: str) -> None:
    """Joint states are good, so the arm is braked, not let go."""
    controller = started(model, ControllerParameters(**SCRIPTED))
    if mode == "float":
        controller.modes.order("float")
    v, q = np.array([5.0, 0, 0, 0, 0, 0, 0]), HOME.copy()
    modes: list[Command] = []
    for k in range(1, 60):
        q = q + 0.001 * v
        modes.append(controller.update(0.001 * k, q, v))
    first = [command.mode for command in modes].index("safe")
    assert 18 <= first <= 22
    assert "joint_1 at 5 is too fast: above 4 for 0.0" in modes[-1].reason
    assert (modes[-1].torque - gravity_torque(model, q))[0] < -1.0


def test_an_arm_that_comes_free_under_load_stays_below_twice_its_speed_limits(
    model: Model,
) -> None:
    """Brakes that close for want of commands hold it off its path, then open at full torque."""
    random = np.random.default_rng(0)
    for _ in range(6):
        loop = Loop(model, timeout=1.0)
        loop.follow(HOME + random.uniform(-0.6, 0.6, 7), 1.0)
        loop.run(0.3)
        loop.arm._command = None  # the brakes are closed at once
        for _ in range(400):
            sample = loop.arm.reading()
            assert sample is not None
            loop.controller.update(sample.stamp, sample.q, sample.v, effort=sample.tau)
            loop.arm.step(None)
        fastest: list[float] = []
        loop.run(1.0, lambda command, fastest=fastest, loop=loop: fastest.append(
            float((np.abs(loop.arm.v) / model.velocity_limit).max())
        ))  # fmt: skip
        assert max(fastest) < 2.0


@pytest.mark.parametrize("rate", [1000.0, 500.0, 100.0])
@pytest.mark.parametrize("joint", [0, 1, 3])
def test_an_arm_far_beyond_its_limits_is_braked(model: Model, joint: int, rate: float) -> None:
    """Somebody drives a joint with its effort limit to eight velocity limits.

    Its samples were refused as implausible, and the torque was zero. It is zero for a moment now,
    to find out whether the motors drive the arm themselves.
    """
    loop = Loop(
        model,
        simulated={"rate": rate, "substeps": 8, "velocity_from_encoder": False},
        bandwidth=(4.0,),
        damping_rate=8.0,
        timeout=0.1,
    )
    loop.run(0.2)
    drive = model.effort_limit * (np.arange(7) == joint)
    braked, without, fastest = 0, 0, 0.0
    for _ in range(round(0.25 * rate)):
        sample = loop.arm.reading()
        assert sample is not None
        command = loop.controller.update(sample.stamp, sample.q, sample.v)
        speed = float((np.abs(loop.arm.v) / model.velocity_limit).max())
        fastest = max(fastest, speed)
        braked += speed > SHIPPED.implausible_speed and command.mode == "safe"
        without += command.mode == "safe" and not command.torque.any()
        is_driven = fastest < 8.0 or loop.controller.watches.is_probing
        loop.arm.step(drive if is_driven else command.torque)
    assert fastest > 8.0
    assert command.mode == "safe"
    assert command.torque.any(), command.reason
    assert braked > 0
    assert without / rate <= 2.0 * (LATEST + PROBE) + 3.0 / rate  # asked twice at most


@pytest.mark.parametrize("links", [(), ("all",)])
def test_no_joint_state_teaches_more_than_the_expected_payload(
    model: Model, links: tuple[str, ...]
) -> None:
    """A former version learned 42 kg with a largest_payload_mass of 3."""
    parameters = ControllerParameters(
        adaptive=True,
        adapted_links=links,
        largest_payload_mass=3.0,
        learning_rate=1000.0,
        torque_rate=(1e9,),
        overspeed_factor=4.9,
        contact_reaction="none",
        implausible_jump=10.0,
        **SCRIPTED,
    )
    controller = started(model, parameters)
    learned = controller.law.adaptive
    assert learned is not None
    random = np.random.default_rng(0)
    most = 3.0 * (len(links) and 7 or 1)
    rows = [model.link_index(x.link) for x in learned.estimates.links]
    described = model.arrays.mass[rows].sum()
    farthest = 0.0
    for k in range(1, 1500):
        q = HOME + 0.02 * random.uniform(-1.0, 1.0, 7)
        v = 0.2 * random.uniform(-1.0, 1.0, 7) + 0.3 * np.sin(0.01 * k)
        command = controller.update(0.001 * k, q, v)
        assert -described <= learned.payload <= most + 1e-9
        farthest = max(farthest, abs(learned.payload))
        if command.mode == "safe":  # a torque that swings like this is a fault
            controller.resume()
    assert farthest > 0.5
