"""Requests to stop: servers that take longer for their answer than the period of the requests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from action_msgs.msg import GoalInfo, GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from builtin_interfaces.msg import Time
from fake_node import FakeNode, FakePublisher
from geometry_msgs.msg import TwistStamped
from rclpy.task import Future
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool, Trigger

from rbd_control.nodes import stop_orders
from rbd_control.nodes.stop_orders import ANSWER_TIME, COMMAND_TIME, MOST_PENDING, StopOrders
from rbd_control.ros.diagnostics import ERROR, WARN, Status
from rbd_control.ros.threads import ShortLock

PERIOD = 0.2
"""Period of the requests [s]."""


class Server:
    """Client of a service, and the server: each request is answered when the test says so."""

    def __init__(self, kind: Any) -> None:
        self.kind, self.is_ready, self.srv_name = kind, True, kind.__name__
        self.requests: list[Future] = []
        self.given_up = 0

    def call_async(self, request: Any) -> Future:
        self.last = request
        self.requests.append(Future())
        return self.requests[-1]

    def remove_pending_request(self, _future: Future) -> None:
        self.given_up += 1

    def service_is_ready(self) -> bool:
        return self.is_ready

    def answer(self, index: int, agrees: bool = True) -> None:
        """Answer the request of this index."""
        if self.kind is not CancelGoal:
            self.requests[index].set_result(self.kind.Response(success=agrees, message="no"))
            return
        code = CancelGoal.Response.ERROR_NONE if agrees else CancelGoal.Response.ERROR_REJECTED
        goals = [GoalInfo()] if agrees else []
        self.requests[index].set_result(
            CancelGoal.Response(return_code=code, goals_canceling=goals)
        )


class Setting:
    """The orders of a guard, at a simulated time; by default one action and one Trigger service.

    Attributes:
        subscribers: number of subscribers of velocity topics, the orders included.
    """

    def __init__(self, patch: pytest.MonkeyPatch, **names: list[str]) -> None:
        self.now = 100.0
        patch.setattr(stop_orders, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.servers: dict[Any, Server] = {}

        def create_client(kind: Any, _name: str) -> Server:
            return self.servers.setdefault(kind, Server(kind))

        self.subscribers = 2
        self.sent: dict[str, FakePublisher] = {}

        def create_publisher(_kind: Any, topic: str, _qos: Any) -> FakePublisher:
            return self.sent.setdefault(topic, FakePublisher(topic))

        stamp = SimpleNamespace(to_msg=lambda: Time(sec=int(self.now)))
        node: Any = FakeNode(
            create_client=create_client,
            destroy_client=lambda _: None,
            create_publisher=create_publisher,
            count_subscribers=lambda _: self.subscribers,
            get_clock=lambda: SimpleNamespace(now=lambda: stamp),
        )
        self.node = node
        names = names or {"actions": ["arm"], "services": ["pause"]}
        self.orders = StopOrders(node, names, "", 2, ShortLock())
        self.orders.look()
        unused = Server(Trigger)
        self.cancel = self.servers.get(CancelGoal, unused)
        self.pause = self.servers.get(Trigger, unused)
        self.orders.begin()

    def report(self) -> Status:
        """Return the diagnostics of the latched stop."""
        status = Status()
        self.orders.report(status, is_latched=True)
        return status

    def is_settled(self) -> bool:
        """Return whether the orders are settled; the type checker would narrow a property."""
        return self.orders.are_settled

    def start_goal(self) -> None:
        """Receive the status of the action with a goal that has just begun."""
        status = GoalStatus(status=GoalStatus.STATUS_EXECUTING)
        self.orders._cancellers[0]._on_status(GoalStatusArray(status_list=[status]))

    def repeat(self) -> None:
        """Let a period pass, and repeat the requests."""
        self.now += PERIOD
        self.orders.repeat()


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Setting:
    return Setting(monkeypatch)


def test_an_answer_later_than_the_next_request_counts(setting: Setting) -> None:
    setting.repeat()
    setting.pause.answer(0)
    assert not setting.is_settled()
    setting.cancel.answer(0)
    assert len(setting.cancel.requests) == 2
    assert setting.is_settled()
    assert setting.orders.cancelled == 1


def test_a_slow_server_that_has_agreed_stays_settled(setting: Setting) -> None:
    """Each answer takes more than ``delay`` periods, and the cancellation is always repeated."""
    delay = 3
    setting.pause.answer(0)
    settled = []
    for k in range(30):
        setting.repeat()
        settled.append(setting.is_settled())
        if k >= delay:
            setting.cancel.answer(k - delay)
        settled.append(setting.is_settled())
    assert settled == [False] * (2 * delay + 1) + [True] * (60 - 2 * delay - 1)


def test_a_server_that_answers_no_more_is_not_settled(setting: Setting) -> None:
    setting.pause.answer(0)
    setting.cancel.answer(0)
    begin, silent = setting.now, 0.0
    while setting.is_settled():
        setting.repeat()
        silent = setting.now - begin
        assert silent < 10.0
    # Counted from the first request without answer.
    assert silent == pytest.approx(ANSWER_TIME + PERIOD)
    setting.cancel.answer(1)  # the oldest of its requests
    assert setting.is_settled()


def test_a_trigger_is_not_repeated_before_its_answer(setting: Setting) -> None:
    setting.cancel.answer(0)
    for _ in range(8):
        setting.repeat()
    assert len(setting.pause.requests) == 1
    assert len(setting.cancel.requests) == 9
    # A refusal is answered with the next request at once.
    setting.pause.answer(0, agrees=False)
    setting.repeat()
    assert len(setting.pause.requests) == 2
    # The request, or its answer, may be lost.
    for _ in range(round(ANSWER_TIME / PERIOD) + 1):
        setting.repeat()
    assert len(setting.pause.requests) == 3
    setting.pause.answer(1)
    setting.pause.answer(2, agrees=False)  # it has paused already
    for _ in range(20):
        setting.repeat()
        setting.cancel.answer(-1)
        assert setting.is_settled()
    assert len(setting.pause.requests) == 3


def test_the_answer_to_the_latest_request_decides(setting: Setting) -> None:
    setting.pause.answer(0)
    setting.repeat()
    setting.cancel.answer(1, agrees=False)
    setting.cancel.answer(0)  # overtaken
    assert not setting.is_settled()
    setting.repeat()
    setting.cancel.answer(2)
    assert setting.is_settled()


def test_answers_of_an_earlier_stop_do_not_count(setting: Setting) -> None:
    setting.repeat()
    setting.orders.end()
    setting.orders.begin()
    for server in (setting.cancel, setting.pause):
        server.answer(0)
    setting.cancel.answer(1)
    assert not setting.is_settled()
    setting.cancel.answer(2)
    setting.pause.answer(1)
    assert setting.is_settled()


def test_a_node_that_is_not_active_cancels_no_new_goal(setting: Setting) -> None:
    """A deactivation that fails does not end the requests of the stop."""
    setting.start_goal()
    setting.node.is_active = False
    setting.cancel.answer(0)
    setting.start_goal()
    assert len(setting.cancel.requests) == 1


def test_requests_without_answer_do_not_accumulate(setting: Setting) -> None:
    for _ in range(3 * MOST_PENDING):
        setting.repeat()
    assert len(setting.cancel.requests) - setting.cancel.given_up == MOST_PENDING


def test_a_goal_that_arrives_during_a_cancellation_is_cancelled(setting: Setting) -> None:
    setting.start_goal()
    assert len(setting.cancel.requests) == 1
    setting.cancel.answer(0)
    assert len(setting.cancel.requests) == 2


def test_a_trigger_server_that_starts_late_is_called_at_once(setting: Setting) -> None:
    setting.pause.is_ready = False
    setting.orders.look()
    setting.repeat()
    assert len(setting.pause.requests) == 2  # nobody may have received the first
    setting.pause.is_ready = True
    setting.now += 0.01
    setting.orders.look()
    setting.repeat()
    setting.repeat()
    assert len(setting.pause.requests) == 3


def test_a_paused_publisher_is_paused_again_while_the_stop_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another node may end the pause of MoveIt Servo, whose service agrees again while paused."""
    setting = Setting(monkeypatch, pause_services=["servo_node/pause_servo"])
    servo = setting.servers[SetBool]
    assert servo.last.data
    assert not setting.is_settled()
    for k in range(5):
        servo.answer(k)
        assert setting.is_settled()
        setting.repeat()
    assert len(servo.requests) == 6
    servo.answer(5, agrees=False)
    assert not setting.is_settled()
    found = setting.report()
    assert found.level == ERROR
    assert "/servo_node/pause_servo refuses to stop: no" in found.messages


