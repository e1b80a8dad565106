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
any calibration without lost samples shows. Until two time constants 1/K have passed, an excess
counts as contact only if it lasts for this time. The error of the interval has then decayed to
14 %, and the residual of a contact is nearly complete. The debounce counts a long interval as one
period if the excess begins at its end, otherwise as at most a quarter of the debounce time. A few
samples with the same error are therefore no contact. If every interval is long, a contact is
detected two time constants or four intervals late, whichever is longer. An interval after which the
detector accepts samples again is treated in the same way if dropped samples have ended a contact.

The mean period is the mean of the intervals, each counted as at most ``GAP_PERIODS`` mean
intervals. The mean interval, the time that has passed divided by the number of samples, follows
batches of samples and changes of the rate. If the upper bound were a multiple of the mean period
itself, this mean could stay at a small part of the period for ever, and each batch would count as
lost samples. A restart of the observer restarts both means.
"""

from __future__ import annotations

import math

from rbd_control.dynamics.compiled import inlined
from rbd_control.joint_states.acceptance import GAP_PERIODS

FADING = 2.0
"""Number of time constants of the observer after which the error of lost samples has decayed."""

GAP_SHARE = 0.25
"""Largest fraction of a debounce time that one interval with lost samples counts for."""

USUAL = 0.25
"""Change of the momentum's rate in an interval that counts as noise, as a share of the contact
threshold."""

LEAST_INTERVALS = 10
"""Number of intervals after a start of the observer from which lost samples are detected."""

MOST_INTERVALS = 100
"""Number of intervals in mean interval and mean period; the weight of older intervals decays."""


@inlined
def has_lost_samples(arm, dt):
    """Return whether samples are lost: an interval is longer than ``GAP_PERIODS`` mean periods.

    In the first ``LEAST_INTERVALS`` intervals after a start of the observer the result is False.

    Args:
        arm: memory of the arm, the element of :attr:`~.detector_state.Memory.arm`.
        dt: length of the interval [s].
    """
    return arm.intervals >= LEAST_INTERVALS and dt > GAP_PERIODS * arm.period


@inlined
def learn_period(arm, dt):
    """Update the mean interval and the mean period of the samples with one interval.

    Args:
        arm: memory of the arm, the element of :attr:`~.detector_state.Memory.arm`, updated.
        dt: length of the interval [s]; it counts as at most ``GAP_PERIODS`` mean intervals in the
            mean period.
    """
    arm.intervals = min(arm.intervals + 1, MOST_INTERVALS)
    weight = 1.0 / arm.intervals
    arm.mean_interval += weight * (dt - arm.mean_interval)
    arm.period += weight * (min(dt, GAP_PERIODS * arm.mean_interval) - arm.period)


@inlined
def usual_change(setting, dt):
    """Return the change of the momentum's rate that a joint's thresholds cover [N·m or N].

    It is ``USUAL`` times the contact threshold, but infinite if the interval is at least as long as
    the time constant 1/K of the observer.

    Args:
        setting: settings of the joint, an element of :attr:`~.detector_state.Settings.joint`.
        dt: length of the interval [s].
    """
    return USUAL * setting.contact_threshold if setting.observer_gain * dt < 1.0 else math.inf


@inlined
def unknown_torque(before, fade, change, usual):
    """Return the threshold allowance for unknown torque after an interval [N·m or N].

    Args:
        before: allowance before the interval [N·m or N].
        fade: fraction of the residual that remains after the interval, exp(-K dt).
        change: difference of the momentum's rate between the ends [N·m or N].
        usual: change that the thresholds cover, from :func:`usual_change` [N·m or N].
    """
    return fade * before + 0.5 * (1.0 - fade) * max(abs(change) - usual, 0.0)
