"""Spatial vector algebra on tuples, compiled into the kernels that use it.

Conventions that the whole package relies on:

- A spatial vector is a pair of 3-vectors, angular first: a motion ``(w, u)`` with angular velocity
  ``w`` [rad/s] and velocity ``u`` [m/s] of the body point at the origin, a force ``(n, f)`` with
  moment ``n`` about the origin [N·m] and force ``f`` [N] (Featherstone 2008).
- In the sweeps every spatial quantity of every body is in world axes about the root's origin.
- The inertia of a body is ``(m, h, S)``: mass [kg], first moment ``h = m c`` [kg·m] and second
  moment of mass ``S = integral of x xᵀ dm`` [kg·m²], a symmetric matrix stored as
  ``(xx, xy, xz, yy, yz, zz)``. The rotational inertia is ``tr(S) 1 - S``. All ten numbers are
  sums over mass, so the inertia of a composite body is the sum of the inertias of its bodies.
- The factor ``B(v, I)`` of the velocity-product force, eq. (10) of EW21 (Echeandia & Wensing 2021),
  is ``(A, f)``, see :func:`coriolis_factor`.
- A 3-vector is a tuple of three numbers, a 3x3 matrix a tuple of three rows. Numbers are floats or
  lanes. Functions whose name ends in 6 take spatial vectors.

Compiled code keeps tuples in registers, so these functions allocate no memory.
"""

from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.fused import fma

# --- 3-vectors and 3x3 matrices ------------------------------------------------------------------


@inlined
def add(a, b):
    """Return a + b for 3-vectors."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


@inlined
def sub(a, b):
    """Return a - b for 3-vectors."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@inlined
def scale(k, a):
    """Return k a for a number k and a 3-vector a."""
    return (k * a[0], k * a[1], k * a[2])


@inlined
def dot(a, b):
    """Return the scalar product aᵀb of 3-vectors."""
    return fma(a[0], b[0], fma(a[1], b[1], a[2] * b[2]))


@inlined
def cross(a, b):
    """Return the vector product a x b of 3-vectors."""
    return (
        fma(a[1], b[2], -(a[2] * b[1])),
        fma(a[2], b[0], -(a[0] * b[2])),
        fma(a[0], b[1], -(a[1] * b[0])),
    )


@inlined
def add_cross(x, a, b):
    """Return x + a x b for 3-vectors."""
    return (
        fma(-a[2], b[1], fma(a[1], b[2], x[0])),
        fma(-a[0], b[2], fma(a[2], b[0], x[1])),
        fma(-a[1], b[0], fma(a[0], b[1], x[2])),
    )


@inlined
def add_scaled(a, k, b):
    """Return a + k b for 3-vectors and a number k."""
    return (fma(k, b[0], a[0]), fma(k, b[1], a[1]), fma(k, b[2], a[2]))


@inlined
def load3(array, i):
    """Return row ``i`` of an (n, 3) array as a 3-vector."""
    return (array[i, 0], array[i, 1], array[i, 2])


@inlined
def store3(array, i, a):
    """Write the 3-vector ``a`` to row ``i`` of an (n, 3) array."""
    array[i, 0] = a[0]
    array[i, 1] = a[1]
    array[i, 2] = a[2]


@inlined
def load_matrix(array, i):
    """Return the matrix ``i`` of an (n, 3, 3) array, as a tuple of rows."""
    return (
        (array[i, 0, 0], array[i, 0, 1], array[i, 0, 2]),
        (array[i, 1, 0], array[i, 1, 1], array[i, 1, 2]),
        (array[i, 2, 0], array[i, 2, 1], array[i, 2, 2]),
    )


@inlined
def store_matrix(array, i, R):
    """Write the 3x3 matrix ``R``, a tuple of rows, to entry ``i`` of an (n, 3, 3) array."""
    for k in range(3):
        array[i, k, 0] = R[k][0]
        array[i, k, 1] = R[k][1]
        array[i, k, 2] = R[k][2]


@inlined
def transform(R, x):
    """Return R x for a 3x3 matrix and a 3-vector."""
    return (dot(R[0], x), dot(R[1], x), dot(R[2], x))


@inlined
def add_transform(a, R, x):
    """Return a + R x for 3-vectors a and x and a 3x3 matrix R."""
    return (
        fma(R[0][2], x[2], fma(R[0][1], x[1], fma(R[0][0], x[0], a[0]))),
        fma(R[1][2], x[2], fma(R[1][1], x[1], fma(R[1][0], x[0], a[1]))),
        fma(R[2][2], x[2], fma(R[2][1], x[1], fma(R[2][0], x[0], a[2]))),
    )


@inlined
def transpose(R):
    """Return Rᵀ for a 3x3 matrix R, both as tuples of three rows."""
    return (
        (R[0][0], R[1][0], R[2][0]),
        (R[0][1], R[1][1], R[2][1]),
        (R[0][2], R[1][2], R[2][2]),
    )


