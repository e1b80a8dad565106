"""`make robots` for some seconds, its plants, and its account of energy."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from robots import urdf_path

pytest.importorskip("mujoco")

from rich.console import Console

from bench.robots.__main__ import write
from bench.robots.energy import EnergyAfterFault, Reading
from bench.robots.failures import BEFORE, Failure, Outcome, fail, failures, standstill
from bench.robots.motion import Reference
from bench.robots.plant import Plant, make_plant
from bench.robots.robots import ROBOTS, Robot
from bench.robots.session import Session
from bench.robots.stops import Stops
from bench.robots.study import Results, is_excessive, is_wrong
from bench.robots.tracking import Tracking
from bench.robots.use import ordinary


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


def test_springs_deflect_by_the_weight() -> None:
    plant = make_plant("panda_elastic_link", 0)
    plant.advance(0.1)
    deflection = plant.state.theta - plant.state.q
    # About 19 N·m at the elbow, on 10,000 N·m/rad; the arm stays where it was.
    assert 0.001 < np.abs(deflection).max() < 0.003
    np.testing.assert_allclose(plant.state.q, plant.arm.centre, atol=1e-6)


def test_a_healthy_arm_has_no_fault() -> None:
    use = ordinary(ROBOTS["panda"], 8.0)
    assert use.faults == []
    assert sum(use.activities.values()) >= 2


def test_the_wrists_of_a_ur_do_not_hunt() -> None:
    """Gains for links without rotors were too low for the friction: 1.8 times the speed limit."""
    plant = make_plant("ur10", 0)
    motion = Reference.random(plant, np.random.default_rng(4000), 4.0, 0.5)
    session, fastest = Session(plant), np.zeros(6)

    def watch(_: Session) -> None:
        np.maximum(fastest, np.abs(plant.state.v), out=fastest)

    assert session.follow(motion.sampled())
    session.watch = watch
    session.run(motion.times[-1])
    assert session.fault is None
    assert (fastest <= 0.75 * plant.arm.model.velocity_limit).all()  # half of it was ordered


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


def test_own_gravity_compensation_leaves_gravity_no_work() -> None:
    """An arm that compensates its gravity may sink at zero torque, but not become faster."""
    account = EnergyAfterFault(_reading(height=10.0))
    now = _reading(motion=0.5, height=6.0, own_gravity=-4.0)
    account.add(now, 0.001, has_arrived=True)
    account.add(now, 0.001, has_arrived=True)
    assert account.excess == pytest.approx(0.5)


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


def test_a_fault_before_the_failure_says_nothing_about_the_failure() -> None:
    missing = Outcome("panda", "cable pulled", "motion", True, np.nan, "")
    assert is_wrong(missing)
    assert not is_wrong(replace(missing, ends=BEFORE, reason="joint 1 at 5 is too fast"))


def test_standstill() -> None:
    times = np.arange(5.0)
    assert standstill(times, np.array([[1.0], [0.0], [0.5], [0.01], [0.0]])) == 3.0
    assert standstill(times, np.zeros((5, 1))) == 0.0
    assert standstill(times, np.ones((5, 1))) == np.inf


def test_tables(tmp_path: Path) -> None:
    """The tables fit into 100 columns, and the files have all results."""
    outcomes = [
        Outcome("ur5", one.name, at, one.expected, 0.123, "joint 1 at 5 is too fast", 12.34, 5.0)
        for one in failures(7)
        for at in one.at
    ]
    outcomes = [replace(one, speed=12.34, stop=np.inf, ends="floats") for one in outcomes]
    found = Results(
        [ordinary(ROBOTS["ur5"], 1.0)],
        [Tracking("ur5", 0.01, "", 0.02, (20.0, 40.0))],
        [Stops("ur5", 0.1, 0.2, 0.3, np.inf, 0.5)],
        outcomes,
    )
    console = Console(file=StringIO(), width=100)
    write(found, tmp_path, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "wires 6, 7 swapped" in text
    assert "…" not in text
    assert "mrad" in text  # units in brackets would be markup for the console
    assert json.loads((tmp_path / "robots.json").read_text())["outcomes"][0]["robot"] == "ur5"
