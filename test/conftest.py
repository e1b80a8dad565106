"""Which tests are collected and in what order they run, and the arm that they share."""

from __future__ import annotations

import os
import signal
from os.path import relpath
from pathlib import Path
from typing import Any

import pytest
from start_order import ONE_AT_A_TIME, start_order
from system.processor_share import session_niceness, set_session_niceness

from rbd_control.startup.standard_streams import use_one_thread

# A shell ignores SIGINT for what it runs in the background, nohup ignores SIGHUP, and processes
# inherit that: the nodes that the tests send signals to would never get them.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _handler)

# As commands and nodes do; several processes share the processors here.
use_one_thread()

_NICENESS = session_niceness()


@pytest.fixture(scope="session", autouse=True)
def width_of_a_file() -> None:
    """Let commands print as into a file; processes that share the tests have 80 columns."""
    os.environ.pop("COLUMNS", None)


@pytest.fixture(scope="session")
def model() -> Any:
    """Return the shipped arm of seven joints; files with another arm define their own."""
    # NumPy, which these import, reads at its import how many threads it may use.
    from rbd_control.dynamics import Model
    from rbd_control.simulation import arm7_urdf

    return Model.from_urdf(arm7_urdf())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start long files first where several processes share the tests."""
    if hasattr(config, "workerinput"):
        here = Path(__file__).resolve().parent
        file_of = {item: Path(relpath(item.path, here)).as_posix() for item in items}
        place = {file: k for k, file in enumerate(start_order(file_of.values()))}
        items.sort(key=lambda item: place[file_of[item]])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give one process the files of :data:`ONE_AT_A_TIME`, and any process one other file."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return "one at a time" if file.removeprefix("test/") in ONE_AT_A_TIME else file

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the niceness of the session, which the terminal shares; workers end before."""
    if not hasattr(config, "workerinput"):
        set_session_niceness(_NICENESS)
