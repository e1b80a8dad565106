"""Defects that the state machines found, each in the fewest steps that show it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.mutations.defects import DEFECTS
from rbd_control.control import ControllerParameters, PassivityController, TrajectoryPoint
from rbd_control.dynamics import gravity_torque
from stateful.arms import make_arm
from stateful.controller_machine import ControllerMachine
from stateful.detector_machine import DetectorMachine
from stateful.detector_rig import PERIOD
from stateful.plant import STOPS_BEYOND
from stateful.promises import RETREAT_STOPPED, RETREATED, BrokenPromise
from stateful.setup import Setup

RIGID: dict[str, Any] = {"resonance": 0.0, "loop_delay": 0.0, "damping": (0.3,), "bias_rate": 0.0}
"""Parameters of a rigid arm without delay, which bears stiff gains."""

STIFF: dict[str, Any] = {"bandwidth": (40.0,), "damping_rate": 80.0, **RIGID}


def test_no_fault_without_a_cause_on_an_arm_that_rests_with_a_speed_of_rounding() -> None:
    # A simulated arm without noise ends where q + v dt == q, with v of this size, for ever.
    arm = make_arm("pendulum")
    q, v = arm.home, np.array([0.0, 6e-17])
    effort = gravity_torque(arm.model, q)
    controller = PassivityController(arm.model, ControllerParameters())
    controller.start(0.0, q, v)
    for k in range(1, 60):
        command = controller.update(0.001 * k, q, v, 0.001 * k, effort)
    assert command.mode == "hold", command.reason


def test_a_joint_without_load_is_believed_again_after_frozen_joint_states() -> None:
    # The residual of a push before them stood still, and its effort of zero was taken for missing.
    machine = DetectorMachine()
    machine.begin(arm="crane", amplitude=0.0)
    for _ in range(8):
        machine.long_clean()
    rig = machine.rig
    rig.change(replace(rig.single.parameters, repeated_time=0.149))
    machine.touch(joint=0, factor=-2.5)
    machine.freeze(count=100)
    rig.change(replace(rig.single.parameters, observer_gain=(77.6,)))
    machine.long_clean()
    assert rig.single.update(rig.time + PERIOD, *(x[0] for x in rig.states(1)[1:])).valid


def test_a_clock_that_goes_back_after_a_replaced_stamp_is_no_contact() -> None:
    # Each old message counted twice, and never as one of several in order: all were dropped, until
    # the stamps were in order again and the motion of 50 ms seemed to take one period.
    machine = DetectorMachine()
    machine.begin(arm="crane", amplitude=0.2)
    for _ in range(4):
        machine.long_clean()
    machine.harmful(kind="a replaced stamp")
    machine.jump_in_time(seconds=-0.05)
    machine.long_clean()


def test_limits_that_stay_open_behind_the_arm_are_noticed() -> None:
    # Random examples seldom start beyond a limit, come back and lead out again.
    opened = next(defect for defect in DEFECTS if defect.number == 10)
    with opened.put_back(), pytest.raises(BrokenPromise, match="position_limits_close_behind"):
        leave_and_come_back()
    leave_and_come_back()


def leave_and_come_back() -> None:
    """Start 0.3 rad beyond a limit, move back by 0.2 rad, and ask for 0.15 rad outwards."""
    machine = ControllerMachine()
    machine.begin(setup=Setup(make_arm("pendulum"), {}, start=(2.3, 0.8)))
    machine.run(seconds=0.3)
    for target in (2.1, 2.25):
        machine._follow([TrajectoryPoint([target, 0.8], time_from_start=2.5)])
        machine.run(seconds=3.0)
    machine.teardown()
    assert abs(machine.rig.q[0] - 2.1) < 0.01


def test_a_stop_before_a_retreat_may_last_longer_if_joint_states_are_missing() -> None:
    # 0.15 s of the stop of 0.25 s had passed; the desired speed then stood for the rest of it.
    machine = ControllerMachine()
    parameters = {"timeout": 0.2, "stop_time": 0.25}
    machine.begin(setup=Setup(make_arm("crane"), parameters, start=(0.3, 0.4, 0.2)))
    machine.run(seconds=0.3)
    machine.retract(force=(-1.0, -1.0, -1.0, -1.0), link=0, seconds=0.6)
    machine.retract(force=(-1.0, -1.0, -1.0, -1.0), link=0, seconds=0.15)
    assert machine.rig.orders.pauses
    machine.silence(seconds=0.15)
    assert machine.rig.orders.pauses
    machine.run(seconds=0.3)
    assert not machine.rig.orders.pauses
    machine.teardown()


def test_a_retreat_may_be_stopped_in_the_cycle_in_which_it_begins() -> None:
    # Joint states were 0.11 s late, and showed the arm far from where the stop had ended.
    machine = ControllerMachine()
    machine.begin(
        setup=Setup(make_arm("elbow", "none", 0), STIFF, period=0.005, start=(0.2, 0.6, 0.7, 0.4))
    )
    machine.jump_in_time(seconds=1e6)
    machine.tell(verdict=True)
    machine.fall_behind(by=0.01, slowly=True)
    machine.fall_behind(by=0.1, slowly=False)
    force = (-1.0, -1.0, 0.94, -1.0)
    machine.stop_a_retraction(cancels=False, force=force, link=3, seconds=0.12)
    machine.teardown()
    reasons = machine.rig.history.reasons
    assert any(RETREATED in reason and RETREAT_STOPPED in reason for reason in reasons)


def test_a_brake_that_has_not_begun_to_act_shows_no_dead_drive() -> None:
    # At 200 Hz the brake was 10 % of the comparison before the loop had passed it on.
    machine = ControllerMachine()
    late = {"damping_rate": 38.8, "loop_delay": 0.005, "resonance": 0.0}
    machine.begin(setup=Setup(make_arm("crane"), late, period=0.005, delay=0.005))
    machine.cross_half_a_turn(pace=0.3, sign=-1.0)
    machine.fault()
    machine.run(seconds=0.1)
    machine.teardown()


def test_an_arm_at_rest_may_move_after_its_stamps_went_back() -> None:
    # Its joint states had repeated since a time to come, and the first encoder count was a jump.
    machine = ControllerMachine()
    setup = {"damping_rate": 40.0, "bandwidth": (20.0,), **RIGID}
    machine.begin(setup=Setup(make_arm("crane"), setup, resolution=(1e-6, 1e-4)))
    machine.contradict(kind="none", seconds=0.02)
    machine.jump_in_time(seconds=-100.0)
    machine.cross_half_a_turn(pace=0.3, sign=-1.0)
    machine.teardown()


def test_a_push_teaches_the_adaptive_law_no_inertia_that_makes_the_arm_shake() -> None:
    # Two samples of the push multiplied the inertia of the light wrist, whose torque then jumped
    # from one limit to the other with each sample.
    machine = ControllerMachine()
    parameters = {"bandwidth": (20.0,), "damping_rate": 40.0, **RIGID, "adaptive": True}
    arm = make_arm("elbow", "none", 0)
    machine.begin(setup=Setup(arm, parameters, period=0.005, start=tuple(arm.home)))
    machine.push(seconds=0.02, torque=(-1.0, -1.0, -1.0, -1.0))
    machine.run(seconds=0.3)
    machine.teardown()
    assert np.abs(machine.rig.v).max() < 0.5


def test_what_a_push_teaches_an_arm_with_weak_damping_lets_it_come_to_rest() -> None:
    # Learning acts like a spring; it was eight times as stiff as the damping could bear, and the
    # arm swung with 0.17 rad/s and 10 N·m for ever.
    machine = ControllerMachine()
    parameters = {"bandwidth": (20.0,), "damping_rate": 10.0, **RIGID, "adaptive": True}
    start = (0.3, 0.4, 0.2)
    machine.begin(setup=Setup(make_arm("crane", "none", 0), parameters, True, start=start))
    machine.push(seconds=0.1, torque=(-0.78, 0.54, 0.04, -0.58))
    for _ in range(5):
        machine.run(seconds=1.0)
    machine.teardown()
    assert np.abs(machine.rig.v).max() < 0.005


def test_an_arm_that_floats_after_a_push_is_not_carried_with_the_weight_that_the_push_taught() -> (
    None
):
    # The push of 20 ms taught 1 kg; nothing corrects a wrong weight in float, and the arm sped up
    # until it was too fast.
    machine = ControllerMachine()
    parameters = {"bandwidth": (20.0,), "damping_rate": 40.0, **RIGID, "adaptive": True}
    parameters |= {"contact_reaction": "hold"}
    arm = make_arm("crane", "none", 0)
    machine.begin(setup=Setup(arm, parameters, friction=(0.0, 0.0), start=(0.3, 0.4, 0.2)))
    machine.push(seconds=0.02, torque=(-1.0, -1.0, -1.0, -1.0))
    machine.tell(verdict=True)
    machine.run(seconds=0.12)
    machine.let_float()
    machine.run(seconds=1.0)
    machine.teardown()
    assert np.abs(machine.rig.v).max() < 0.1


def test_an_arm_that_floats_in_a_late_loop_does_not_shake_for_ever() -> None:
    # Damping at 100 /s in a loop with a delay of 25 ms: only hold and follow were checked.
    arm = make_arm("elbow", "none", 0)
    parameters = {"bandwidth": (20.0,), "damping_rate": 100.0, **RIGID, "torque_share": (0.3,)}
    parameters |= {"contact_reaction": "hold", "overspeed_factor": 4.0}
    machine = ControllerMachine()
    machine.begin(setup=Setup(arm, parameters, start=(0.2, 0.6, 0.7, 0.4), delay=0.025))
    machine.push(seconds=0.02, torque=(-1.0, -0.1, 0.08, 0.68))
    machine.let_float()
    machine.reach_beyond(beyond=0.264, nearest=0, pace=0.3, seconds=0.3)
    machine.retract(force=(0.76, -0.74, -0.36, 0.9), link=0, seconds=0.3)
    machine.cancel()
    machine.restart_the_clock(seconds=-0.5)
    machine.let_float()
    machine.shake()
    machine.teardown()
    assert "swung" in machine.rig.history.reasons[-1]
    assert np.abs(machine.rig.v).max() < 0.1


def test_the_safe_torque_of_a_late_loop_does_not_shake_the_arm_for_ever() -> None:
    # A rate of 100 /s is too much for a delay of 40 ms. Mode safe was not checked for such a brake.
    arm = make_arm("elbow", "none", 0)
    parameters = {"safe_torque": "damping", "bandwidth": (20.0,), "damping_rate": 100.0, **RIGID}
    parameters |= {"torque_share": (0.3,), "overspeed_factor": 4.0}
    machine = ControllerMachine()
    start = (0.2, 0.6, 0.7, 0.4)
    setup = Setup(arm, parameters, compensated=True, period=0.005, start=start, delay=0.04)
    machine.begin(setup=setup)
    machine.shake()
    machine.teardown()
    rig = machine.rig
    assert "the brake of the safe torque overshot" in rig.history.reasons[-1]
    assert np.abs(rig.v).max() < 0.1
    rig.controller.resume()
    assert rig.controller.path.brake_share < 1.0  # the delay is still there
    machine.start_again()
    assert rig.controller.path.brake_share == 1.0


def test_a_joint_that_a_mechanical_stop_throws_back_is_a_fault_in_time() -> None:
    # It had fallen on the stop with the safe torque zero; the judge called it the controller's.
    arm = make_arm("crane", "none", 0)
    beyond = arm.model.upper_limit[2] + STOPS_BEYOND
    parameters = {"safe_torque": "zero", "bandwidth": (20.0,), "damping_rate": 40.0, **RIGID}
    machine = ControllerMachine()
    machine.begin(setup=Setup(arm, parameters, start=(0.3, -1.2, beyond + 0.034)))
    machine.run(seconds=0.1)
    machine.teardown()
    assert np.abs(machine.rig.history.column("v")[:, 2]).max() > 2.0 * arm.model.velocity_limit[2]
    assert "too fast" in machine.rig.history.reasons[-1]


def test_an_arm_that_fell_without_joint_states_is_braked_when_they_return() -> None:
    # It was faster than its brake permits, and the motors were blamed: no torque until a new start.
    machine = ControllerMachine()
    parameters = {"safe_torque": "zero", "damping_rate": 40.0, **RIGID}
    machine.begin(setup=Setup(make_arm("elbow", "none", 0), parameters, start=(2.9, 0.6, 0.7, 0.4)))
    machine.fault()
    for _ in range(3):
        machine.run(seconds=0.1)
        machine.silence(seconds=0.3)
    machine.run(seconds=0.3)
    machine.teardown()
    rig = machine.rig
    assert rig.controller.mode == "safe"
    assert "gained energy" not in rig.controller.modes.reason
    assert rig.controller.path.is_braking


def test_the_brake_of_a_joint_that_is_braked_apart_drives_no_late_loop() -> None:
    # A push passed for a dead drive; the inertia of the joint alone was ten times what it met.
    arm = make_arm("elbow", "none", 0)
    parameters = {"safe_torque": "damping", "bandwidth": (21.0,), "damping_rate": 42.0, **RIGID}
    parameters |= {"loop_delay": 0.01, "damping": (0.0,)}
    machine = ControllerMachine()
    start = (0.2, 0.6, 0.7, 0.4)
    setup = Setup(arm, parameters, compensated=True, payload=1.0, start=start, delay=0.005)
    machine.begin(setup=replace(setup, velocity_lag=0.005))
    machine.let_float()
    machine.shake()
    machine.teardown()
    rig = machine.rig
    assert "dead drive, or a push" in rig.history.reasons[-1]
    assert np.abs(rig.v).max() < 0.5  # it decays


def test_a_silence_between_two_looks_of_the_watchdog_is_the_cause_of_its_fault() -> None:
    # The watchdog looks every 10 ms; the joint state after the silence was the first to show it.
    machine = ControllerMachine()
    parameters = {"safe_torque": "damping", "damping_rate": 40.0, **RIGID, "timeout": 0.0218}
    arm = make_arm("crane", "none", 0)
    machine.begin(setup=Setup(arm, parameters, period=0.005, start=(0.3, 0.4, 0.2)))
    machine.silence(seconds=0.03)
    machine.freeze(seconds=0.01)
    machine.teardown()
    assert machine.rig.controller.mode == "safe"


def test_two_publishers_are_compared_once_late_joint_states_show_the_arm_at_rest() -> None:
    # Their positions jumped where the brakes closed, which contradicted their velocities: that was
    # noticed instead, and the judge called it a failure to notice the two publishers.
    machine = ControllerMachine()
    parameters: dict[str, Any] = {"adaptive": True}
    parameters |= {"safe_torque": "damping", "damping_rate": 40.0, **RIGID, "bandwidth": (20.0,)}
    parameters |= {"delay_growth": 0.05, "repeated_torque_share": 1.5644}
    parameters |= {"contact_reaction": "hold", "angle_wraparound": False}
    arm = make_arm("pendulum", "none", 0)
    start = (-2.188, 0.8)
    setup = Setup(arm, parameters, compensated=True, period=0.005, wraps=True, start=start)
    machine.begin(setup=replace(setup, friction=(0.0, 0.0)))
    machine.fall_behind(by=0.01, slowly=False)
    machine.fall_behind(by=0.1, slowly=True)
    machine.push(seconds=0.02, torque=(-0.52, 0.84, -0.08, 0.48))
    machine.start_again()
    machine.push(seconds=0.1, torque=(-0.14, 0.76, 0.96, 0.92))
    machine.a_bad_joint_state_now_and_then(good=1, kind="a stamp that is no number")
    machine.fall_behind(by=0.1, slowly=True)
    machine.start_amid_two_publishers(distance=-1.0)
    machine.push(seconds=0.02, torque=(-0.84, 0.66, -0.2, 0.3))
    machine.start_amid_two_publishers(distance=-1.0)
    machine.teardown()
    assert machine.rig.controller.mode == "hold"


def test_the_way_between_two_publishers_is_remembered_when_velocities_are_compared() -> None:
    # The judge left out that way, and expected a contradiction earlier than after 70 ms.
    arm = make_arm("elbow", "none", 0)
    parameters = {"safe_torque": "zero", "bandwidth": (20.0,), "damping_rate": 40.0, **RIGID}
    machine = ControllerMachine()
    setup = Setup(arm, parameters, friction=(0.0, 0.0), start=(0.2, 0.6, -2.42, 0.4))
    machine.begin(setup=setup)
    machine.retract(force=(-1.0, -0.12, -1.0, -1.0), link=2, seconds=0.3)
    machine.fault()
    machine.retract(force=(-1.0, -1.0, -1.0, -1.0), link=0, seconds=0.3)
    machine.interleave(distance=-1.0, follows=True, seconds=0.02)
    machine.resume()
    machine.contradict(kind="standing still", seconds=0.3)
    machine.teardown()
    assert "contradicts its positions" in machine.rig.history.reasons[-1]


def test_the_last_torque_holds_until_the_next_joint_state_after_safe_torque_is_set() -> None:
    # The judge wanted zero at once, while no joint states came and the controller sent nothing.
    machine = ControllerMachine()
    arm = make_arm("crane", "none", 0)
    parameters = {"safe_torque": "damping", "damping_rate": 100.0, **RIGID, "bandwidth": (20.0,)}
    machine.begin(setup=Setup(arm, parameters, start=(0.3, 0.4, 0.2), delay=0.025))
    machine.fault()
    machine.tune(new={"safe_torque": "zero"})
    machine.silence(seconds=0.005)
    assert machine.rig.history.column("torque")[-1].any()
    machine.bad_joint_states(kind="a stamp that is no number", count=1)
    assert not machine.rig.history.column("torque")[-1].any()


def test_a_retreat_that_is_stopped_without_an_order_begins_its_stop_where_the_arm_is() -> None:
    # The judge took the place and overshoot of that stop for a desired motion out of the limits.
    machine = ControllerMachine()
    arm = make_arm("pendulum", "none", 0)
    parameters = {"safe_torque": "damping", "damping_rate": 100.0, **RIGID, "bandwidth": (20.0,)}
    parameters |= {"torque_share": (0.3,), "overspeed_factor": 4.0, "contact_reaction": "hold"}
    setup = Setup(arm, parameters, start=(2.02, 0.8), delay=0.025, friction=(0.0, 0.0))
    machine.begin(setup=setup)
    machine.tell(verdict=True)
    machine.announce_payload(mass=1.0, really=False)
    force = (0.2, -1.0, -0.08, -1.0)
    machine.stop_a_retraction(cancels=False, force=force, link=0, seconds=0.15)
    machine.teardown()
    assert any(RETREAT_STOPPED in reason for reason in machine.rig.history.reasons)


def test_two_publishers_are_compared_once_both_are_slow_enough_in_mode_safe() -> None:
    # While both arms were too fast the reason was that of an earlier fault, and the judge counted.
    machine = ControllerMachine()
    arm = make_arm("crane", "none", 0)
    parameters = {"safe_torque": "damping", "damping_rate": 40.0, **RIGID, "bandwidth": (20.0,)}
    machine.begin(setup=Setup(arm, parameters, start=(0.3, -1.22, 0.2), friction=(0.0, 0.0)))
    machine.push(seconds=0.02, torque=(-1.0, -1.0, -1.0, -1.0))
    machine.interleave(distance=0.1, follows=False, seconds=0.02)
    machine.lose_the_detector(resumed=False, verdict=True)
    machine.push(seconds=0.1, torque=(-1.0, -1.0, -1.0, -1.0))
    machine.interleave(distance=0.1, follows=True, seconds=0.3)
    assert machine.rig.controller.mode == "safe"
    machine.teardown()


def test_a_late_brake_is_weakened_although_a_drive_is_not_trusted() -> None:
    # A joint whose drive seemed reversed had no torque; the others swung with all of theirs.
    machine = ControllerMachine()
    parameters = {
        "safe_torque": "damping",
        "damping_rate": 100.0,
        "torque_share": (0.3,),
        "overspeed_factor": 4.0,
        "stretch_to_limits": True,
        **RIGID,
        "bandwidth": (20.0,),
        "damping": (0.0,),
    }
    arm, start = make_arm("elbow", "none", 0), (0.2, 1.9096, 0.7, 0.4)
    setup = Setup(arm, parameters, True, friction=(0.0, 0.0), payload=1.0, start=start, delay=0.025)
    machine.begin(setup=setup)
    machine.reach_beyond(beyond=0.06, nearest=0, pace=0.3, seconds=0.02)
    machine.jump_in_time(seconds=1e6)
    machine.stream(ahead=0.191, count=3, direction=(1.0, 0.74, -1.0, 0.0))
    machine.start_again()
    machine.retract(force=(0.94, 0.58, 0.78, 0.76), link=0, seconds=0.15)
    machine.push(seconds=0.02, torque=(0.22, 0.66, -0.46, -0.62))
    machine.come_back(seconds=0.02, share=0.5)
    assert "reversed or dead drive" in machine.rig.history.reasons[-1]
    assert machine.rig.history.column("brake")[-1] < 1.0
