"""Parts of the exported files that do not depend on the robot."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rbd_control.export.statements import NumberFormat, in_comment

_WIDTH = 96


def comment(lines: Sequence[str], opening: str = "/*") -> str:
    """Return a C comment that consists of ``lines``, wrapped to 96 characters each.

    ``opening`` is the first line of the comment, such as ``/**`` for documentation.
    """
    wrapped = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2) if line.startswith((" ", "@")) else ""
        text = in_comment(line)
        wrapped += textwrap.wrap(text, _WIDTH, subsequent_indent=indent) or [""]
    return "\n".join([opening, *(f" * {line}".rstrip() for line in wrapped), " */"])


def includes(prefix: str, form: NumberFormat, *, with_observer: bool) -> str:
    """Return the ``#include`` lines of the source, and the macro ``<PREFIX>_FMA(a, b, c)``.

    The macro computes a b + c, with a fused multiply-add where the processor has it.

    Args:
        prefix: prefix of all C names.
        form: the floating-point type.
        with_observer: whether the source has the functions of :func:`observer`, which need two
            further headers.
    """
    more = "#include <stdint.h>\n#include <string.h>\n" if with_observer else ""
    return _INCLUDES.format(P=prefix.upper(), f=form.suffix, F=form.suffix.upper(), more=more)


_INCLUDES = """\
#include <float.h>
#include <math.h>
{more}
/* a b + c in one instruction, where the processor has it. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(FP_FAST_FMA{F})
#define {P}_FMA(a, b, c) fma{f}((a), (b), (c))
#else
#define {P}_FMA(a, b, c) ((a) * (b) + (c))
#endif
"""


def cos_sin(prefix: str, form: NumberFormat) -> str:
    """Return the C function ``<prefix>_cos_sin``, for the cosines and sines of several angles."""
    text = _SINGLE if form.single else _DOUBLE
    return text.replace("@P", prefix.upper()).replace("@", prefix)


_SINGLE = """\
static void @_cos_sin(int count, const float *angle, float *cosine, float *sine)
{
    int i;
    for (i = 0; i < count; i++) {
        cosine[i] = cosf(angle[i]);
        sine[i] = sinf(angle[i]);
    }
}
"""

_DOUBLE = """\
/*
 * Cosines and sines of several angles [rad]. An angle is brought into +-pi/4 by subtracting k pi/2
 * in three parts (Cody & Waite), where two polynomials take over. The loop has no branch, so
 * compilers make vector instructions of it. Angles beyond 1e5 rad, and all where the compiler may
 * reorder sums or computes with excess precision, are left to the C library, as they are with
 * @P_C_LIBRARY_TRIGONOMETRY defined.
 */
#if !defined(@P_C_LIBRARY_TRIGONOMETRY) && !defined(__FAST_MATH__) && \\
    !defined(__ASSOCIATIVE_MATH__) && defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD == 0
static void @_cos_sin(int count, const double *angle, double *cosine, double *sine)
{
    /* Adding and subtracting this leaves the nearest integer. */
    const double rounding = 6755399441055744.0;
    int i;
    for (i = 0; i < count; i++) {
        const double x = angle[i];
        const double k = @P_FMA(x, 0.6366197723675814, rounding) - rounding;
        const double r = @P_FMA(-k, 2.0222662487959506e-21,
            @P_FMA(-k, 6.077100506303966e-11, @P_FMA(-k, 1.5707963267341256, x)));
        const double z = r * r;
        const double p = @P_FMA(z, @P_FMA(z, @P_FMA(z, @P_FMA(z, @P_FMA(z,
            1.591810123027412e-10, -2.5051131455427946e-08), 2.755731610068303e-06),
            -0.0001984126983675497), 0.008333333333330946), -0.16666666666666666);
        const double u = @P_FMA(z, @P_FMA(z, @P_FMA(z, @P_FMA(z, @P_FMA(z,
            -1.1382614868556325e-11, 2.0876146024689747e-09), -2.7557317270560326e-07),
            2.4801587298763433e-05), -0.0013888888888887395), 0.041666666666666664);
        const double s = @P_FMA(z * r, p, r);
        const double half = 0.5 * z;
        const double rest = 1.0 - half;
        const double c = rest + @P_FMA(z * z, u, (1.0 - rest) - half);
        /* k = 2 h + odd, odd -1, 0 or 1; half turns h change the signs. */
        const double h = (0.5 * k + rounding) - rounding;
        const double odd = k - 2.0 * h;
        const double even = 1.0 - odd * odd;
        const double parity = h - 2.0 * ((0.5 * h + rounding) - rounding);
        const double sign = 1.0 - 2.0 * parity * parity;
        cosine[i] = sign * (even * c - odd * s);
        sine[i] = sign * (even * s + odd * c);
    }
    for (i = 0; i < count; i++) {
        if (fabs(angle[i]) > 1e5) {
            cosine[i] = cos(angle[i]);
            sine[i] = sin(angle[i]);
        }
    }
}
#else
static void @_cos_sin(int count, const double *angle, double *cosine, double *sine)
{
    int i;
    for (i = 0; i < count; i++) {
        cosine[i] = cos(angle[i]);
        sine[i] = sin(angle[i]);
    }
}
#endif
"""


