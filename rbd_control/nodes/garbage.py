"""Exclusion of the long-lived objects of a node from Python's garbage collection."""

from __future__ import annotations

import gc

_has_frozen = False
"""Whether :func:`freeze_garbage` has been called in this process."""


def freeze_garbage() -> None:
    """Collect all garbage, and exclude the objects that remain from later collections.

    Each pass of the collector over them would delay samples by tens of milliseconds. Objects that
    an earlier call excluded are included in this collection: those of an earlier configuration of a
    node may have become garbage.
    """
    global _has_frozen
    if _has_frozen:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    _has_frozen = True
