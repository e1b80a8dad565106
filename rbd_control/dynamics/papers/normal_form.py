"""Unique normal form of a polynomial in sines and cosines, as a sympy expression.

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

if TYPE_CHECKING:
    import sympy


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
