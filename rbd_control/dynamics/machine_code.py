"""Straight-line machine code of the functions of one model, made of their expressions by LLVM.

The code knows which entries of the model are zero. A single state is computed in scalars, except
its cosines and sines, which are computed together in lanes. A batch is computed in lanes, ``WIDTH``
states at a time, and its results are transposed in registers.

Straight-line code grows with the number of operations. Functions of :data:`LARGEST` nodes and more
use the compiled loops of the public function.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing import signature
from numba.extending import intrinsic

from rbd_control.dynamics.batches import STATES_FOR_LANES
from rbd_control.dynamics.expression_graph import (
    ADD,
    CONSTANT,
    DIVIDE,
    MULTIPLY,
    NEGATE,
    SUBTRACT,
    Plan,
    TooLargeError,
)
from rbd_control.dynamics.lane_states import transposed
from rbd_control.dynamics.lanes import DOUBLE, VECTOR, WIDTH, call_llvm, lanes
from rbd_control.dynamics.memory import array_at
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.small_systems import cos_sin
from rbd_control.dynamics.tracing import FUNCTIONS, Tracing, node_of, traced

LARGEST = 20000
"""Number of nodes of a graph from which the compiled loops are used, see ``docs/speed.md``."""


class Program:
    """One function of one model, which is traced when it is compiled.

    Args:
        model: the robot.
        name: key of ``tracing.FUNCTIONS``.

    Attributes:
        model: the robot.
        name: name of the function.
        function: its entry of ``tracing.FUNCTIONS``.
        inputs: number of arguments.
        shapes: shapes of the arguments and the results for one state.
        named_tuple: type of the results; None for a single result.
        key: digest of the name and of the numbers of the model, which stands for the program in
            compiled code.
    """

    def __init__(self, model: Model, name: str) -> None:
        self.model, self.name, self.function = model, name, FUNCTIONS[name]
        vectors = [(model.nv,) for _ in self.function.plain.names]
        results = self.function.plain.new_results(model)
        self.inputs = 1 + len(vectors)
        self.shapes = [(model.nq,), *vectors, *(x.shape for x in results)]
        self.named_tuple = type(results) if len(results) > 1 else None
        numbers = b"".join(np.ascontiguousarray(x).tobytes() for x in model.arrays)
        self.key = hashlib.sha256(name.encode() + numbers).hexdigest()
        _PROGRAMS[self.key] = self

    def expressions(self) -> Expressions | None:
        """Return the expressions of the results; None if they have :data:`LARGEST` nodes."""
        try:
            return Expressions(self)
        except TooLargeError:
            return None


class Expressions:
    """The expressions of the results of a program.

    Args:
        program: the program, which is traced.

    Attributes:
        graph: graph of the expressions.
        arrays: nodes of each argument and each result.
        plan: what is to be computed.

    Raises:
        TooLargeError: for :data:`LARGEST` nodes or more.
    """

    def __init__(self, program: Program) -> None:
        t = Tracing(program.model, LARGEST)
        shapes = program.shapes[: program.inputs]
        given = [t.inputs(f"x{i}", shape) for i, shape in enumerate(shapes)]
        arrays = [*given, *traced(program.name, t, *given)]
        self.graph = t.graph
        self.arrays = [[node_of(t.graph, x) for x in array.flat] for array in arrays]
        self.plan = Plan(t.graph, [node for array in self.arrays[len(given) :] for node in array])

    @property
    def operations(self) -> int:
        """Number of additions, multiplications and divisions; a fused multiply-add is one."""
        arithmetic = (ADD, SUBTRACT, MULTIPLY, DIVIDE)
        found = sum(self.graph.nodes[node][0] in arithmetic for node in self.plan.order)
        return found - len(self.plan.fused)


_PROGRAMS: dict[str, Program] = {}
"""All programs of this process, by key."""


@intrinsic(prefer_literal=True)
def execute(_context, key, inputs, results):
    """Run a program on one state or a batch of states; for compiled code only.

    Args:
        key: ``Program.key``, a constant. The program must exist while the code is compiled.
        inputs: tuple of the arguments, C-contiguous float64 arrays. Leading axes are a batch.
        results: tuple of the arrays that take the results, or of None.

    Returns:
        None, or new arrays if ``results`` are None: a named tuple, or a single array.

    Raises:
        ValueError: if the arrays do not have the sizes of the model, or not all the same number of
            states.
    """
    if not isinstance(key, types.StringLiteral):
        return None  # numba tries this after an error, which it then shows
    program = _PROGRAMS[key.literal_value]
    given = [*inputs] if all(x == types.none for x in results) else [*inputs, *results]
    batch = getattr(inputs[0], "ndim", 1) - 1
    fitting = [types.Array(types.float64, batch + len(shape), "C") for shape in program.shapes]
    for k, (kind, wanted) in enumerate(zip(given, fitting, strict=False)):
        if kind != wanted and not (k < len(inputs) and kind == wanted.copy(readonly=True)):
            raise TypingError(f"{program.name}: argument {k + 1} is {kind}; it must be {wanted}")
    new, group = fitting[len(given) :], program.named_tuple
    returned = types.NamedTuple(new, group) if new and group else [*new, types.none][0]

    def code(context, builder, _signature, arguments):
        arrays = [x for part in arguments[1:] for x in cgutils.unpack_tuple(builder, part)]
        del arrays[len(given) :]
        count = _count(context, builder, program, given, arrays, batch)
        made = [_new_array(context, builder, program, kind(given[0]), arrays[0]) for kind in new]
        starts = [
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip([*given, *new], [*arrays, *made], strict=True)
        ]
        expressions = program.expressions()
        if expressions is None:
            _plain(context, builder, program, starts, count if batch else None)
        else:
            function = _Code(context, builder.module, program, expressions).function(batch > 0)
            builder.call(function, [*starts, count])
        if len(made) > 1:
            return context.make_tuple(builder, returned, made)
        return made[0] if made else context.get_dummy_value()

    return returned(key, inputs, results), code


def _new_array(context, builder, program, sig, q):
    """Return a new array of the type that the signature ``sig`` returns for the type of ``q``."""
    tail = (program.model.nv,) * (sig.return_type.ndim - sig.args[0].ndim + 1)

    def make(q):
        return np.empty(q.shape[:-1] + tail)

    return context.compile_internal(builder, make, sig, [q])


def _count(context, builder, program, kinds, arrays, batch):
    """Return the number of states; emit a ValueError for arrays of other sizes."""
    arrays = [
        context.make_array(k)(context, builder, x) for k, x in zip(kinds, arrays, strict=True)
    ]
    count = context.get_constant(types.intp, 1)
    for length in cgutils.unpack_tuple(builder, arrays[0].shape)[:batch]:
        count = builder.mul(count, length)
    fits = context.get_constant(types.boolean, True)
    for array, shape in zip(arrays, program.shapes, strict=False):
        wanted = builder.mul(count, context.get_constant(types.intp, math.prod(shape)))
        fits = builder.and_(fits, builder.icmp_signed("==", array.nitems, wanted))
    with cgutils.if_unlikely(builder, builder.not_(fits)):
        reason = f"{program.name}: the arrays do not have the sizes of the model and the batch"
        context.call_conv.return_user_exc(builder, ValueError, (reason,))
    return count


def _plain(context, builder, program, starts, count):
    """Call the kernel of the public function; its results are NaN if it refuses a state.

    ``starts`` are the addresses of all arguments and results; ``count`` is None for one state.
    """
    one_by_one, in_lanes = program.function.plain.states, program.function.plain.lanes

    def run(_count, arrays):
        return one_by_one(*arrays)

    def run_batch(count, arrays):
        return in_lanes(*arrays) if count >= STATES_FOR_LANES else one_by_one(*arrays)

    def number(value):
        return context.get_constant(types.intp, value)

    kinds = [types.Array(types.float64, 1, "C")]
    arrays = [context.make_constant_array(builder, kinds[0], program.model.packed)]
    states = number(1) if count is None else count
    for start, (length, *rest) in zip(starts, program.shapes, strict=True):
        kinds.append(types.Array(types.float64, 1 + len(rest), "C"))
        sizes = [builder.mul(states, number(length)), *map(number, rest)]
        arrays.append(array_at(context, builder, kinds[-1], start, sizes))
    sig = types.boolean(types.intp, types.Tuple(kinds))
    wanted = run if count is None else run_batch
    called = context.compile_subroutine(builder, wanted, sig, caching=False)
    group = context.make_tuple(builder, sig.args[1], arrays)
    computed = context.call_internal(builder, called.fndesc, sig, [states, group])
    with cgutils.if_unlikely(builder, builder.not_(computed)):
        for start, shape in list(zip(starts, program.shapes, strict=True))[program.inputs :]:
            size = builder.mul(states, number(8 * math.prod(shape)))
            cgutils.memset(builder, start, size, 0xFF)  # the bits of NaN


class _Code:
    """Emits a program as a function of LLVM, whose arguments are addresses and a number of states.

    The compiled function that executes the program only calls it, and therefore is inlined by its
    own callers. A call with arrays would take a tenth of a microsecond.
    """

    def __init__(
        self, context: Any, module: Any, program: Program, expressions: Expressions
    ) -> None:
        self._context, self._program, self._expressions = context, program, expressions
        kinds = [DOUBLE.as_pointer()] * len(program.shapes) + [ir.IntType(64)]
        name = module.get_unique_name(f"{program.name}_{program.key}")
        self._function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
        self._builder = ir.IRBuilder(self._function.append_basic_block())

    def function(self, batch: bool) -> Any:
        """Return the function for a batch, or the function for one state."""
        self._function.linkage = "internal"
        self._function.attributes.add("noinline")
        *starts, count = self._function.args
        if batch:
            # Otherwise every vector that is moved to the stack would lie in two cache lines.
            self._function.attributes.alignstack = 8 * WIDTH
            last, zero = self._builder.sub(count, self._number(1)), self._number(0)
            steps = cgutils.for_range_slice(self._builder, zero, count, self._number(WIDTH))
            with steps as (first, _):
                # The last state fills the lanes that are left.
                states = [self._builder.add(first, self._number(k)) for k in range(WIDTH)]
                self._straight_line(starts, [self._smaller(state, last) for state in states])
        else:
            self._straight_line(starts, [self._number(0)])
        self._builder.ret_void()
        return self._function

    def _number(self, value: int) -> Any:
        return self._context.get_constant(types.intp, value)

    def _smaller(self, a: Any, b: Any) -> Any:
        return self._builder.select(self._builder.icmp_signed("<", a, b), a, b)

    def _rows(self, start: Any, size: int, states: Sequence[Any]) -> list[Any]:
        """Return the addresses of the entries of each state."""
        b = self._builder
        return [cgutils.gep(b, start, b.mul(state, self._number(size))) for state in states]

    def _straight_line(self, starts: Sequence[Any], states: Sequence[Any]) -> None:
        """Compute the states in lanes, or a single state in scalars."""
        expressions, inputs = self._expressions, self._program.inputs
        values: dict[int, Any] = {}
        rows = [
            self._rows(start, math.prod(shape), states)
            for start, shape in zip(starts, self._program.shapes, strict=True)
        ]
        for lane_rows, nodes in zip(rows[:inputs], expressions.arrays, strict=False):
            for i, node in enumerate(nodes):
                if node in expressions.plan.uses:
                    values[node] = self._gathered([self._entry(row, i) for row in lane_rows])
        self._evaluate(expressions, values, DOUBLE if len(states) == 1 else VECTOR)
        for lane_rows, nodes in zip(rows[inputs:], expressions.arrays[inputs:], strict=True):
            self._store([values[node] for node in nodes], lane_rows)

    def _entry(self, row: Any, i: int) -> Any:
        return self._builder.load(cgutils.gep(self._builder, row, i))

    def _gathered(self, entries: Sequence[Any]) -> Any:
        """Return floats in one vector; a single float is returned unchanged."""
        if len(entries) == 1:
            return entries[0]
        vector = ir.Constant(VECTOR, ir.Undefined)
        for lane, entry in enumerate(entries):
            vector = self._builder.insert_element(vector, entry, _INDEX(lane))
        return vector

    def _evaluate(self, expressions: Expressions, values: dict[int, Any], kind: Any) -> None:
        """Add the values of all needed nodes to the values of the inputs."""
        plan, graph, builder = expressions.plan, expressions.graph, self._builder
        left = set(plan.fused.values())  # products that are computed with their sum
        operations: dict[Any, Callable[..., Any]] = {
            ADD: builder.fadd,
            SUBTRACT: builder.fsub,
            MULTIPLY: builder.fmul,
            DIVIDE: builder.fdiv,
            NEGATE: builder.fneg,
        }

        def compute(nodes: Sequence[int]) -> None:
            for node in nodes:
                if node in values or node in left:
                    continue
                operation, *rest = graph.nodes[node]
                operands = [values.get(x) for x in graph.operands(node)]
                if operation == CONSTANT:
                    number = DOUBLE(rest[0])
                    values[node] = number if kind is DOUBLE else VECTOR([number] * WIDTH)
                elif node in plan.fused:
                    factors = [values[x] for x in graph.operands(plan.fused[node])]
                    position = graph.operands(node).index(plan.fused[node])
                    addend = operands[1 - position]
                    if operation == SUBTRACT and position == 1:
                        factors[0] = builder.fneg(factors[0])
                    elif operation == SUBTRACT:
                        addend = builder.fneg(addend)
                    values[node] = call_llvm(builder, "llvm.fmuladd", *factors, addend)
                else:
                    values[node] = operations[operation](*operands)

        compute([node for node in plan.order if node in plan.early])
        angles = list(plan.angles)
        pairs = self._cosines_and_sines([values[angle] for angle in angles])
        for angle, pair in zip(angles, pairs, strict=True):
            values.update(zip(plan.angles[angle], pair, strict=True))
        compute(plan.order)

    def _cosines_and_sines(self, angles: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Return cosine and sine of each angle, computed in lanes; floats are packed into lanes."""
        context, builder = self._context, self._builder
        sig = signature(types.UniTuple(lanes, 2), lanes)
        called = context.compile_subroutine(builder, _cos_sin, sig)
        function = context.declare_function(builder.module, called.fndesc)
        packed = len(angles) > 0 and angles[0].type == DOUBLE
        width = WIDTH if packed else 1
        pairs = []
        for k in range(0, len(angles), width):
            part = list(angles[k : k + width])
            vector = self._gathered(part + [DOUBLE(0.0)] * (width - len(part)))
            # A copy of the code for each angle would not fit into the cache of instructions.
            _, both = context.call_conv.call_function(
                builder, function, sig.return_type, sig.args, [vector], attrs=("noinline",)
            )
            pair = cgutils.unpack_tuple(builder, both)
            if packed:
                for lane in range(len(part)):
                    pairs.append(tuple(builder.extract_element(x, _INDEX(lane)) for x in pair))
            else:
                pairs.append(tuple(pair))
        return pairs

    def _store(self, entries: Sequence[Any], rows: Sequence[Any]) -> None:
        """Write the entries of one array to the state of each lane, at the addresses ``rows``."""
        builder = self._builder
        if len(rows) == 1:
            for i, entry in enumerate(entries):
                builder.store(entry, cgutils.gep(builder, rows[0], i))
            return
        for first in range(0, len(entries), WIDTH):
            block = list(entries[first : first + WIDTH])
            empty = [ir.Constant(VECTOR, ir.Undefined)] * (WIDTH - len(block))
            for row, values in zip(rows, transposed(builder, block + empty), strict=True):
                # Pieces of 8, 4, 2 and 1 entries.
                done, piece = 0, WIDTH
                while done < len(block):
                    while piece > len(block) - done:
                        piece //= 2
                    part = self._part(values, done, piece)
                    target = cgutils.gep(builder, row, first + done)
                    builder.store(part, builder.bitcast(target, part.type.as_pointer()), align=8)
                    done += piece

    def _part(self, vector: Any, first: int, length: int) -> Any:
        if length == 1:
            return self._builder.extract_element(vector, _INDEX(first))
        chosen = ir.VectorType(_INDEX, length)([_INDEX(first + k) for k in range(length)])
        return self._builder.shuffle_vector(vector, vector, chosen)


_INDEX = ir.IntType(32)


def _cos_sin(x):
    return cos_sin(x)
