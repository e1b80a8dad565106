"""Start of ROS with a middleware that uses no shared memory, and repeats lost messages soon.

Fast DDS sends through shared memory between processes of one computer. The lock of a receiver's
queue lies in that memory. A receiver that is stopped while it holds the lock (Ctrl-Z on ``ros2
topic echo``, a debugger) blocks all processes that send to it, in the call of ``publish``: a
controller then cannot send zero torque either. A receiver that is too busy to answer a check of the
lock within a second receives nothing through shared memory any more. UDP over the loopback
interface has neither problem, because the kernel drops messages that a socket cannot hold. The
nodes and commands of this package therefore use UDP only. They still exchange messages with
processes that use both transports.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar
from xml.etree.ElementTree import Element, SubElement, tostring

import rclpy
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import get_rmw_implementation_identifier

from rbd_control.errors import RbdControlError
from rbd_control.ros.processes import environment

TRANSPORTS = "FASTDDS_BUILTIN_TRANSPORTS"
"""Environment variable with the transports of Fast DDS.

It has no effect with the discovery range ``LOCALHOST``.
"""

UDP = "UDPv4"
"""Transport without shared memory, as a value of :data:`TRANSPORTS` and in profiles."""

_RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
_PEERS = "ROS_STATIC_PEERS"
_ONLY_HERE = "ROS_LOCALHOST_ONLY"
"""The variable of older distributions, which rcl still follows before :data:`_RANGE`."""

_PROFILES, _OLD_PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE"
"""Variables with the file of profiles, in Fast DDS 3 and Fast DDS 2."""

_WITH_FAST_DDS_2 = ("humble", "iron", "jazzy")
"""Values of ``ROS_DISTRO`` of the distributions with Fast DDS 2."""

_EASY_MODE = "ROS2_EASY_MODE"
"""Variable that makes Fast DDS 3 select transports and discovery by itself."""

_PROFILES_HERE = ("DEFAULT_FASTDDS_PROFILES.xml", "DEFAULT_FASTRTPS_PROFILES.xml")
"""Files of profiles that Fast DDS 3 and 2 read from the working folder."""

_OTHER_RANGES = ("", "NOT_SET", "OFF", "SUBNET", "SYSTEM_DEFAULT")
"""Discovery ranges other than ``LOCALHOST``; rcl treats an unknown one as ``LOCALHOST``."""

_RECEIVE_BUFFER = 4_194_304
"""Wanted size of a socket's buffer [bytes]; the kernel gives at most ``net.core.rmem_max``.

Messages for discovery that do not fit are lost, and sent again seconds later.
"""

HEARTBEAT = 0.1
"""Period at which a writer asks its readers for acknowledgements that are missing [s].

