"""The transports and the discovery that nodes select before ROS starts."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from defusedxml.ElementTree import fromstring

from rbd_control.errors import RbdControlError
from rbd_control.ros.transports import TRANSPORTS, udp_profile, without_shared_memory

RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
PROFILES, OLD_PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Leave nothing in the environment that selects transports or discovery."""
    for name in (TRANSPORTS, PROFILES, OLD_PROFILES, RANGE, "ROS_STATIC_PEERS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("discovery", ["", "OFF"])
def test_a_wide_range_keeps_its_discovery(discovery: str, here: pytest.MonkeyPatch) -> None:
    here.setenv(RANGE, discovery)
    before = dict(os.environ)
    with without_shared_memory():
        profile = fromstring(Path(os.environ[PROFILES]).read_bytes())
        assert os.environ[RANGE] == discovery
        assert addresses(profile) == []
    assert dict(os.environ) == before


@pytest.mark.parametrize("variables", [{RANGE: "LOCALHOST"}, {"ROS_LOCALHOST_ONLY": "1"}])
def test_a_node_of_this_machine_looks_for_others_there(
    variables: dict[str, str], here: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        here.setenv(name, value)
    before = dict(os.environ)
    with without_shared_memory():
        file = Path(os.environ[PROFILES])
        assert os.environ[RANGE] == "SYSTEM_DEFAULT"
        assert os.environ["ROS_LOCALHOST_ONLY"] == "0"
        assert addresses(fromstring(file.read_bytes())) == ["127.0.0.1"]
    assert dict(os.environ) == before
    assert not file.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (TRANSPORTS, "DEFAULT"),
        (PROFILES, "mine.xml"),
    ],
)
def test_what_the_user_selected_is_kept(name: str, value: str, here: pytest.MonkeyPatch) -> None:
    here.setenv(name, value)
    before = dict(os.environ)
    with without_shared_memory():
        assert dict(os.environ) == before


def test_a_profile_that_is_not_used_ends_the_start(here: pytest.MonkeyPatch) -> None:
    """In the range ``LOCALHOST`` the whole network would discover the node."""
    here.setattr("rbd_control.ros.transports.uses_shared_memory", lambda: True)
    with pytest.raises(RbdControlError, match="does not use the profile"), without_shared_memory():
        pass


def test_static_peers_are_looked_for() -> None:
    root = fromstring(udp_profile(["192.168.1.10", "", "localhost"]))
    assert addresses(root) == ["192.168.1.10", "127.0.0.1"]
    with pytest.raises(RbdControlError, match="ROS_STATIC_PEERS: cannot resolve 'no.such.invalid'"):
        udp_profile(["no.such.invalid"])


@pytest.mark.parametrize(
    ("distribution", "element"), [("jazzy", "heartbeatPeriod"), ("kilted", "heartbeat_period")]
)
def test_lost_messages_are_repeated_soon(
    distribution: str, element: str, here: pytest.MonkeyPatch
) -> None:
    """By default Fast DDS finds out after 3 s; its release 3 has renamed the element."""
    here.setenv("ROS_DISTRO", distribution)
    name = "{http://www.eprosima.com}"
    steps = ("profiles", "data_writer", "times", element, "nanosec")
    path = "/".join(name + step for step in steps)
    assert fromstring(udp_profile()).findtext(path) == "100000000"


def test_no_folder_for_the_profile_ends_the_start(here: pytest.MonkeyPatch) -> None:
    here.setattr("tempfile.tempdir", "/no/such/folder")
    here.setattr("rbd_control.ros.transports._MEMORY", "/no/such/folder")
    with (
        pytest.raises(RbdControlError, match="cannot write a file of profiles for Fast DDS"),
        without_shared_memory(),
    ):
        pass


def addresses(root: Element) -> list[str]:
    """Return the addresses at which a profile looks for other participants."""
    name = "{http://www.eprosima.com}"
    return [found.text or "" for found in root.findall(f".//{name}initialPeersList//{name}address")]
