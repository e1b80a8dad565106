"""What a recording is, whether it can be trusted, and the weakest push that would be found."""

from rbd_control.check.findings import Line
from rbd_control.check.page import print_check, write_check
from rbd_control.check.run import CheckResult, check_recording
from rbd_control.check.weakest_push import WeakestPush, weakest_pushes

__all__ = [
    "CheckResult",
    "Line",
    "WeakestPush",
    "check_recording",
    "print_check",
    "weakest_pushes",
    "write_check",
]
