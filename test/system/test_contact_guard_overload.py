"""The contact guard stops the arm although its callbacks hang, or wait behind many others."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from threading import Thread
from threading import enumerate as enumerate_threads

import pytest
from sensor_msgs.msg import JointState

from rbd_control.nodes.contact_guard import LATE_LOOKS, ContactGuard
from rbd_control.ros import threads

from .bringup import SINGLE_THREADED, BringUp, Process
from .fault_setting import ros_here
from .probe import Probe
from .test_contact_guard import ACTION, GUARD, ArmDriver, Detector, active, resume
from .test_contact_guard_retreat import Cell, cell

HANG = 10.0
"""Time for which a callback of the guard hangs [s]."""

TIMEOUT = 0.5
"""Parameter ``silence_timeout`` of the guard [s]."""

LATEST = TIMEOUT + 0.5
"""Time within which the first request of a stop must arrive, on a busy machine [s]."""

SLOW = f"""
import time
from rbd_control.contact_stop import ArmMotion
hear = ArmMotion.hear
def slow(self, stamp, names, *rest):
    time.sleep({{"slow": 0.1, "hang": {HANG}}}.get(names[0], 0.0))
    return hear(self, stamp, names, *rest)
ArmMotion.hear = slow
"""
"""Preamble of a guard whose callback of the joint states is slow, or hangs, with some of them."""

PARAMETERS = {
    "actions": [ACTION],
    "moveit_stop": False,
    "repeat_period": 0.1,
    "silence_timeout": TIMEOUT,
}
REASON = "the guard is overloaded or blocked: its checks are 0.5"


# The guard as a process ---------------------------------------------------------------------------


@pytest.fixture
def driver(probe: Probe) -> Iterator[ArmDriver]:
    """Return an arm, beside a detector without contact."""
    driver, detector = ArmDriver(probe), Detector(probe)
    yield driver
    driver.end()
    detector.flag = None


@contextmanager
def watching(bring_up: BringUp, probe: Probe, preamble: str = SLOW) -> Iterator[Process]:
    """Yield a guard that hears the detector."""
    process = bring_up.start(GUARD, PARAMETERS, preamble=preamble)
    try:
        active(probe)
        probe.wait_for_report(GUARD, lambda r: "no contact detector" not in r.message, "is deaf")
        assert probe.report(GUARD).values["guard"] == "watching"
        yield process
    finally:
        process.kill()


@pytest.mark.parametrize("preamble", [SLOW, f"{SINGLE_THREADED}\n{SLOW}"], ids=["events", "single"])
def test_a_callback_that_hangs_stops_the_arm(
    bring_up: BringUp, probe: Probe, driver: ArmDriver, preamble: str
) -> None:
    """[126] The detector continues, but the guard does not process its flags."""
    with watching(bring_up, probe, preamble) as process:
        sent = time.monotonic()
        probe.send("joint_states", JointState(name=["hang"], position=[0.0]))
        probe.wait(lambda: len(driver.cancels) > 5, "is not stopped, or only once")
        print(f"hanging callback to cancel request: {driver.cancels[0] - sent:.3f} s")
        assert driver.cancels[0] - sent < LATEST
        assert driver.cancels[5] - sent < HANG
        assert REASON in process.output
        # The guard works again after the callback.
        probe.wait(lambda: resume(probe).success, "cannot resume")


def test_a_flood_of_slow_callbacks_stops_the_arm(
    bring_up: BringUp, probe: Probe, driver: ArmDriver
) -> None:
    """[126] Flags and timers of the guard wait behind its joint states."""
    with watching(bring_up, probe) as process:
        publisher = probe.node.create_publisher(JointState, "joint_states", 10)
        probe.wait(publisher.get_subscription_count, "nobody listens to the joint states")
        message = JointState(name=["slow"], position=[0.0])
        begin = time.monotonic()
        flood = probe.every(0.005, lambda: publisher.publish(message))
        probe.wait(lambda: len(driver.cancels) > 20, "is not stopped, or not repeatedly")
        cancels = driver.cancels[:20]
        gaps = [after - before for before, after in zip(cancels, cancels[1:], strict=False)]
        first, gap = cancels[0] - begin, median(gaps)
        print(f"flood to cancel request: {first:.3f} s, then every {gap:.3f} s")
        assert first < LATEST + 0.2  # two slow callbacks, before the supervision is late
        assert gap < 0.3
        assert REASON in process.output
        probe.end_repetition(flood)
        probe.wait(lambda: resume(probe).success, "cannot resume")


def test_a_pause_of_the_process_is_no_overload(
    bring_up: BringUp, probe: Probe, driver: ArmDriver
) -> None:
    with watching(bring_up, probe) as process:
        process.pause()
        time.sleep(3.0 * TIMEOUT)
        process.signal(signal.SIGCONT)
        probe.report(GUARD)
        assert probe.report(GUARD).values["guard"] == "watching", process.output
        assert not driver.cancels


# The watchdog's decisions -------------------------------------------------------------------------


def late(c: Cell, time_: float, looks: int = LATE_LOOKS) -> None:
    """Let the callback thread be late, and the watchdog thread look."""
    c.now += time_
    for _ in range(looks):
        c.guard.guard.run("watchdog", c.guard._watch_late)


@pytest.mark.parametrize("stop_on_silence", [True, False])
def test_silence_stops_the_arm_while_the_callbacks_are_late(stop_on_silence: bool) -> None:
    with cell(stop_on_silence=stop_on_silence, silence_timeout=0.2) as c:
        c.run(0.1)
        c.flag = None
        c.run(0.18)
        late(c, 0.05)
        silent = "no verdict about contact for 0.2 s"
        assert c.guard._stop.reason == (silent if stop_on_silence else "")
        late(c, 0.2)
        reason = silent if stop_on_silence else "the guard is overloaded or blocked: its checks are"
        assert c.guard._stop.reason.startswith(reason)


def test_after_a_pause_the_callbacks_have_some_time() -> None:
    with cell() as c:
        c.run(0.1)
        late(c, 2.0, LATE_LOOKS - 1)
        assert not c.guard._stop.is_latched
        c.step()
        late(c, 0.0)
        assert not c.guard._stop.is_latched


def test_callbacks_that_hang_hold_a_retreat() -> None:
    with cell() as c:
        c.retreat()
        late(c, 0.45)
        assert len(c.trajectories) == 1
        late(c, 0.1)
        c.assert_held("the guard is overloaded or blocked: its checks are 0.55 s late")
        c.run_until(lambda: c.resume() == "watching")


def test_the_watchdog_of_an_inactive_guard_stops_nothing() -> None:
    with cell() as c:
        c.guard.trigger_deactivate()
        late(c, 2.0)
        assert not c.guard._stop.is_latched


def test_a_defect_of_the_watchdog_stops_the_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> bool:
        raise RuntimeError("injected")

    with cell() as c:
        c.run(0.1)
        monkeypatch.setattr(type(c.guard._stop), "check", failing)
        late(c, 0.1)
        assert c.guard._stop.reason.startswith("watchdog failed: RuntimeError: injected")


def test_a_callback_that_hangs_with_the_lock_delays_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lock is held by a system call of Python, for example."""
    monkeypatch.setattr(threads, "LONGEST_WAIT", 0.001)
    with cell() as c:
        c.run(0.1)
        with c.guard._lock.held():
            other = Thread(target=late, args=(c, 1.0))
            other.start()
            other.join()
        assert c.guard._stop.state == "stopping"


def test_the_thread_runs_only_while_the_guard_is_active() -> None:
    def threads() -> int:
        return sum(thread.name == "callback watchdog" for thread in enumerate_threads())

    with ros_here("autostart:=false"):
        guard = ContactGuard()
        guard.trigger_configure()
        assert threads() == 0
        guard.trigger_activate()
        assert threads() == 1
        guard.trigger_deactivate()
        assert threads() == 0
        guard.trigger_activate()
        assert threads() == 1
        guard.end()
        assert threads() == 0
        guard.destroy_node()
