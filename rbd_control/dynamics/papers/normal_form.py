"""Coriolis matrices of other factorizations, and the normal form of their elements.

**Other Coriolis matrices: EW21's Algorithm 1 with any body-level factor, and its Jacobian form.**

EW21 is Echeandia & Wensing, ASME J. Comput. Nonlinear Dyn. 2021. Many matrices C give the same
vector ``C v``. A body-level factor with ``B(v, I) v = v x* I v`` and ``B + Bᵀ = I_dot`` (EW21
Definition 4), for a body with twist v and inertia I, gives a C for which ``M_dot - 2 C`` is
skew-symmetric (Prop. 1). Of the two factors here, only the first gives the C of the Christoffel
symbols (Prop. 2):

- ``"christoffel"``: ½[(v x*) I + (I v) x̄* - I (v x)], EW21 eq. 10 (Niemeyer & Slotine),
- ``"cross"``: (v x*) I, EW21 eq. 9; admissible, because its symmetric part equals that of the
  first.

The functions use dense 6x6 matrices in numpy and serve comparisons. For all other purposes use
:func:`~rbd_control.dynamics.coriolis_matrix`.

**Unique normal form of a polynomial in sines and cosines, as a sympy expression.**

``sin² = 1 - cos²`` turns every polynomial in the sines and cosines of independent angles into a
polynomial of first degree in each sine. Two such polynomials are equal as functions only if they
are equal term by term, because the leading terms of the relations have no common factor, so that
the relations form a Gröbner basis. Equality of two expressions of robot dynamics follows from a
comparison of their normal forms. ``sympy.simplify``, which searches, takes a hundred times as long
for a planar arm of two links. The square of the scalar part of a unit quaternion is replaced in the
same way.

Every other part of an expression, such as ``1 / (1 + x)``, is treated as a symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rbd_control.dynamics.arguments import state
from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.inertia import cross_matrix, spatial_inertia
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.sweep import move_bodies, new_sweep, place_bodies, place_inertias
from rbd_control.errors import InputError

if TYPE_CHECKING:
    import sympy

FACTORIZATIONS = ("christoffel", "cross")


def motion_cross(v: np.ndarray) -> np.ndarray:
    """Return the (6, 6) matrix of ``v x`` for a twist v = [w; u], (6,) (EW21 Appendix A)."""
    result = np.zeros((6, 6))
    result[:3, :3] = result[3:, 3:] = cross_matrix(v[:3])
    result[3:, :3] = cross_matrix(v[3:])
    return result


def force_cross(v: np.ndarray) -> np.ndarray:
    """Return the (6, 6) matrix of ``v x*``, -(v x)ᵀ, for a twist v, (6,) (EW21 eq. 8)."""
    return -motion_cross(v).T


def force_cross_bar(f: np.ndarray) -> np.ndarray:
    """Return the (6, 6) matrix of ``f x̄*`` for a spatial force f = [moment; force], (6,).

    It is defined by (f x̄*) v = (v x*) f for every twist v (EW21 Appendix A).
    """
    result = np.zeros((6, 6))
    result[:3, :3] = -cross_matrix(f[:3])
    result[:3, 3:] = result[3:, :3] = -cross_matrix(f[3:])
    return result


def body_factor(v: np.ndarray, inertia: np.ndarray, factorization: str) -> np.ndarray:
    """Return the body-level factor B(v, I) of one body, (6, 6), defined in the module's docstring.

    Args:
        v: twist of the body, [w; u], (6,).
        inertia: spatial inertia of the body, (6, 6), about the same origin and in the same axes.
        factorization: ``"christoffel"`` or ``"cross"``.

    Raises:
        InputError: for an unknown factorisation, listing the choices.
    """
    if factorization == "christoffel":
        return 0.5 * (
            force_cross(v) @ inertia + force_cross_bar(inertia @ v) - inertia @ motion_cross(v)
        )
    if factorization == "cross":
        return force_cross(v) @ inertia
    raise InputError(f"no factorisation {factorization!r}; choices are {', '.join(FACTORIZATIONS)}")


@compiled
def _outward(packed, q, v, Phi, Phi_dot, velocity, inertia):
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    place_bodies(model, q, s)
    move_bodies(model, v, s)
    place_inertias(model, s)
    Phi[:] = s.Phi
    Phi_dot[:] = s.Phi_dot
    velocity[:] = s.velocity
    inertia[:] = s.inertia


class _Bodies:
    """Motion subspaces, their rates, twists, inertias and factors of all rows at one state.

    Rows are those of ``ModelArrays``. :func:`_algorithm_1` changes inertias and factors.
    """

    def __init__(self, model: Model, q: np.ndarray, v: np.ndarray, factorization: str) -> None:
        n = model.arrays.parent.size
        self.parent, self.dof = model.arrays.parent, model.arrays.dof
        self.Phi, self.Phi_dot, self.velocity = (np.empty((n, 6)) for _ in range(3))
        numbers = np.empty((n, 10))
        _outward(model.packed, q, v, self.Phi, self.Phi_dot, self.velocity, numbers)
        self.inertia = np.empty((n, 6, 6))
        for i, (m, hx, hy, hz, xx, xy, xz, yy, yz, zz) in enumerate(numbers):
            rows = [xx, xy, xz, hx], [xy, yy, yz, hy], [xz, yz, zz, hz], [hx, hy, hz, m]
            self.inertia[i] = spatial_inertia(np.array(rows))
        self.factor = np.empty((n, 6, 6))
        for i in range(n):
            self.factor[i] = body_factor(self.velocity[i], self.inertia[i], factorization)


def admissible_coriolis_matrix(
    model: Model, q: np.ndarray, v: np.ndarray, factorization: str = "christoffel"
) -> np.ndarray:
    """Return the Coriolis matrix C that follows from a choice of the body-level factor.

    ``C v`` is the same for every choice, and ``M_dot - 2 C`` is skew-symmetric.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        v: joint velocities, (..., nv) [rad/s or m/s].
        factorization: ``"christoffel"`` for the C of the Christoffel symbols, or ``"cross"``.

    Returns:
        (..., nv, nv) [torque or force per unit of joint velocity].

    Raises:
        InputError: for an unknown factorisation, or arguments of the wrong shape or not finite.

    Source: EW21 Algorithm 1 with the factor of line 6 replaced, eq. 18; O(Nd).
    """
    return _each_state(model, q, v, factorization, _algorithm_1)


def coriolis_matrix_from_body_jacobians(
    model: Model, q: np.ndarray, v: np.ndarray, factorization: str = "christoffel"
) -> np.ndarray:
    """Return the Coriolis matrix C = sum over bodies of J_kᵀ (B_k J_k + I_k J_dot_k).

    J_k is the Jacobian, I_k the inertia and B_k the body-level factor of body k. Arguments, result
    and errors are those of :func:`admissible_coriolis_matrix`, which uses a recursion instead.

    Source: EW21 Remark 4, eq. 30; O(N³).
    """
    return _each_state(model, q, v, factorization, _body_jacobian_sum)


def _each_state(model, q, v, factorization, compute):
    (batch, velocities), shape = state(model, q, v=v)
    C = np.empty((batch.shape[0], model.nv, model.nv))
    for b in range(batch.shape[0]):
        C[b] = compute(_Bodies(model, batch[b], velocities[b], factorization), model.nv)
    return C.reshape(*shape, model.nv, model.nv)


def _algorithm_1(s: _Bodies, nv: int) -> np.ndarray:
    C = np.zeros((nv, nv))
    for j in reversed(range(len(s.parent))):
        F1 = s.inertia[j] @ s.Phi_dot[j] + s.factor[j] @ s.Phi[j]
        F2 = s.inertia[j] @ s.Phi[j]
        F3 = s.factor[j].T @ s.Phi[j]
        C[s.dof[j], s.dof[j]] += s.Phi[j] @ F1
        i = s.parent[j]
        while i >= 0:
            C[s.dof[i], s.dof[j]] += s.Phi[i] @ F1
            C[s.dof[j], s.dof[i]] += s.Phi_dot[i] @ F2 + s.Phi[i] @ F3
            i = s.parent[i]
        if s.parent[j] >= 0:
            s.inertia[s.parent[j]] += s.inertia[j]
            s.factor[s.parent[j]] += s.factor[j]
    return C


def _body_jacobian_sum(s: _Bodies, nv: int) -> np.ndarray:
    C = np.zeros((nv, nv))
    for k in range(len(s.parent)):
        J, J_dot = np.zeros((6, nv)), np.zeros((6, nv))
        i = k
        while i >= 0:
            J[:, s.dof[i]] += s.Phi[i]
            J_dot[:, s.dof[i]] += s.Phi_dot[i]
            i = s.parent[i]
        C += J.T @ (s.factor[k] @ J + s.inertia[k] @ J_dot)
    return C


class NormalForm:
    """Converts expressions to the normal form of this module: ``NormalForm(expressions)(x)``.

    Here ``x`` is one of the expressions or a part of one.

    Args:
        expressions: all sympy expressions that will be converted.
        quaternion: the four symbols x, y, z, w of a unit quaternion; empty if there is none.
    """

    def __init__(
        self, expressions: Iterable[sympy.Expr], quaternion: Sequence[sympy.Expr] = ()
    ) -> None:
        """Prepare the normal form; the squares of the four symbols ``quaternion`` add to one."""
        import sympy

        symbols, bases = _parts(expressions)
        listed = sorted({*symbols, *quaternion}, key=sympy.default_sort_key)
        inverted = sorted(bases, key=sympy.default_sort_key)
        self._values = [*listed, *(1 / base for base in inverted)]
        names = [sympy.Dummy() for _ in self._values]
        self._ring = sympy.polys.rings.PolyRing(names, sympy.QQ, sympy.lex)
        count, gens = len(listed), self._ring.gens
        self._known = dict(zip(listed, gens[:count], strict=True))
        self._inverse = dict(zip(inverted, gens[count:], strict=True))
        # Index of a symbol -> the polynomial that is its square.
        self._squares: dict[int, Any] = {}
        for i, symbol in enumerate(listed):
            if isinstance(symbol, sympy.sin):
                self._squares[i] = 1 - self._known[sympy.cos(symbol.args[0])] ** 2
        if quaternion:
            *vector, scalar = (self._known[x] for x in quaternion)
            self._squares[gens.index(scalar)] = 1 - sum(x**2 for x in vector)

    def __call__(self, expression: sympy.Expr) -> sympy.Expr:
        """Return the normal form of an expression, with common factors of all terms in front.

        ``expression`` is one of the expressions given to the constructor, or a part of one.
        A coefficient with more than 15 digits in numerator or denominator becomes a float.
        """
        import sympy

        terms = (
            sympy.Mul(_short(coefficient), *map(sympy.Pow, self._values, monomial))
            for monomial, coefficient in self._polynomial(expression).terms()
        )
        return sympy.factor_terms(sympy.Add(*terms))

    def _polynomial(self, e: Any) -> Any:
        """Return ``e`` as a polynomial of first degree in the symbols whose square is replaced."""
        if e in self._known:
            return self._known[e]
        if e.is_Rational:
            result = self._ring.ground_new(self._ring.domain.from_sympy(e))
        elif e.is_Add:
            result = sum(map(self._polynomial, e.args), self._ring.zero)
        elif e.is_Mul:
            result = self._product(map(self._polynomial, e.args))
        else:
            base = self._polynomial(e.base)
            if e.exp > 0:
                result = self._product([base] * int(e.exp))
            elif base.is_ground and base:
                result = self._ring.ground_new(base.LC ** int(e.exp))
            else:
                result = self._inverse[e.base] ** int(-e.exp)
        self._known[e] = result
        return result

    def _product(self, factors: Iterable[Any]) -> Any:
        result = self._ring.one
        for factor in factors:
            result = result * factor
            for i, square in self._squares.items():
                result = self._without_square(result, i, square)
        return result

    def _without_square(self, polynomial: Any, i: int, square: Any) -> Any:
        high = [monomial for monomial in polynomial if monomial[i] > 1]
        if not high:
            return polynomial
        # For each power of the square of symbol i, the polynomial that multiplies this power.
        result: Any = polynomial.copy()
        parts: dict[int, Any] = {}
        for monomial in high:
            power, left = divmod(monomial[i], 2)
            rest = (*monomial[:i], left, *monomial[i + 1 :])
            part = parts.setdefault(power, self._ring.zero.copy())
            part[rest] = part.get(rest, 0) + result.pop(monomial)
        for power, part in parts.items():
            result = result + part * square**power
        return result


def _short(coefficient: Any) -> sympy.Number:
    import sympy

    exact = sympy.QQ.to_sympy(coefficient)
    return exact if max(abs(exact.p), exact.q) < 10**15 else sympy.Float(exact)


def _parts(expressions: Iterable[sympy.Expr]) -> tuple[set[sympy.Expr], set[sympy.Expr]]:
    """Return the atoms of sums, products and powers, and the bases of negative powers."""
    import sympy

    symbols: set[sympy.Expr] = set()
    bases: set[sympy.Expr] = set()
    seen: set[sympy.Expr] = set()
    pending = list(expressions)
    while pending:
        part = pending.pop()
        if part in seen or part.is_Rational:
            continue
        seen.add(part)
        if part.is_Add or part.is_Mul:
            pending.extend(part.args)
        elif part.is_Pow and part.exp.is_Integer:
            pending.append(part.base)
            if part.exp < 0:
                bases.add(part.base)
        elif isinstance(part, (sympy.sin, sympy.cos)):
            symbols |= {sympy.sin(part.args[0]), sympy.cos(part.args[0])}
        else:
            symbols.add(part)
    return symbols, bases
