"""Threshold allowance for the unknown torque between two samples.

For an interval between two samples the observer uses the mean of the momentum's rate at both ends.
The rate in between is not measured: a drive may hold its torque and change it at any instant of the
interval, and in a fast motion the rate within a long interval may have any value between the values
at its ends. The mean external torque of the interval may therefore be wrong by half the difference
of the two rates. The residual contains the filtered error, which decays with the time constant 1/K.
The allowance of joint i, which is added to its thresholds, increases with each interval and decays
in the same way::

    increase_i = (1 - exp(-K_i dt)) |rate_i(end) - rate_i(begin)| / 2

Most differences are noise, which the thresholds cover. Therefore a quarter of the joint's contact
threshold c is subtracted from the difference, unless the interval is longer than ``GAP_PERIODS``
mean periods. A torque that changes by D > c / 4 in every period then raises the threshold to
c + (D - c / 4) / 2. After subtraction of the error D / 2 the threshold still has 7/8 c for errors
of model and friction. If a period is longer than the time constant, such errors occur in every
motion, and the calibrated thresholds cover them; the allowance then applies to long intervals only.

Lost samples. In an interval longer than ``GAP_PERIODS`` mean periods, the noise of the efforts at
both ends is not averaged over samples in between, so the next residual may have a larger error than
any calibration without lost samples shows. The debounce counts such an interval as one period.
Until two time constants 1/K have passed, an excess counts as contact only if it lasts for this
time. The error of the interval has then decayed to 14 %, and the residual of a contact is nearly
complete.
"""

from __future__ import annotations

import math

from rbd_control.dynamics.compiled import inlined
from rbd_control.joint_states.acceptance import GAP_PERIODS

FADING = 2.0
"""Number of time constants of the observer after which the error of an interval has decayed."""

USUAL = 0.25
"""Change of the momentum's rate in a period that counts as noise, as a share of the threshold."""

PERIOD_WEIGHT = 0.01
"""Weight of the last interval in the mean period."""


@inlined
def has_lost_samples(arm, dt):
    """Return whether an interval ``dt`` [s] is more than ``GAP_PERIODS`` mean periods long."""
    return dt > GAP_PERIODS * arm.period


@inlined
def learn_period(arm, dt):
    """Update the mean period with ``dt`` [s], which counts as at most ``GAP_PERIODS`` periods."""
    if math.isnan(arm.period):
        arm.period = dt
    else:
        arm.period += PERIOD_WEIGHT * (min(dt, GAP_PERIODS * arm.period) - arm.period)


@inlined
def usual_change(setting, dt):
    """Return the change of the momentum's rate that a joint's thresholds cover [N·m or N]."""
    return USUAL * setting.contact if setting.pole * dt < 1.0 else math.inf


@inlined
def unknown_torque(before, fade, change, usual):
    """Return the allowance of a joint after an interval [N·m or N].

    Args:
        before: allowance before the interval [N·m or N].
        fade: fraction of the residual that remains after the interval, exp(-K dt).
        change: difference of the momentum's rate between the ends [N·m or N].
        usual: change that the thresholds cover [N·m or N].
    """
    return fade * before + 0.5 * (1.0 - fade) * max(abs(change) - usual, 0.0)