def observer_declaration(prefix: str, form: NumberFormat, nq: int, nv: int) -> str:
    """Return the C declarations of the momentum observer: its state and its two functions.

    The functions are ``<prefix>_observer_reset`` and ``<prefix>_observer_step``.

    Args:
        prefix: prefix of all C names.
        form: the floating-point type.
        nq, nv: numbers of entries of q and v.
    """
    return _filled(_OBSERVER_DECLARATION, prefix, form, nq, nv)


def observer(prefix: str, form: NumberFormat, nq: int, nv: int) -> str:
    """Return the C definitions of the functions that :func:`observer_declaration` declares.

    The observer is of first order. The source must also define ``<prefix>_momentum_observer``,
    which the functions call.
    """
    return _filled(_OBSERVER, prefix, form, nq, nv)


def _filled(text: str, prefix: str, form: NumberFormat, nq: int, nv: int) -> str:
    bits, exponent = ("32", "0x7f800000") if form.single else ("64", "0x7ff0000000000000")
    text = text.replace("@R", form.type_name).replace("@Q", str(nq)).replace("@N", str(nv))
    text = text.replace("@B", bits).replace("@E", exponent)
    return text.replace("@", prefix).replace("%", "@")


_OBSERVER_DECLARATION = """\
/** State of a momentum observer. */
typedef struct @_observer_state {
    @R p[@N];        /**< momentum of the last sample */
    @R rate[@N];     /**< its rate without external torque */
    @R residual[@N]; /**< estimate of the external joint torque [N m or N] */
    int begun;             /**< whether there has been a sample */
} @_observer_state;

/** Make the observer forget; the next sample begins with residual zero. */
void @_observer_reset(@_observer_state *state);

/**
 * Take one sample in; state->residual then is the estimated external joint torque.
 *
 * %param[in,out] state state of the observer
 * %param[in] q joint positions
 * %param[in] v joint velocities
 * %param[in] tau measured joint torques [N m or N]
 * %param[in] dt time since the last sample [s], above zero; ignored for the first sample
 * %param[in] gain observer gains, above zero [1/s]
 * %return 1; 0 if dt or a gain is not above zero or a number is not finite: then the state is as
 * before
 */
int @_observer_step(@_observer_state *state, const @R *q, const @R *v,
    const @R *tau, @R dt, const @R *gain);"""

_OBSERVER = """\
/* Whether x is finite, by its bits: with -ffast-math compilers take isfinite(x) for true. */
static int @_is_finite(@R x)
{
    uint@B_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & UINT@B_C(@E)) != UINT@B_C(@E);
}

void @_observer_reset(@_observer_state *state)
{
    int i;
    state->begun = 0;
    for (i = 0; i < @N; i++) {
        state->p[i] = state->rate[i] = state->residual[i] = 0;
    }
}

int @_observer_step(@_observer_state *state, const @R *q, const @R *v,
    const @R *tau, @R dt, const @R *gain)
{
    @R p[@N], rate[@N], residual[@N];
    int i;
    if (!state->begun) {
        dt = 1;
    }
    if (!(dt > 0) || !@_is_finite(dt)) {
        return 0;
    }
    for (i = 0; i < @Q; i++) {
        if (!@_is_finite(q[i])) {
            return 0;
        }
    }
    for (i = 0; i < @N; i++) {
        if (!@_is_finite(v[i]) || !@_is_finite(tau[i]) || !@_is_finite(gain[i])
            || !(gain[i] > 0)) {
            return 0;
        }
    }
    @_momentum_observer(q, v, tau, dt, gain, state->p, state->rate, state->residual,
        p, rate, residual);
    for (i = 0; i < @N; i++) {
        if (!@_is_finite(p[i]) || !@_is_finite(rate[i]) || !@_is_finite(residual[i])) {
            return 0;
        }
    }
    for (i = 0; i < @N; i++) {
        state->p[i] = p[i];
        state->rate[i] = rate[i];
        state->residual[i] = state->begun ? residual[i] : 0;
    }
    state->begun = 1;
    return 1;
}
"""
