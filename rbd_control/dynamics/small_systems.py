"""Small linear systems, and sines and cosines, for kernels.

**Symmetric linear systems with few unknowns, for kernels.**

A call of LAPACK's solver instead would take numba two seconds to compile.

**Sine and cosine together, without branches and with fewer instructions than the C library.**

An angle is reduced to +-pi/4 by subtracting k pi/2 in three parts (Cody & Waite). There, two
polynomials fitted at Chebyshev points approximate sine and cosine. Apart from one test for angles
beyond ``REACH``, for which the C library computes the results, the code has no calls and no
branches, so the processor computes the angles of several joints in parallel. The error is at most
two units in the last place.
"""

from __future__ import annotations

import math

from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.fused import floor, fma
from rbd_control.dynamics.lanes import any_beyond, get_lane, lane_count, with_lane


@inlined
def factor_cholesky(A):
    """Replace the lower triangle of ``A`` (n, n) by the Cholesky factor L of A = L Lᵀ.

    A must be symmetric and positive definite, which is not checked; only its lower triangle is
    read.
    """
    for i in range(A.shape[0]):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= A[i, k] * A[j, k]
            A[i, j] = math.sqrt(total) if i == j else total / A[j, j]


@inlined
def solve_factored(L, b):
    """Solve L Lᵀ x = b: ``b`` (n,) is replaced by x; only the lower triangle of L (n, n) is read.

    L is a result of :func:`factor_cholesky`.
    """
    n = L.shape[0]
    for i in range(n):
        for k in range(i):
            b[i] -= L[i, k] * b[k]
        b[i] /= L[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            b[i] -= L[k, i] * b[k]
        b[i] /= L[i, i]


REACH = 1e5
"""Largest angle for which the products of k and the parts of pi/2 are exact [rad]."""

_PER_QUARTER_TURN = 2.0 / math.pi
# pi/2 as a sum: 33 bits, 33 bits, and the rest.
_QUARTER_1 = float.fromhex("0x1.921fb544p+0")
_QUARTER_2 = float.fromhex("0x1.0b4611a6p-34")
_QUARTER_3 = float.fromhex("0x1.3198a2e037073p-69")
_ROUNDING = 1.5 * 2.0**52
"""Adding and then subtracting this number rounds to the nearest integer."""


@inlined
def cos_sin(x):
    """Return the pair (cosine, sine) of an angle ``x`` [rad], a float or lanes; in kernels only."""
    k = fma(x, _PER_QUARTER_TURN, _ROUNDING) - _ROUNDING
    r = fma(-k, _QUARTER_3, fma(-k, _QUARTER_2, fma(-k, _QUARTER_1, x)))
    z = r * r
    # (sin r - r) / r³ and (cos r - 1 + r²/2) / r⁴, for r² up to (pi/4)².
    p = fma(z, 1.591810123027412e-10, -2.5051131455427946e-08)
    p = fma(z, fma(z, p, 2.755731610068303e-06), -0.0001984126983675497)
    p = fma(z, fma(z, p, 0.008333333333330946), -0.16666666666666666)
    s = fma(z * r, p, r)
    p = fma(z, -1.1382614868556325e-11, 2.0876146024689747e-09)
    p = fma(z, fma(z, p, -2.7557317270560326e-07), 2.4801587298763433e-05)
    p = fma(z, fma(z, p, -0.0013888888888887395), 0.041666666666666664)
    half = 0.5 * z
    near = 1.0 - half
    c = near + fma(z * z, p, (1.0 - near) - half)
    # Odd quarter turns exchange sine and cosine, half turns change their signs. Products replace
    # branches, because the processor would mispredict every other branch.
    half_turns = floor(0.5 * k)
    odd = k - 2.0 * half_turns
    even = 1.0 - odd
    sign = 1.0 - 2.0 * (half_turns - 2.0 * floor(0.5 * half_turns))
    cosine, sine = sign * (even * c - odd * s), sign * (even * s + odd * c)
    if any_beyond(x, REACH):
        for lane in range(lane_count(x)):
            angle = get_lane(x, lane)
            if abs(angle) > REACH:
                cosine = with_lane(cosine, lane, math.cos(angle))
                sine = with_lane(sine, lane, math.sin(angle))
    return cosine, sine
