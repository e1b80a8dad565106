"""Check of a recording: its quality, the arm's description, and the weakest detectable push."""

from rbd_control.check.page import print_check, write_check
from rbd_control.check.run import CheckResult, check_recording
from rbd_control.check.weakest_push import WeakestPush, weakest_pushes, weakest_pushes_in
from rbd_control.identification.findings import Line

__all__ = [
    "CheckResult",
    "Line",
    "WeakestPush",
    "check_recording",
    "print_check",
    "weakest_pushes",
    "weakest_pushes_in",
    "write_check",
]
