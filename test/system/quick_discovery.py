"""Profile of Fast DDS with which the participants of the tests discover each other at once."""

from __future__ import annotations

from collections.abc import Sequence

from rbd_control.ros import transports

QUICK = "RBD_CONTROL_TEST_QUICK_DISCOVERY"
"""Environment variable with which forked nodes use :func:`quick_profile`."""

ANNOUNCED = b"""<discovery_config><leaseAnnouncement>
<sec>0</sec><nanosec>200000000</nanosec>
</leaseAnnouncement></discovery_config>"""
"""Period at which a participant announces itself, 0.2 s; by default it is 3 s."""

udp_profile = transports.udp_profile


def quick_profile(searched: Sequence[str] = ()) -> bytes:
    """Return the profile of the package with a short period of announcements.

    The first announcements of a participant may come before another participant listens to them.
    Such a start then waits for the next announcement. Modules of tests that need the period of the
    user have ``DEFAULT_DISCOVERY = True``.
    """
    profile = udp_profile(searched)
    if b"<builtin>" in profile:
        return profile.replace(b"<builtin>", b"<builtin>" + ANNOUNCED)
    return profile.replace(b"<rtps>", b"<rtps><builtin>" + ANNOUNCED + b"</builtin>")
