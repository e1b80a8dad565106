"""Entry points of the nodes for ``setup.py``; they handle signals before slow imports begin."""

from __future__ import annotations

from importlib import import_module

from rbd_control.errors import RbdControlError
from rbd_control.startup.prompt_end import PromptEnd
from rbd_control.startup.standard_streams import (
    ensure_standard_streams,
    ros_needed,
    say,
    use_one_thread,
)

BAD_START = 1
"""Exit code of a node that cannot start, for example because ROS 2 is not installed."""


def prepare() -> None:
    """Replace closed standard streams, and let SIGINT, SIGTERM and SIGHUP end the process at once.

    Linear algebra will use one thread. Call it before slow imports. The signals then give exit
    code 0.
    """
    ensure_standard_streams()
    use_one_thread()
    PromptEnd(0).start()


def contact_aware_controller() -> int:
    """Run contact detector and passivity controller in one process; return the exit code."""
    return _run("contact_aware_controller")


def contact_detector() -> int:
    """Run the contact detector; return its exit code."""
    return _run("contact_detector")


def contact_guard() -> int:
    """Run the contact guard; return its exit code."""
    return _run("contact_guard")


def demo_scenario() -> int:
    """Run the node that moves and pushes the arm of the demo; return its exit code."""
    return _run("demo_scenario")


def hand_guide() -> int:
    """Run the hand guide; return its exit code."""
    return _run("hand_guide")


def joint_state_player() -> int:
    """Run the joint-state player; return its exit code."""
    return _run("joint_state_player")


def passivity_controller() -> int:
    """Run the passivity controller; return its exit code."""
    return _run("passivity_controller")


def simulated_arm() -> int:
    """Run the simulated arm; return its exit code."""
    return _run("simulated_arm")


def _run(node: str) -> int:
    prepare()
    try:
        with ros_needed(node):
            module = import_module(f"rbd_control.nodes.{node}")
    except RbdControlError as error:
        say(f"{node}: {error}")
        return BAD_START
    code: int = module.main()
    return code