@inlined
def multiply(A, B):
    """Return the product A B of 3x3 matrices."""
    columns = transpose(B)
    return (
        (dot(A[0], columns[0]), dot(A[0], columns[1]), dot(A[0], columns[2])),
        (dot(A[1], columns[0]), dot(A[1], columns[1]), dot(A[1], columns[2])),
        (dot(A[2], columns[0]), dot(A[2], columns[1]), dot(A[2], columns[2])),
    )


@inlined
def add_scaled_matrix(A, k, B):
    """Return A + k B for 3x3 matrices and a number k."""
    return (
        add_scaled(A[0], k, B[0]),
        add_scaled(A[1], k, B[1]),
        add_scaled(A[2], k, B[2]),
    )


@inlined
def quaternion_rotation(x, y, z, w):
    """Return the 3x3 rotation matrix of a quaternion with vector (x, y, z) and scalar w.

    The quaternion need not have unit length, but must not be zero.
    """
    k = 2.0 / (x * x + y * y + z * z + w * w)
    return (
        (1.0 - k * (y * y + z * z), k * (x * y - w * z), k * (x * z + w * y)),
        (k * (x * y + w * z), 1.0 - k * (x * x + z * z), k * (y * z - w * x)),
        (k * (x * z - w * y), k * (y * z + w * x), 1.0 - k * (x * x + y * y)),
    )


@inlined
def add_row(array, target, source):
    """Add row ``source`` of an (n, k) array to its row ``target``, in place."""
    for k in range(array.shape[1]):
        array[target, k] += array[source, k]


@inlined
def clear(array):
    """Set an (n, n) array to zero."""
    for i in range(array.shape[0]):
        for j in range(array.shape[1]):
            array[i, j] = 0.0


@inlined
def copy(source, target):
    """Copy the 1-D array ``source`` into ``target``, which must not be shorter.

    ``target[:] = source`` has the same effect but takes numba a second more to compile, because it
    includes an error message for arrays of different shapes.
    """
    for i in range(source.shape[0]):
        target[i] = source[i]


# --- Motions and forces --------------------------------------------------------------------------


@inlined
def load6(array, i):
    """Return row ``i`` of an (n, 6) array, angular part first, as a spatial vector."""
    return (
        (array[i, 0], array[i, 1], array[i, 2]),
        (array[i, 3], array[i, 4], array[i, 5]),
    )


@inlined
def store6(array, i, x):
    """Write the spatial vector ``x``, a pair of 3-vectors, to row ``i`` of an (n, 6) array."""
    for k in range(3):
        array[i, k] = x[0][k]
        array[i, 3 + k] = x[1][k]


@inlined
def accumulate6(array, i, x):
    """Add the spatial vector ``x``, a pair of 3-vectors, to row ``i`` of an (n, 6) array."""
    for k in range(3):
        array[i, k] += x[0][k]
        array[i, 3 + k] += x[1][k]


@inlined
def add6(a, b):
    """Return a + b for spatial vectors."""
    return (add(a[0], b[0]), add(a[1], b[1]))


@inlined
def sub6(a, b):
    """Return a - b for spatial vectors."""
    return (sub(a[0], b[0]), sub(a[1], b[1]))


@inlined
def scale6(k, a):
    """Return k a for a spatial vector."""
    return (scale(k, a[0]), scale(k, a[1]))


@inlined
def add_scaled6(a, k, b):
    """Return a + k b for spatial vectors."""
    return (add_scaled(a[0], k, b[0]), add_scaled(a[1], k, b[1]))


@inlined
def dot6(m, f):
    """Return the power mᵀf of the force ``f`` along the motion ``m``."""
    return dot(m[0], f[0]) + dot(m[1], f[1])


@inlined
def cross_motion(v, m):
    """Return v x m: the rate of a motion ``m`` that is fixed in a body with the twist ``v``."""
    return (cross(v[0], m[0]), add_cross(cross(v[0], m[1]), v[1], m[0]))


@inlined
def cross_force(v, f):
    """Return v x* f: the rate of a force ``f`` that is fixed in a body with the twist ``v``."""
    return (add_cross(cross(v[0], f[0]), v[1], f[1]), cross(v[0], f[1]))


# --- Inertias (m, h, S) --------------------------------------------------------------------------


@inlined
def symmetric_times(S, x):
    """Return S x for S stored as (xx, xy, xz, yy, yz, zz)."""
    return (
        fma(S[2], x[2], fma(S[1], x[1], S[0] * x[0])),
        fma(S[4], x[2], fma(S[3], x[1], S[1] * x[0])),
        fma(S[5], x[2], fma(S[4], x[1], S[2] * x[0])),
    )


@inlined
def inertia_times(inertia, v):
    """Return the momentum I v = [tr(S) w - S w + h x u ; m u + w x h] for the twist v = (w, u)."""
    m, h, S = inertia
    w, u = v
    J = (S[3] + S[5], -S[1], -S[2], S[0] + S[5], -S[4], S[0] + S[3])
    return (add_cross(symmetric_times(J, w), h, u), add_cross(scale(m, u), w, h))


