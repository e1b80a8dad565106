"""Fuzzed inputs as bytes, so that a failure can be saved and repeated exactly."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from struct import pack_into
from typing import Any

from rclpy.serialization import deserialize_message, serialize_message

_STAMP_AT = 4
"""Offset of the stamp in a message that begins with a header: after the encapsulation [bytes]."""


@dataclass(frozen=True)
class Input:
    """One serialized message for a topic, or one serialized request to a service.

    Attributes:
        kind: name of the row of the results that counts the input.
        channel: full name of the topic or service.
        type: ``package/msg/Name``, ``package/srv/Name`` or ``package/action/Name_Service``.
        payload: serialized message or request, encapsulation included.
        shift: offset of the stamp from the time of sending [s]; None to keep the stamp.
    """

    kind: str
    channel: str
    type: str
    payload: bytes
    shift: float | None = None

    @property
    def is_request(self) -> bool:
        """Whether the input is a request to a service."""
        return "/msg/" not in self.type

    def stamped(self, now: int) -> bytes:
        """Return the payload to send at the time ``now`` [ns], with its stamp set from ``shift``.

        Without ``shift``, and for a payload that is too short for a stamp, it is unchanged.
        """
        if self.shift is None or len(self.payload) < _STAMP_AT + 8:
            return self.payload
        # Stamps are limited to what the 32-bit field of seconds can hold.
        stamp = min(max(now + round(self.shift * 1e9), -(2**31) * 10**9), (2**31 - 1) * 10**9)
        payload = bytearray(self.payload)
        pack_into("<iI", payload, _STAMP_AT, stamp // 10**9, stamp % 10**9)
        return bytes(payload)

    def request(self) -> Any:
        """Return the request as a message.

        Raises:
            TypeError: when the input is a message for a topic.
        """
        if not self.is_request:
            raise TypeError(f"{self.channel} is a topic")
        return deserialize_message(self.payload, type_of(self.type).Request)

    def to_json(self) -> dict[str, Any]:
        """Return the input as plain values that ``json`` can write, for :meth:`from_json`."""
        return {
            "kind": self.kind,
            "channel": self.channel,
            "type": self.type,
            "payload": b64encode(self.payload).decode(),
            "shift": self.shift,
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Input:
        """Return the input from the result of :meth:`to_json`.

        Raises:
            KeyError: if a value is missing.
        """
        return cls(
            plain["kind"],
            plain["channel"],
            plain["type"],
            b64decode(plain["payload"]),
            plain["shift"],
        )


@cache
def type_of(name: str) -> Any:
    """Return the Python class of a ROS type: ``package/msg/Name`` or ``package/srv/Name``.

    Services of actions have separate types, such as ``package/action/Name_SendGoal``.

    Raises:
        ModuleNotFoundError: when the package of the type is not installed.
    """
    package, group, kind = name.split("/")
    module = import_module(f"{package}.{group}")
    if group == "action":
        action, _, service = kind.partition("_")
        return getattr(getattr(module, action).Impl, f"{service}Service")
    return getattr(module, kind)


def message_input(
    kind: str, channel: str, type_name: str, message: Any, shift: float | None = None
) -> Input:
    """Return the input that publishes ``message`` on a topic; see :class:`Input`."""
    return Input(kind, channel, type_name, serialize_message(message), shift)


def request_input(kind: str, channel: str, type_name: str, request: Any) -> Input:
    """Return the input that sends ``request`` to a service; see :class:`Input`."""
    return Input(kind, channel, type_name, serialize_message(request))


def size_of(inputs: Sequence[Input]) -> int:
    """Return the number of bytes of all payloads."""
    return sum(len(each.payload) for each in inputs)
