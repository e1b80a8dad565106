"""The contact guard as a process, with an action server: it stops, latches, resumes, retreats."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from action_msgs.msg import GoalInfo, GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from guard_cell import PARAMETERS as RETREATING
from guard_cell import STEP, Arm
from lifecycle_msgs.srv import GetState
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.serialization import serialize_message
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from . import detector_setting
from .bringup import SINGLE_THREADED, BringUp
from .probe import LATCHED, Heard, Probe, Report, Source

GUARD = "contact_guard"
ACTION = "/arm/follow_joint_trajectory"
FLAG = "contact_detector/contact"
LATEST = 0.020
"""Longest time from the onset of a contact to the cancel request on the wire [s]."""

PARAMETERS = {"actions": [ACTION], "services": ["/arm/pause"], "repeat_period": 0.1}


class ArmDriver:
    """Stand-in for a position-controlled arm: one action, one service, joint states."""

    def __init__(self, probe: Probe, action: str = ACTION) -> None:
        self._probe = probe
        self.cancels: list[float] = []
        self.requests: list[CancelGoal.Request] = []
        self.pauses = 0
        self.goals = 0
        self.lies = False
        self.return_code = CancelGoal.Response.ERROR_NONE
        self.silent: Future | None = None
        node = probe.node
        # A request that waits for its answer keeps nothing else waiting.
        group = ReentrantCallbackGroup()
        name = f"{action}/_action/cancel_goal"
        self._services = [
            node.create_service(CancelGoal, name, self._cancel, callback_group=group),
            node.create_service(Trigger, "/arm/pause", self._pause),
        ]
        self._status = node.create_publisher(GoalStatusArray, f"{action}/_action/status", LATCHED)

    async def _cancel(
        self, request: CancelGoal.Request, response: CancelGoal.Response
    ) -> CancelGoal.Response:
        self.cancels.append(time.monotonic())
        self.requests.append(request)
        if self.silent is not None:
            await self.silent
        response.return_code = self.return_code
        if self.lies:  # like a server in rclpy whose callback rejects the cancellation
            return response
        if self.return_code == CancelGoal.Response.ERROR_NONE:
            response.goals_canceling = [GoalInfo() for _ in range(self.goals)]
            if self.goals:
                self.run(0)
        return response

    def _pause(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.pauses += 1
        response.success = self.pauses > 1  # the first call is refused
        return response

    def run(self, goals: int) -> None:
        """Let ``goals`` goals be executed from now on."""
        self.goals = goals
        status = GoalStatus(status=GoalStatus.STATUS_EXECUTING)
        self._status.publish(GoalStatusArray(status_list=[status] * goals))

    def end(self) -> None:
        """End the server together with its goals."""
        for service in self._services:
            self._probe.node.destroy_service(service)
        self._probe.node.destroy_publisher(self._status)


class Detector:
    """A flag as a detector repeats it; None is silence."""

    def __init__(self, probe: Probe, topic: str = FLAG) -> None:
        self.flag: bool | None = False
        self._publisher = probe.node.create_publisher(Bool, topic, 10)
        probe.every(0.02, self._repeat)

    def touch(self) -> float:
        """Raise the flag; return when it was published."""
        self.flag = True
        raised = time.monotonic()
        self._publisher.publish(Bool(data=True))
        return raised

    def _repeat(self) -> None:
        if self.flag is not None:
            self._publisher.publish(Bool(data=self.flag))


def active(probe: Probe, name: str = GUARD) -> None:
    probe.wait_for_report(name, lambda r: r.values.get("state") == "active", "is not active")


def resume(probe: Probe, name: str = GUARD) -> Any:
    return probe.call(Trigger, f"{name}/resume")


def resumed(probe: Probe, name: str = GUARD) -> None:
    probe.wait(lambda: resume(probe, name).success, "cannot resume")


def wait_for_state(probe: Probe, state: str, name: str = GUARD) -> Report:
    return probe.wait_for_report(name, lambda r: r.values["guard"] == state, f"is not {state}")


def wait_for_stopped(probe: Probe, stopped: Heard, value: bool) -> None:
    count = len(stopped)
    probe.wait(
        lambda: len(stopped) > count and stopped[-1].data == value, f"stopped is not {value}"
    )


def usually_in_time(trial: Callable[[], float], what: str) -> None:
    """Repeat a measurement until most of at least five are in time; a busy machine takes more."""
    delays: list[float] = []
    while len(delays) < 5 or (median(delays) > LATEST and len(delays) < 40):
        delays.append(trial())
    print(f"{what} [ms]:", [round(1e3 * delay, 2) for delay in delays])
    assert median(delays) <= LATEST


# Long: one guard passes through all its states in turn; a start for each state would take a minute.
def test_it_stops_latches_and_resumes(bring_up: BringUp, probe: Probe) -> None:
    """Contact, goals that come later, and servers that do not answer or refuse."""
    driver, detector = ArmDriver(probe), Detector(probe)
    stopped = probe.listen(Bool, f"{GUARD}/stopped", LATCHED)
    events = probe.listen(String, "/trajectory_execution_event")
    arm = probe.stream(Source(["elbow", "wrist"], [0.1, 0.2], [0.5, 0.0]))
    process = bring_up.start(GUARD, PARAMETERS)
    active(probe)
    probe.wait(lambda: stopped and not stopped[-1].data, "does not tell that it is watching")
    assert resume(probe).message == "watching"
    malformed = probe.node.create_publisher(Bool, FLAG, 10)
    probe.wait(malformed.get_subscription_count, "nobody listens to the flag")
    malformed.publish(serialize_message(Bool())[:4])
    probe.wait_for_report(
        GUARD, lambda r: any("malformed" in key for key in r.values), "counts no malformed message"
    )
    probe.node.destroy_publisher(malformed)

    # Contact: everything is stopped, and the latch holds.
    driver.run(2)
    probe.wait_for_report(GUARD, lambda r: r.values.get(f"goals of {ACTION}") == "2", "no goals")
    assert not driver.cancels
    detector.touch()
    probe.wait(lambda: driver.cancels, "no goal is cancelled")
    request = driver.requests[0].goal_info
    assert not any(request.goal_id.uuid)
    assert (request.stamp.sec, request.stamp.nanosec) == (0, 0)
    wait_for_stopped(probe, stopped, True)
    probe.wait(lambda: events and events[-1].data == "stop", "MoveIt is not stopped")
    probe.wait(lambda: driver.pauses == 2, "a refused service is not called again")
    assert "flag is raised" in resume(probe).message
    detector.flag = None
    probe.wait(lambda: "no verdict about contact" in resume(probe).message, "resumes in silence")
    detector.flag = False
    probe.wait(lambda: "not confirmed" in resume(probe).message, "resumes while the arm moves")
    report = probe.report(GUARD)
    assert "the arm still moves after the stop (elbow: 0.5" in report.message
    assert (report.values["guard"], report.values["goals cancelled"]) == ("stopping", "2")
    arm.velocity = [0.0, 0.0]
    report = wait_for_state(probe, "stopped")
    assert 0.0 < float(report.values["flag to standstill [s]"]) < 60.0
    # What has stopped is not told again and again: ten rounds go by.
    told = len(events)
    probe.report(GUARD)
    assert len(events) <= told + 1

    # A goal that is sent later is cancelled, and a server that does not answer is named.
    count = len(driver.cancels)
    driver.run(1)
    probe.wait(lambda: driver.goals == 0 and len(driver.cancels) > count, "a new goal goes on")
    driver.silent = Future()
    probe.wait_for_report(
        GUARD, lambda r: f"{ACTION}/_action/cancel_goal does not answer" in r.message, "no word"
    )
    assert "not confirmed" in resume(probe).message
    driver.silent.set_result(None)
    driver.silent = None
    driver.return_code = CancelGoal.Response.ERROR_REJECTED
    report = probe.wait_for_report(GUARD, lambda r: "refuses to stop" in r.message, "no word")
    assert report.level == 2
    driver.return_code = CancelGoal.Response.ERROR_NONE
    resumed(probe)
    wait_for_stopped(probe, stopped, False)
    assert driver.pauses == 2  # one that has succeeded is left alone

    def trial() -> float:
        driver.cancels.clear()
        raised = detector.touch()
        probe.wait(lambda: driver.cancels, "no goal is cancelled")
        delay = driver.cancels[0] - raised
        detector.flag = False
        resumed(probe)
        return delay

    usually_in_time(trial, "flag to cancel request")
    a_server_that_lies_is_named_and_its_goals_end_with_it(probe, detector, driver)
    detector.flag = None
    process.end()


def a_server_that_lies_is_named_and_its_goals_end_with_it(
    probe: Probe, detector: Detector, driver: ArmDriver
) -> None:
    """A server agrees to cancel and continues its goal; then it is started again without a goal."""
    driver.lies = True
    driver.run(1)
    probe.wait_for_report(GUARD, lambda r: r.values.get(f"goals of {ACTION}") == "1", "no goal")
    detector.touch()
    detector.flag = False
    report = probe.wait_for_report(GUARD, lambda r: "goes on with a goal" in r.message, "no word")
    assert (report.level, report.values["guard"]) == (2, "stopping")
    assert "not confirmed" in resume(probe).message
    driver.end()
    new = ArmDriver(probe)
    probe.wait(lambda: new.cancels, "the new server is not told to stop")
    report = wait_for_state(probe, "stopped")
    assert report.values[f"goals of {ACTION}"] == "0"
    resumed(probe)


DEFECT = """
from rbd_control.contact_stop import StandstillMonitor
add = StandstillMonitor.add_joint_state
def failing(self, stamp, names, *rest):
    if "defect" in names:
        raise RuntimeError("injected")
    return add(self, stamp, names, *rest)