def test_a_server_that_pauses_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(monkeypatch, pause_services=["servo_node/pause_servo"])
    setting.repeat()
    assert "/servo_node/pause_servo does not answer" in setting.report().messages
    assert not setting.is_settled()
    setting.servers[SetBool].is_ready = False
    setting.orders.look()
    found = setting.report()
    assert found.level == WARN
    assert "no service /servo_node/pause_servo" in found.messages[0]


def test_zero_velocities_are_published_while_the_stop_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their number is that of the joints, until a command of another length arrives."""
    setting = Setting(monkeypatch, velocity_topics=["commands"], twist_topics=["twist"])
    commands, twist = setting.sent["commands"], setting.sent["twist"]
    assert [list(zeros.data) for zeros in commands] == [[0.0, 0.0]]
    setting.node.callbacks["commands"](Float64MultiArray(data=[0.0, 0.0, 0.0]))
    setting.node.callbacks["commands"](Float64MultiArray())
    command = TwistStamped()
    command.header.frame_id = "tool"
    setting.node.callbacks["twist"](command)
    setting.orders.send_refused()
    assert list(commands[-1].data) == [0.0, 0.0, 0.0]
    assert (twist[-1].header.frame_id, twist[-1].header.stamp.sec) == ("tool", int(setting.now))
    assert twist[-1].twist == TwistStamped().twist
    assert setting.is_settled()
    commands.is_refusing = True
    setting.orders.send_refused()
    assert setting.orders.unsent == ["/commands"]
    assert not setting.is_settled()
    setting.orders.end()
    assert not setting.orders.unsent


@pytest.mark.parametrize("number", [0.1, float("nan")])
def test_zeros_that_another_node_overrules_stop_nothing(
    monkeypatch: pytest.MonkeyPatch, number: float
) -> None:
    setting = Setting(monkeypatch, velocity_topics=["commands"], twist_topics=["twist"])
    command = TwistStamped()
    command.twist.angular.z = number
    for topic, message in (
        ("commands", Float64MultiArray(data=[0.0, number])),
        ("twist", command),
    ):
        setting.node.callbacks[topic](message)
        assert not setting.is_settled()
        found = setting.report()
        assert found.level == ERROR
        assert f"another node commands velocities on /{topic}" in found.messages[0]
        assert "zeros do not overrule it" in setting.node.lines[-1]
        setting.now += 1.01 * COMMAND_TIME
        assert setting.is_settled()
    setting.orders.end()
    setting.node.callbacks["commands"](Float64MultiArray(data=[0.0, number]))  # after ~/resume
    assert len(setting.node.lines) == 2


def test_a_velocity_topic_without_controller_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(monkeypatch, velocity_topics=["commands"])
    assert setting.report().level < WARN
    setting.subscribers = 1  # the orders themselves
    setting.orders.look()
    found = setting.report()
    assert found.level == WARN
    assert "no subscriber of /commands: a contact cannot stop it" in found.messages[0]
    assert found.unlogged == [(WARN, found.messages[0])]
