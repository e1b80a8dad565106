"""Allowance for what happens between two samples, where nothing is measured.

Over an interval the observer takes the mean of the momentum's rate at its two ends. What the rate
was in between is unknown: a drive may hold its torque and change it at any instant of the interval,
and in a lively motion the rate over a long interval may be anywhere between its ends. So the mean
external torque of the interval is wrong by up to half their difference. The residual takes a part
of that error and forgets it with its time constant 1/K; the thresholds of joint i allow for the
same::

    allowance_i = (1 - exp(-K_i dt)) |rate_i(end) - rate_i(begin)| / 2

Most differences are noise, which the thresholds contain. Only what is beyond a quarter of the
joint's threshold c counts, unless the interval is much longer than the period of the samples. A
torque that changes by D in every period then raises the threshold to c + (D - c / 4) / 2: the error
D / 2 takes at most an eighth of what is there for errors of model and friction. Where a period is
longer than the time constant, every motion shows such errors, and the thresholds contain them.

Lost samples: the noise of the two efforts at the ends of a long interval is not averaged over the
samples between either. So the first residual after it may be wrong by more than any margin learnt
without lost samples. The debounce counts the interval as one period, however long it was, and until
two time constants 1/K have passed, only an excess that lasts as long as that is a contact: an error
of the interval has then faded to 14 %, and the residual of a real contact is nearly complete.
"""

from __future__ import annotations

import math

from rbd_control.dynamics.compiled import inlined
from rbd_control.joint_states.acceptance import GAP_PERIODS

FADING = 2.0
"""Time constants of the observer after which the error of an interval has faded."""

USUAL = 0.25
"""Change of the torque balance in a period that counts as noise, as a share of the threshold."""

PERIOD_WEIGHT = 0.01
"""Weight of the last interval in the mean period."""


@inlined
def has_lost_samples(arm, dt):
    """Return whether an interval ``dt`` [s] is more than ``GAP_PERIODS`` mean periods long."""
    return dt > GAP_PERIODS * arm.period


@inlined
def learn_period(arm, dt):
    """Include an interval ``dt`` [s] in the mean period; a long one counts as the longest usual."""
    if math.isnan(arm.period):
        arm.period = dt
    else:
        arm.period += PERIOD_WEIGHT * (min(dt, GAP_PERIODS * arm.period) - arm.period)


@inlined
def usual_change(setting, dt):
    """Return the change of a joint's torque balance that its thresholds contain [N·m or N]."""
    return USUAL * setting.contact if setting.pole * dt < 1.0 else math.inf


@inlined
def unknown_torque(before, fade, change, usual):
    """Return the allowance of a joint after an interval [N·m or N].

    Args:
        before: allowance before the interval [N·m or N].
        fade: part of the residual that is left after the interval, exp(-K dt).
        change: difference of the momentum's rate between the ends [N·m or N].
        usual: change that the thresholds contain [N·m or N].
    """
    return fade * before + 0.5 * (1.0 - fade) * max(abs(change) - usual, 0.0)
