"""Export of the dynamics of one robot as dependency-free C, by running kernels on expressions."""

from rbd_control.dynamics.tracing import TracingError
from rbd_control.export.c_files import CFiles
from rbd_control.export.export import export_c
from rbd_control.export.functions import NAMES as FUNCTIONS

__all__ = ["FUNCTIONS", "CFiles", "TracingError", "export_c"]
