"""Processes that file permissions bind even when the tests run as root."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
_VERSION = 0x20080522
"""Version 3 of the sets of capabilities, see capget(2)."""


def unprivileged() -> Callable[[], None] | None:
    """Return a ``preexec_fn`` that takes root's right to pass over permissions; None for others.

    The right is taken from the process that calls it, and from what it executes.
    """
    if os.geteuid() != 0:
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable; twice

    def drop() -> None:
        failed = libc.capget(header, sets)
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            failed |= libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
            sets[0] &= ~(1 << capability)
        if failed or libc.capset(header, sets):
            os._exit(99)

    return drop
