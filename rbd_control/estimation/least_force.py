"""Compiled part of the weakest push: the least force for which the statistic passes."""

from __future__ import annotations

import math

import numpy as np

from rbd_control.dynamics.compiled import compiled


@compiled
def least_forces_by_statistic(torque, residual, allowance, whitening, statistic, most, least):
    """Find the least force f at which the statistic of each sample passes its threshold.

    The statistic is ‖W less_friction(r + f τ)‖, where ``less_friction`` reduces each magnitude by
    the friction margin, down to zero. It is continuous in f. Between the forces at which a
    component of ``r + f τ`` passes its margin, ``less_friction`` is ``α + f β``, and the statistic
    passes its threshold s at a root of ``A f² + 2 B f + C``::

        A = ‖W β‖²,  B = (W α)·(W β),  C = ‖W α‖² − s²

    The intervals are searched in ascending order.

    Args:
        torque: τ, residual of a force of 1 N, (k, nv) [N·m or N].
        residual: r, residual without the force, (k, nv) [N·m or N].
        allowance: friction margins, (k, nv) [N·m or N].
        whitening: W, (nv, nv), lower triangular.
        statistic: s, (k,).
        most: upper bound of f, (k,) [N].
        least: least force, (k,) [N], written; ``most`` where no smaller force passes.
    """
    n = torque.shape[1]
    alpha, beta = np.empty(n), np.empty(n)
    for k in range(torque.shape[0]):
        low = 0.0
        while low < most[k]:
            high = most[k]
            for i in range(n):
                if torque[k, i] != 0.0:
                    for margin in (-allowance[k, i], allowance[k, i]):
                        f = (margin - residual[k, i]) / torque[k, i]
                        if low < f < high:
                            high = f
            middle = 0.5 * (low + high)
            for i in range(n):
                r = residual[k, i] + middle * torque[k, i]
                if abs(r) > allowance[k, i]:
                    alpha[i] = residual[k, i] - math.copysign(allowance[k, i], r)
                    beta[i] = torque[k, i]
                else:
                    alpha[i], beta[i] = 0.0, 0.0
            A, B, C = 0.0, 0.0, -statistic[k] * statistic[k]
            for i in range(n):
                a, b = 0.0, 0.0
                for j in range(i + 1):
                    a += whitening[i, j] * alpha[j]
                    b += whitening[i, j] * beta[j]
                A += b * b
                B += a * b
                C += a * a
            if (A * low + 2.0 * B) * low + C > 0.0:
                break  # passed already without the force; at later intervals it is a rounding error
            if A > 0.0:
                # Not above zero at ``low``: the next root is the larger one.
                root = math.sqrt(max(B * B - A * C, 0.0))
                f = -C / (B + root) if B > 0.0 else (root - B) / A
                if f < high:
                    low = max(f, low)
                    break
            low = high
        least[k] = low
