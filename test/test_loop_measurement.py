"""Measurement of the control loop: delays, drives and resonances that are known in a simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isnan

import numpy as np
import pytest
from control_loop import HOME, IDEAL, Loop

from rbd_control.control.loop_measurement import LARGEST_MOTION, LARGEST_SPEED, STANDS
from rbd_control.control.loop_result import JointResponse, LoopResult
from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.simulation import arm7_model

DISTANCE = 1.2
"""Bound of the motion in these tests, by the bounds of the measurement: the arm stops late."""
