"""What nodes change in their process: the garbage collector and the priority of threads."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("rclpy")

from rbd_control.ros import threads
from rbd_control.ros.threads import freeze_garbage, share_priority


class Cycle:
    """An object that only the garbage collector can remove."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threads, "_has_frozen", False)
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("collector")
def test_what_an_earlier_configuration_froze_is_collected() -> None:
    kept = Cycle()
    gone = weakref.ref(kept)
    freeze_garbage()
    assert gc.get_freeze_count() > 0
    del kept
    gc.collect()
    assert gone() is not None
    freeze_garbage()
    assert gone() is None
    assert gc.get_freeze_count() > 0


class Scheduler:
    """Replaces the calls of the system; ``of`` has policy and priority of each thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: dict[int, tuple[int, int]] = {}
        self.limit = 99
        self.calls = 0
        monkeypatch.setattr(os, "sched_setscheduler", self._set)
        monkeypatch.setattr(os, "setpriority", lambda *_: None)
        monkeypatch.setattr(threads, "_taken", 0)
        monkeypatch.setattr(threads, "_wanted", {})

    def _set(self, thread: int, policy: int, rank: Any) -> None:
        self.calls += 1
        if rank.sched_priority > self.limit:
            raise PermissionError
        self.of[thread] = policy & ~os.SCHED_RESET_ON_FORK, rank.sched_priority

    def mine(self) -> tuple[int, int]:
        return self.of[threading.get_native_id()]


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    return Scheduler(monkeypatch)


def test_a_node_does_not_take_the_priority_of_another(scheduler: Scheduler) -> None:
    share_priority("controller", 10)
    share_priority("detector", 0)
    assert scheduler.mine() == (os.SCHED_RR, 10)
    share_priority("detector", 20)
    assert scheduler.mine() == (os.SCHED_RR, 20)
    share_priority("detector", 0)
    assert scheduler.mine() == (os.SCHED_RR, 10)