@inlined
def place_inertia(m, h, S, R, p):
    """Return the inertia (m, h', S') of a body about the origin, from its inertia in a frame.

    The frame has the orientation R and the position p. In it the body has the first moment h and
    the second moment S, a full 3x3 matrix. With x = p + R y for a point y of the frame:
    h' = R h + m p,  S' = R S Rᵀ + (R h) pᵀ + p h'ᵀ.
    """
    g = transform(R, h)
    W = multiply(multiply(R, S), transpose(R))
    k = add_scaled(g, m, p)
    return (
        m,
        k,
        (
            fma(p[0], k[0], fma(g[0], p[0], W[0][0])),
            fma(p[0], k[1], fma(g[0], p[1], W[0][1])),
            fma(p[0], k[2], fma(g[0], p[2], W[0][2])),
            fma(p[1], k[1], fma(g[1], p[1], W[1][1])),
            fma(p[1], k[2], fma(g[1], p[2], W[1][2])),
            fma(p[2], k[2], fma(g[2], p[2], W[2][2])),
        ),
    )


@inlined
def load_inertia(array, i):
    """Return row ``i`` of an (n, 10) array, m, h (3) and S (6), as the inertia (m, h, S)."""
    return (
        array[i, 0],
        (array[i, 1], array[i, 2], array[i, 3]),
        (array[i, 4], array[i, 5], array[i, 6], array[i, 7], array[i, 8], array[i, 9]),
    )


@inlined
def store_inertia(array, i, inertia):
    """Write the inertia (m, h, S) to row ``i`` of an (n, 10) array, in this order."""
    m, h, S = inertia
    array[i, 0] = m
    for k in range(3):
        array[i, 1 + k] = h[k]
    for k in range(6):
        array[i, 4 + k] = S[k]


# --- The factor B(v, I) of the velocity-product force --------------------------------------------


@inlined
def coriolis_factor(v, inertia):
    """Return B(v, I) = ½[(v x*) I + (I v) x̄* - I (v x)] of EW21 eq. (10) as twelve numbers.

    With I = (m, h, S), v = [w; u] and the linear momentum f = m u + w x h, the terms with the
    linear part of x in the product B x cancel::

        B(v, I) = [  A    0 ]        A = -S(w) S - u hᵀ + (hᵀu) 1
                  [ -S(f) 0 ]

    where S(.) is the cross-product matrix. The result ``(A, f)`` is linear in I.
    """
    m, h, S = inertia
    w, u = v
    # Columns of S(w) S are w x (columns of S); S is symmetric.
    x = cross(w, (S[0], S[1], S[2]))
    y = cross(w, (S[1], S[3], S[4]))
    z = cross(w, (S[2], S[4], S[5]))
    A = (
        (
            fma(h[1], u[1], fma(h[2], u[2], -x[0])),
            -fma(u[0], h[1], y[0]),
            -fma(u[0], h[2], z[0]),
        ),
        (
            -fma(u[1], h[0], x[1]),
            fma(h[0], u[0], fma(h[2], u[2], -y[1])),
            -fma(u[1], h[2], z[1]),
        ),
        (
            -fma(u[2], h[0], x[2]),
            -fma(u[2], h[1], y[2]),
            fma(h[0], u[0], fma(h[1], u[1], -z[2])),
        ),
    )
    return (A, add_cross(scale(m, u), w, h))


@inlined
def factor_times(B, x):
    """Return the force B x = [A x_w ; x_w x f] for the motion x = (x_w, x_u) and B = (A, f)."""
    A, f = B
    return (transform(A, x[0]), cross(x[0], f))


@inlined
def factor_transpose_times(B, x):
    """Return the angular part Aᵀ x_w + f x x_u of the force Bᵀ x; its linear part is zero."""
    A, f = B
    return add_cross(transform(transpose(A), x[0]), f, x[1])


@inlined
def add_coriolis_force(force, v, inertia, x):
    """Return ``force`` + B(v, I) x for a motion ``x``, without forming B.

    This takes fewer operations than :func:`coriolis_factor` if B multiplies one vector only.
    """
    m, h, S = inertia
    w, u = v
    y = x[0]
    # B x = [h x (y x u) + S y x w ; y x (m u + w x h)].
    angular = add_cross(add_cross(force[0], h, cross(y, u)), symmetric_times(S, y), w)
    return (angular, add_cross(force[1], y, add_cross(scale(m, u), w, h)))


@inlined
def load_factor(array, i):
    """Return row ``i`` of an (n, 12) array, A by rows and then f, as the factor B = (A, f)."""
    return (
        (
            (array[i, 0], array[i, 1], array[i, 2]),
            (array[i, 3], array[i, 4], array[i, 5]),
            (array[i, 6], array[i, 7], array[i, 8]),
        ),
        (array[i, 9], array[i, 10], array[i, 11]),
    )


@inlined
def store_factor(array, i, B):
    """Write the factor B = (A, f) to row ``i`` of an (n, 12) array: A by rows, then f."""
    A, f = B
    for k in range(3):
        array[i, k] = A[0][k]
        array[i, 3 + k] = A[1][k]
        array[i, 6 + k] = A[2][k]
        array[i, 9 + k] = f[k]