StandstillMonitor.add_joint_state = failing
"""
"""Preamble of a guard that fails with one joint state."""


def test_missing_servers_are_reported_and_silence_stops(bring_up: BringUp, probe: Probe) -> None:
    """A required detector, an action server and joint states; then the detector."""
    driver, detector = ArmDriver(probe, "/left/follow"), Detector(probe)
    detector.flag = None
    parameters = {
        "actions": ["follow", "/nobody/moves"],
        "require_detector": True,
        "stop_on_silence": True,
        "moveit_topic": "events",
    }
    moveit = probe.listen(String, "/left/events")
    name = f"left/{GUARD}"
    # In a namespace, relative names are those of the namespace.
    names = ["-r", "__ns:=/left", "-r", f"{FLAG}:=/{FLAG}"]
    # With the executor of an rclpy that has no events executor.
    process = bring_up.start(GUARD, parameters, names, f"{SINGLE_THREADED}\n{DEFECT}")
    report = probe.wait_for_report(name, lambda r: "waiting for" in r.message, "does not wait")
    assert f"a verdict on /{FLAG}: no contact detector has published yet" in report.message
    assert "no action server /nobody/moves" in report.message
    assert probe.call(GetState, f"{name}/get_state").current_state.label == "inactive"
    detector.flag = False
    active(probe, name)
    report = probe.wait_for_report(name, lambda r: "no joint states" in r.message, "no word")
    assert report.level == 1
    assert report.values["/left/follow/_action/cancel_goal"] == "there"
    assert report.values["/nobody/moves/_action/cancel_goal"] == "not there"
    assert not driver.cancels
    detector.flag = None
    probe.wait(lambda: driver.cancels and moveit, "silence stops nothing")
    report = wait_for_state(probe, "stopped", name)
    assert "no verdict about contact for" in report.message
    detector.flag = False
    resumed(probe, name)
    # After a defect of the guard itself nothing is certain, and the arm is stopped.
    driver.cancels.clear()

    def hurt() -> bool:
        # Joint states are subscribed to best-effort: one may be lost.
        probe.send("/left/joint_states", JointState(name=["defect"]))
        time.sleep(0.1)
        return bool(driver.cancels)

    probe.wait(hurt, "a defect stops nothing")
    probe.wait_for_report(name, lambda r: "injected" in r.message, "does not tell of the defect")
    detector.flag = None
    process.end()


class ServoedArm:
    """Stand-in for MoveIt Servo and a velocity controller, which keeps its last command.

    Attributes:
        is_paused: whether Servo is paused.
        jog: velocity that another node commands; None if it is silent [rad/s].
    """

    def __init__(self, probe: Probe, topic: str) -> None:
        self.is_paused = False
        self.jog: float | None = None
        self._commands = probe.node.create_publisher(Float64MultiArray, topic, 10)
        self._arm = probe.stream(Source(["elbow", "wrist"], [0.1, 0.2], [0.0, 0.0]))
        probe.node.create_subscription(Float64MultiArray, topic, self._follow, 10)
        probe.node.create_service(SetBool, "/servo_node/pause_servo", self._pause)
        probe.every(0.02, self._command)

    @property
    def velocity(self) -> list[float]:
        """Velocities of the joints [rad/s]."""
        return list(self._arm.velocity)

    def _command(self) -> None:
        velocity = self.jog if self.is_paused else 0.2
        if velocity is not None:
            self._commands.publish(Float64MultiArray(data=[0.0, velocity]))

    def _follow(self, command: Float64MultiArray) -> None:
        if len(command.data) == 2:  # a controller rejects others
            self._arm.velocity = list(command.data)

    def _pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self.is_paused = request.data
        response.success = True
        return response


def test_servo_is_paused_and_its_velocity_topic_gets_zeros(bring_up: BringUp, probe: Probe) -> None:
    """A paused publisher alone would leave the velocity controller at its last command."""
    topic = "/forward_velocity_controller/commands"
    arm, detector = ServoedArm(probe, topic), Detector(probe)
    ArmDriver(probe)
    parameters = {
        "actions": [ACTION],
        "moveit_stop": False,
        "joints": ["elbow", "wrist"],
        "pause_services": ["/servo_node/pause_servo"],
        "velocity_topics": [topic],
        "repeat_period": 0.1,
    }
    process = bring_up.start(GUARD, parameters)
    active(probe)
    probe.wait_for_report(
        GUARD,
        lambda r: r.values.get(topic) == r.values.get("/servo_node/pause_servo") == "there",
        "does not find Servo and its controller",
    )
    assert (arm.is_paused, arm.velocity) == (False, [0.0, 0.2])
    detector.touch()
    detector.flag = False
    probe.wait(lambda: arm.is_paused and arm.velocity == [0.0, 0.0], "Servo moves the arm")
    report = wait_for_state(probe, "stopped")
    assert float(report.values["flag to standstill [s]"]) < 60.0
    arm.is_paused = False  # as another node would end the pause
    probe.wait(lambda: arm.is_paused, "Servo is not paused again")

    # Another node continues to command velocities: the arm is not stopped.
    arm.jog = 0.1
    report = probe.wait_for_report(GUARD, lambda r: "another node commands" in r.message, "no word")
    assert (report.level, report.values["guard"]) == (2, "stopping")
    assert "not confirmed" in resume(probe).message
    arm.jog = None
    wait_for_state(probe, "stopped")
    assert arm.velocity == [0.0, 0.0]
    resumed(probe)
    assert arm.is_paused  # only an operator ends the pause
    process.end()


def test_from_the_push_to_the_cancel_request(bring_up: BringUp, probe: Probe) -> None:
    """Detector and guard together: from the first sample with a push to the request."""
    space, name = ["-r", "__ns:=/cell"], f"cell/{GUARD}"
    source = probe.stream(detector_setting.resting(), "/cell/joint_states", rate=500.0)
    bring_up.start("contact_detector", detector_setting.PARAMETERS, space)
    bring_up.start(GUARD, {"actions": ["follow"], "repeat_period": 1.0}, space)
    driver = ArmDriver(probe, "/cell/follow")
    active(probe, name)
    contact = probe.listen(Bool, f"/cell/{FLAG}", LATCHED)

    def trial() -> float:
        detector_setting.released(source)
        probe.wait(lambda: contact and not contact[-1].data, "the push does not end")
        resumed(probe, name)
        driver.cancels.clear()
        pushed = time.monotonic()
        detector_setting.touched(source)
        probe.wait(lambda: driver.cancels, "no goal is cancelled")
        return driver.cancels[0] - pushed

    usually_in_time(trial, "push to cancel request")
    values = probe.wait_for_report(
        name, lambda r: "onset to requests sent [s]" in r.values, "the onset is not known"
    ).values
    assert 0.0 < float(values["onset to requests sent [s]"]) < 1.0


# A guard that hangs -------------------------------------------------------------------------------

HANG = 5.0
"""Time for which a callback of the guard hangs [s]."""

TIMEOUT = 0.5
"""Parameter ``silence_timeout`` of the guard [s]."""

LATEST_STOP = TIMEOUT + 0.5
"""Time within which the first request of a stop must arrive, on a busy machine [s]."""

SLOW = f"""
import time
from rbd_control.contact_stop import StandstillMonitor
add = StandstillMonitor.add_joint_state
def slow(self, stamp, names, *rest):
    time.sleep({{"slow": 0.1, "hang": {HANG}}}.get(names[0], 0.0))
    return add(self, stamp, names, *rest)
