"""Transfer of the states of a batch to lanes and back: a state is a row of floats, or one lane."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.lanes import VECTOR, WIDTH
from rbd_control.dynamics.memory import floats_of, numbers

_INDEX = ir.IntType(32)


@inlined
def load_states(states, first, count, into):
    """Load ``WIDTH`` consecutive states of a batch into lanes, one state per lane.

    If fewer states are left, copies of the last state fill the remaining lanes.

    Args:
        states: floats of the batch, k for each state, one state after another.
        first: index of the first state to load.
        count: number of states in the batch.
        into: array of lanes, (k,), which is overwritten.
    """
    size = into.shape[0]
    entries = floats_of(into)
    for lane in range(WIDTH):
        state = numbers(states, min(first + lane, count - 1) * size, (size,))
        for i in range(size):
            entries[i, lane] = state[i]


@inlined
def store_states(source, first, count, states):
    """Store lanes as ``WIDTH`` consecutive states of a batch, or as many as are left in it.

    Args:
        source: array of lanes, (k,); lane j holds state ``first + j``.
        first: index of the first state to write.
        count: number of states in the batch.
        states: floats of the batch, k for each state, one state after another; overwritten there.
    """
    size, done = source.shape[0], 0
    if first + WIDTH <= count:
        while done + WIDTH <= size:
            _store_square(source, done, states, first * size + done, size)
            done += WIDTH
    entries = floats_of(source)
    for lane in range(min(WIDTH, count - first)):
        state = numbers(states, (first + lane) * size, (size,))
        for i in range(done, size):
            state[i] = entries[i, lane]


@intrinsic
def _store_square(_context, source, _first, states, _place, _size):
    """Write the entries source[first : first + WIDTH], which are lanes, to ``WIDTH`` states.

    ``size`` is the number of floats of a state. Lane k goes to the floats of ``states`` from index
    ``place + k size`` on.
    """

    def code(context, builder, signature, arguments):
        source, first, states, place, size = arguments
        data = context.make_array(signature.args[0])(context, builder, source).data
        offsets = [context.get_constant(types.intp, k) for k in range(WIDTH)]
        entries = [builder.load(cgutils.gep(builder, data, builder.add(first, k))) for k in offsets]
        target = context.make_array(signature.args[2])(context, builder, states).data
        for k, row in zip(offsets, transposed(builder, entries), strict=True):
            address = cgutils.gep(builder, target, builder.add(place, builder.mul(k, size)))
            builder.store(row, builder.bitcast(address, VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(source, types.intp, states, types.intp, types.intp), code


def transposed(builder, rows):
    """Transpose ``WIDTH`` vectors: exchange blocks of 1, 2, 4 entries off the diagonal."""
    rows = list(rows)
    block = 1
    while block < WIDTH:
        upper = [k if not k & block else WIDTH + k - block for k in range(WIDTH)]
        lower = [k + block if not k & block else WIDTH + k for k in range(WIDTH)]
        for i in range(WIDTH):
            if not i & block:
                pair = rows[i], rows[i + block]
                rows[i] = _chosen(builder, *pair, upper)
                rows[i + block] = _chosen(builder, *pair, lower)
        block *= 2
    return rows


def _chosen(builder, a, b, entries):
    kind = ir.VectorType(_INDEX, WIDTH)
    return builder.shuffle_vector(a, b, ir.Constant(kind, [_INDEX(k) for k in entries]))
