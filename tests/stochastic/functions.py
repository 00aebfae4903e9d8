"""The six test functions, of one real variable and of a vector, with the vector ones' exact Gaussian expectations."""

import jax.numpy as jnp
import numpy as np

NAMES = ("constant", "linear", "quadratic", "cubic", "cosine", "exp-quadratic")


def scalar(x):
    """All six at once: each test picks one."""
    return jnp.stack([0 * x + 1.3, 0.7 * x, x**2, x**3, jnp.cos(1.5 * x + 0.3), jnp.exp(-0.5 * (x - 0.5) ** 2)])


def scalar_numpy(x):
    return np.stack(
        [0 * x + 1.3, 0.7 * x, x**2, x**3, np.cos(1.5 * x + 0.3), np.exp(-0.5 * (x - 0.5) ** 2)],
    )


_a = np.array([0.5, -1.0, 0.8])
_A = np.array([[1.0, 0.4, 0.0], [0.4, -0.5, 0.3], [0.0, 0.3, 0.8]])
_Q = np.array([[0.6, 0.2, 0.0], [0.2, 0.9, -0.1], [0.0, -0.1, 0.4]])


def vector(x):
    a, A, Q = (jnp.asarray(m, x.dtype) for m in (_a, _A, _Q))
    return jnp.stack([0 * a @ x + 1.3, a @ x, x @ A @ x, (a @ x) ** 3, jnp.cos(a @ x + 0.3), jnp.exp(-0.5 * x @ Q @ x)])


def vector_expectations(mu, C):
    """Closed forms under N(mu, C)."""
    a, A, Q = map(jnp.asarray, (_a, _A, _Q))
    m, v = a @ mu, a @ C @ a
    tilted = jnp.eye(3) + C @ Q
    return jnp.stack(
        [
            0 * m + 1.3,
            m,
            mu @ A @ mu + jnp.trace(A @ C),
            m**3 + 3 * m * v,
            jnp.cos(m + 0.3) * jnp.exp(-0.5 * v),
            jnp.linalg.det(tilted) ** -0.5 * jnp.exp(-0.5 * mu @ Q @ jnp.linalg.solve(tilted, mu)),
        ]
    )