StandstillMonitor.add_joint_state = slow
"""
"""Preamble of a guard whose callback of the joint states is slow, or hangs, with some of them."""


def test_callbacks_that_hang_stop_the_arm(bring_up: BringUp, probe: Probe) -> None:
    """The detector continues, but the guard does not process its flags in time.

    Its callback hangs, or flags and timers wait behind many slow joint states. A pause of the
    process is no overload.
    """
    space = "busy"
    name = f"{space}/{GUARD}"
    driver, detector = ArmDriver(probe, f"/{space}/follow"), Detector(probe, f"/{space}/{FLAG}")
    parameters = {"actions": ["follow"], "repeat_period": 0.1, "silence_timeout": TIMEOUT}
    names = ["-r", f"__ns:=/{space}"]
    process = bring_up.start(GUARD, parameters, names, SLOW)
    probe.wait_for_report(name, lambda r: "no contact detector" not in r.message, "is deaf")
    active(probe, name)
    process.pause()
    time.sleep(2.0 * TIMEOUT)
    process.signal(signal.SIGCONT)
    probe.report(name)
    assert probe.report(name).values["guard"] == "watching", process.output

    publisher = probe.node.create_publisher(JointState, f"/{space}/joint_states", 10)
    probe.wait(publisher.get_subscription_count, "nobody listens to the joint states")
    slow = JointState(name=["slow"], position=[0.0])
    begin = time.monotonic()
    flood = probe.every(0.005, lambda: publisher.publish(slow))
    probe.wait(lambda: len(driver.cancels) > 10, "is not stopped, or not repeatedly")
    probe.end_repetition(flood)
    first, gap = driver.cancels[0] - begin, (driver.cancels[10] - driver.cancels[0]) / 10.0
    print(f"flood to cancel request: {first:.3f} s, then every {gap:.3f} s")
    assert first < LATEST_STOP + 0.2  # two slow callbacks, before the supervision is late
    assert gap < 0.3
    resumed(probe, name)

    driver.cancels.clear()
    begin = time.monotonic()
    publisher.publish(JointState(name=["hang"], position=[0.0]))
    probe.wait(lambda: len(driver.cancels) > 5, "is not stopped, or only once")
    print(f"hanging callback to cancel request: {driver.cancels[0] - begin:.3f} s")
    assert driver.cancels[0] - begin < LATEST_STOP
    assert driver.cancels[5] - begin < HANG
    assert "the guard is overloaded or blocked: its checks are 0.5" in process.output
    resumed(probe, name)  # the guard works again after the callback
    detector.flag = None
    process.end()


# The retreat --------------------------------------------------------------------------------------


class Robot:
    """Joint states of an arm that follows the trajectories of a guard, and a detector."""

    def __init__(self, probe: Probe, space: str) -> None:
        self.probe, self.arm = probe, Arm()
        self.name, topic = f"{space}/{GUARD}", f"/{space}/trajectory"
        self.detector = Detector(probe, f"/{space}/{FLAG}")
        self.trajectories = probe.listen(JointTrajectory, topic)
        self._source = Source(["elbow"], [0.0], [0.0])
        self._before = time.monotonic()
        probe.node.create_subscription(JointTrajectory, topic, self.arm.follow, 10)
        probe.every(STEP, self._step)
        probe.stream(self._source, f"/{space}/joint_states")

    def _step(self) -> None:
        now = time.monotonic()
        self.arm.step(now - self._before)
        self._before = now
        self._source.position, self._source.velocity = [self.arm.position], [self.arm.velocity]

    def retreat(self) -> None:
        """Stop the arm by a contact, and wait until it retreats."""
        count, start = len(self.trajectories), self.arm.position
        self.arm.drive = 0.2
        self.probe.wait(lambda: self.arm.position > start + 0.3, "the arm does not move")
        self.detector.touch()
        self.detector.flag = False
        self.probe.wait_for_report(self.name, lambda r: r.values["guard"] != "watching", "no stop")
        self.arm.drive = 0.0
        self.probe.wait(lambda: len(self.trajectories) > count, "no retreat")


def test_a_retreat_on_the_running_node(bring_up: BringUp, probe: Probe) -> None:
    """Resume is refused during the retreat; silence and the end of the guard stop the arm."""
    robot = Robot(probe, "back")
    process = bring_up.start(GUARD, RETREATING, ["-r", "__ns:=/back"])
    active(probe, robot.name)
    robot.retreat()
    refusal = resume(probe, robot.name).message
    assert refusal == "cannot resume: the retreat has not ended yet"
    count = len(robot.trajectories)
    robot.detector.flag = None
    probe.wait(lambda: len(robot.trajectories) > count, "silence does not stop the retreat")
    assert len(robot.trajectories[-1].points) == 1
    said = "the retreat is stopped: no verdict about contact for"
    probe.wait(lambda: said in process.output, "does not say why")
    robot.detector.flag = False
    resumed(probe, robot.name)

    robot.retreat()
    count = len(robot.trajectories)
    process.end()
    probe.wait(lambda: len(robot.trajectories) > count, "the retreat outlives the guard")
    assert len(robot.trajectories[-1].points) == 1
    assert "the retreat is stopped: the guard is deactivated" in process.output
