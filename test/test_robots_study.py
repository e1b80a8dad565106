"""`make robots` for some seconds, its plants, and its account of energy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from robots import urdf_path

pytest.importorskip("mujoco")


from bench.hand_guide import HANDS, HOLD, lead_in_torques
from bench.robots.energy import EnergyAfterFault, Reading
from bench.robots.failures import Failure, fail, failures
from bench.robots.false_contacts import false_contacts
from bench.robots.plant import Plant
from bench.robots.robots import ROBOTS, Robot
from bench.robots.session import Session
from bench.robots.study import is_excessive, is_wrong


@pytest.fixture(scope="module", autouse=True)
def published() -> None:
    """Skips where the arms' descriptions are absent."""
    urdf_path("panda")


def _free(robot: Robot) -> Plant:
    """Return a plant without motors, friction and losses of springs, far from its stops."""
    plant = Plant(replace(robot, compensates_gravity=False, compensated_friction=(0.0, 0.0)), 0)
    none, far = np.zeros(plant.arm.model.nv), np.full(plant.arm.model.nv, 100.0)
    plant.joints = plant.joints._replace(
        coulomb=none, viscous=none, damping=none, lower=-far, upper=far
    )
    plant.start(plant.arm.centre)
    plant.send(none)
    return plant


@pytest.mark.parametrize("name", ["panda", "panda_elastic_link", "iiwa_elastic_motor"])
def test_a_free_arm_keeps_its_energy(name: str) -> None:
    """The sum of all energies changes by less than the study tolerates.

    Half a second of free fall gives the arm about 30 J, thirty times the energy of half speed.
    """
    plant = _free(ROBOTS[name])
    before = Reading.of(plant)
    plant.advance(0.5)
    after = Reading.of(plant)
    held = after.commanded - before.commanded  # until the command of zero torque arrives
    change = after.motion + after.height - before.motion - before.height - held
    assert after.motion > 10.0
    assert abs(change) < 0.01 * after.motion


def _reading(**energies: float) -> Reading:
    values = {"motion": 0.0, "height": 0.0, "commanded": 0.0, "own_gravity": 0.0, "people": 0.0}
    return Reading(**(values | energies))


def test_energy_after_a_fault() -> None:
    """A constructed fault: each kind of work excuses as much energy as it is, and no more."""
    account = EnergyAfterFault(_reading(motion=1.0, height=10.0))
    # On its way: the motors did 2 J, of which 0.5 J lifted the arm.
    account.add(_reading(motion=2.5, height=10.5, commanded=2.0), 0.001, has_arrived=True)
    assert account.excess == pytest.approx(0.0, abs=1e-12)
    # A hand did 1 J; the motors drove the arm by 3 J.
    now = _reading(motion=6.5, height=10.5, commanded=5.0, people=1.0)
    account.add(now, 0.001, has_arrived=True)
    assert account.excess == pytest.approx(3.0)
    # The arm falls at zero torque by 4 J: no further excess.
    now = _reading(motion=10.5, height=6.5, commanded=5.0, people=1.0)
    account.add(now, 0.001, has_arrived=True)
    assert account.excess == pytest.approx(3.0)


def test_drives_that_all_reverse_after_a_fault_get_no_torque() -> None:
    """Drives with negative gain turn the brake of the safe torque into a push.

    The fault comes at a known time, from a healthy arm in motion; then all drives reverse.
    """

    def provoke(session: Session, rng: np.random.Generator) -> None:
        session.provoke_tracking_fault()
        session.plant.failures.gain[:] = -1.0

    reversed_drives = fail(ROBOTS["panda"], Failure("reversed", provoke, expected=True), "motion")
    healthy = next(one for one in failures(7) if one.name == "tracking limit")
    braked = fail(ROBOTS["panda"], healthy, "motion")
    for outcome in (reversed_drives, braked):
        assert outcome.after <= 2 * ROBOTS["panda"].period
        assert not is_wrong(outcome)
    assert reversed_drives.is_zero
    assert not is_excessive(reversed_drives)
    assert is_excessive(replace(reversed_drives, excess=5.0))
    assert not is_excessive(braked)
    assert braked.speed < 1.0
    assert braked.stop < 2.0


def test_stops_and_retreats_are_no_contact() -> None:
    """The motions of the calibration contain none; without the errors the first stop is a contact.

    `python -m bench.robots.false_contacts` has 10 minutes of three robots.
    """
    stops = {"order in motion": 1.0}
    found = false_contacts(ROBOTS["panda_franka"], 20.0, seed=0, calibration=40.0, motions=stops)
    assert found.events == ()
    assert found.highest < 1.0
    assert 0.0003 < found.parameters.delay_error < 0.01


def test_a_motor_that_drives_a_joint_whose_own_command_is_zero_gets_none() -> None:
    """Swapped wires: joint 3 was named alone, and the torque of joint 2 drove it for 0.35 s."""
    wires = next(each for each in failures(7) if each.name == "wires 2, 3 swapped")
    found = fail(ROBOTS["gen3"], wires, "start")
    assert found.is_zero
    assert "gen3_joint2 moves against its torque" in found.reason
    # 19 J before. What is left comes from the first 50 ms, in which nothing is sure yet.
    assert found.excess < 3.0


@pytest.mark.parametrize("hold", [0.0, HOLD], ids=["let go", "held"])
def test_a_hand_leads_a_floating_panda(hold: float) -> None:
    """A hand of 20 Hz, the stiffest; `python -m bench.hand_guide` has all."""
    led = lead_in_torques(HANDS[-1], 1, hold)
    assert led.reason == "float"
    assert led.force < 15.0
    assert led.given < 0.5
    assert led.vibration < 0.005 or not hold
    assert led.standing < 0.2
