"""``rbd-control payload`` beside nodes of other packages that subscribe to the topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rcl_interfaces.msg import ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.task import Future

from rbd_control.live import requests
from rbd_control.robot.payload import PayloadParameters

PAYLOAD = PayloadParameters(payload_mass=1.5, payload_com=(0.0, 0.0, 0.1))


def values(payload: PayloadParameters) -> list[ParameterValue]:
    """Return the parameters of a node that has accepted a payload."""
    array = ParameterType.PARAMETER_DOUBLE_ARRAY
    return [
        ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=payload.payload_mass),
        ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=payload.payload_link),
        ParameterValue(type=array, double_array_value=list(payload.payload_com)),
        ParameterValue(type=array, double_array_value=list(payload.payload_inertia)),
    ]


@pytest.mark.parametrize(
    ("answer", "has_taken"),
    [
        (values(PAYLOAD), True),
        (values(PayloadParameters()), False),
        ([], False),  # a node in C++ refuses to name parameters that it does not have
        ([ParameterValue()], False),
        ([ParameterValue()] * 4, False),  # a node in Python says that they are not set
    ],
    ids=["taken", "refused", "foreign in C++", "one value", "foreign in Python"],
)
def test_a_foreign_subscriber_has_not_taken_the_payload(
    answer: list[ParameterValue], has_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "TAKING", 0.02)
    ros = SimpleNamespace(
        spin_once=lambda *_, **__: None, spin_until_future_complete=lambda *_, **__: None
    )
    monkeypatch.setattr(requests, "rclpy", ros)

    def call_async(request: GetParameters.Request) -> Future:
        assert request.names[0] == "payload_mass"
        future = Future()
        future.set_result(GetParameters.Response(values=answer))
        return future

    client = SimpleNamespace(wait_for_service=lambda timeout_sec: True, call_async=call_async)
    node: Any = SimpleNamespace(create_client=lambda _kind, _name: client, refusals=None)
    assert requests._has_taken(node, "/viewer", PAYLOAD) == has_taken