A reader requests a lost message after such a heartbeat only. With the 3 s of Fast DDS, a lost
verdict or event would come late, and no acknowledgement of the last zero torque would arrive in
time.
"""

_PARTICIPANTS = 32
"""Number of processes per machine that discovery can find, as in rmw_fastrtps for ``LOCALHOST``."""

_MEMORY = "/dev/shm"
"""Folder in memory, which is used first, so that a full disk keeps no node from starting."""

_REMEDY = f"{TRANSPORTS}=DEFAULT starts it with shared memory"


@contextmanager
def without_shared_memory() -> Iterator[None]:
    """Let ROS start without shared memory within this context.

    Within the ``with`` block call ``rclpy.init`` and create the first node; the transports are then
    fixed. Fast DDS gets a file of profiles with one transport, UDP. Only rmw_fastrtps is affected,
    and only if the user has selected neither transports (:data:`TRANSPORTS`), nor a file of
    profiles, nor the easy mode.

    With the discovery range ``LOCALHOST`` rmw_fastrtps adds shared memory to every profile; the
    profile then contains the discovery of that range, and the range is ``SYSTEM_DEFAULT``. The
    environment is restored on exit.

    Raises:
        RbdControlError: if the file cannot be written or is not used, or a static peer is unknown.
    """
    if (
        not get_rmw_implementation_identifier().startswith("rmw_fastrtps")
        or os.environ.get(TRANSPORTS, UDP) != UDP
        or _has_profiles()
        or os.environ.get(_EASY_MODE)
    ):
        yield
        return
    stays_here = _stays_on_this_machine()
    peers = os.environ.get(_PEERS, "").split(";") if stays_here else ()
    content = udp_profile(("127.0.0.1", *peers) if stays_here else ())
    with ExitStack() as stack:
        try:
            path = _store(content, stack)
        except OSError as error:
            reason = f"cannot write a file of profiles for Fast DDS: {error.strerror}"
            raise RbdControlError(f"{reason}; {_REMEDY}") from error
        changes = {_OLD_PROFILES if _has_fast_dds_2() else _PROFILES: path}
        if stays_here:
            changes |= {_RANGE: "SYSTEM_DEFAULT", _ONLY_HERE: "0"}
        stack.enter_context(environment(changes))
        yield
    if uses_shared_memory():
        raise RbdControlError(f"Fast DDS does not use the profile of the node; {_REMEDY}")


class _Destroyable(Protocol):
    def destroy_node(self) -> object: ...


Client = TypeVar("Client", bound=_Destroyable)


@contextmanager
def running_ros(make: Callable[[], Client], domain: int | None = None) -> Iterator[Client]:
    """Run ROS without shared memory for a command; yield its node.

    Args:
        make: returns the node, or an object with a node that ``destroy_node`` destroys.
        domain: ROS domain; None for that of the environment.

    Raises:
        RbdControlError: as :func:`without_shared_memory`.
    """
    try:
        with without_shared_memory():
            rclpy.init(args=[], domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
            made = make()
        try:
            yield made
        finally:
            made.destroy_node()
    finally:
        rclpy.utilities.try_shutdown()


def uses_shared_memory() -> bool:
    """Return whether Fast DDS has a thread for shared memory in this process.

    On other systems than Linux the result is False.
    """
    return any(name.startswith("dds.shm") for name in thread_names(os.getpid()))


def thread_names(process: int) -> list[str]:
    """Return the names of the threads of a process; an empty list on other systems than Linux."""
    names = []
    for file in Path(f"/proc/{process}/task").glob("*/comm"):
        with suppress(OSError):  # the thread has ended
            names.append(file.read_text().strip())
    return names


def _store(content: bytes, stack: ExitStack) -> str:
    """Return the path of a file that exists until the stack is closed.

    Raises:
        OSError: if it can be written neither to memory nor to a folder for temporary files.
    """
    with suppress(OSError):
        return _store_in(_MEMORY, content, stack)
    return _store_in(tempfile.gettempdir(), content, stack)


def _store_in(folder: str, content: bytes, stack: ExitStack) -> str:
    own = stack.enter_context(tempfile.TemporaryDirectory(prefix="rbd_control_", dir=folder))
    path = Path(own) / "profiles.xml"
    path.write_bytes(content)
    return str(path)


def udp_profile(searched: Sequence[str] = ()) -> bytes:
    """Return the content of a file of profiles (XML) for Fast DDS with UDP as its only transport.

    All writers have the heartbeat period :data:`HEARTBEAT`.

    Args:
        searched: names or IPv4 addresses of the machines that discovery searches by unicast; empty
            texts are left out. With an empty sequence, discovery uses multicast.

    Raises:
        RbdControlError: if the name of a machine cannot be resolved.
    """
    root = Element("dds", xmlns="http://www.eprosima.com")
    profiles = SubElement(root, "profiles")
    transport = SubElement(SubElement(profiles, "transport_descriptors"), "transport_descriptor")
    SubElement(transport, "transport_id").text = "udp"
    SubElement(transport, "type").text = UDP
    SubElement(transport, "receiveBufferSize").text = str(_RECEIVE_BUFFER)
    names = {"profile_name": "rbd_control", "is_default_profile": "true"}
    rtps = SubElement(SubElement(profiles, "participant", names), "rtps")
    if searched:
        SubElement(transport, "maxInitialPeersRange").text = str(_PARTICIPANTS)
        builtin = SubElement(rtps, "builtin")
        # A unicast locator replaces the multicast locator that Fast DDS would add.
        _add_address(SubElement(builtin, "metatrafficUnicastLocatorList"), "0.0.0.0")
        peers = SubElement(builtin, "initialPeersList")
        for machine in filter(None, searched):
            _add_address(peers, _address(machine))
    SubElement(SubElement(rtps, "userTransports"), "transport_id").text = "udp"
    SubElement(rtps, "useBuiltinTransports").text = "false"
    _add_heartbeat(SubElement(profiles, "data_writer", names))
    return tostring(root, encoding="utf-8", xml_declaration=True)


def _add_heartbeat(writer: Element) -> None:
    """Add :data:`HEARTBEAT` to a profile of writers; Fast DDS 3 has renamed the element."""
    name = "heartbeatPeriod" if _has_fast_dds_2() else "heartbeat_period"
    period = SubElement(SubElement(writer, "times"), name)
    SubElement(period, "sec").text = "0"
    SubElement(period, "nanosec").text = str(round(HEARTBEAT * 1e9))


def _add_address(places: Element, address: str) -> None:
    locator = SubElement(SubElement(places, "locator"), "udpv4")
    SubElement(locator, "address").text = address


def _address(peer: str) -> str:
    try:
        return socket.gethostbyname(peer)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RbdControlError(f"{_PEERS}: cannot resolve {peer!r}: {reason}") from error


def _has_fast_dds_2() -> bool:
    return os.environ.get("ROS_DISTRO") in _WITH_FAST_DDS_2


def _has_profiles() -> bool:
    """Return whether the user has a file of profiles, which Fast DDS follows."""
    given = any(os.environ.get(name) for name in (_PROFILES, _OLD_PROFILES))
    return given or any(Path(name).is_file() for name in _PROFILES_HERE)


def _stays_on_this_machine() -> bool:
    only_here = os.environ.get(_ONLY_HERE, "0")
    return only_here == "1" or os.environ.get(_RANGE, "") not in _OTHER_RANGES
