"""What every structured Gaussian can do, whatever the shape of its covariance."""

import math
from abc import abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jaxtyping import Float, Key
from numpyro.distributions import constraints

from dlgm.gaussians import checks
from dlgm.gaussians.checks import RealLike


class AbstractGaussian(dist.Distribution):
    r"""$N(\mu, C)$ over vectors of $K$ latents, with $C = R R^\top$ known through its factor $R$.

    A final class declares its parameters in `arg_constraints` (each constraint's `event_dim` says how many trailing
    axes one event of that parameter has), stores them with `_store`, and writes the abstract members below. They act
    on the last axis and broadcast over the rest, so batches need no further code.

    The shape is read off the arrays rather than remembered: an instance that `jax.vmap` has sliced is simply a smaller
    Gaussian. (Other numpyro distributions keep the unsliced `batch_shape`.)
    """

    support = constraints.real_vector
    mean: Array = None  # type: ignore[assignment]  # an ordinary attribute, where the base class has a property

    # ---- what a final class provides -------------------------------------------------------------------------------

    @abstractmethod
    def factor_times(self, eps: RealLike) -> Float[Array, "*out k"]:
        r"""$R\,\epsilon$: with `eps` standard normal, a draw's deviation from the mean."""

    @abstractmethod
    def factor_transpose_times(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$R^\top x$."""

    @abstractmethod
    def solve_factor(self, x: RealLike) -> Float[Array, "*out k"]:
        r"""$R^{-1} x$: whitens a deviation from the mean."""

    @property
    @abstractmethod
    def log_det(self) -> Float[Array, "*batch"]:
        r"""$\log |C|$."""

    @property
    @abstractmethod
    def variance(self) -> Float[Array, "*batch k"]:
        """The diagonal of $C$."""

    @abstractmethod
    def excess_trace(self, other: "AbstractGaussian") -> Float[Array, "*batch"]:
        r"""$\mathrm{Tr}(C^{-1} C') - K$, with $C'$ the covariance of `other`: zero when the two agree.

        The K is taken off term by term, for the trace and K may both be large and nearly equal.
        """

    # ---- what follows from it --------------------------------------------------------------------------------------

    @property
    def trace(self) -> Float[Array, "*batch"]:
        r"""$\mathrm{Tr}\, C$."""
        return jnp.sum(self.variance, axis=-1)

    @property
    def mode(self) -> Float[Array, "*batch k"]:
        """The mean, where the density is largest."""
        return self.mean

    def sample(self, key: Key[Array, ""], sample_shape: tuple[int, ...] = ()) -> Float[Array, "*out k"]:
        r"""Draws $\mu + R \epsilon$ of shape `sample_shape + batch_shape + (K,)`, differentiable in the parameters."""
        eps = jax.random.normal(key, self.shape(tuple(sample_shape)), dtype=self.mean.dtype)
        return self.mean + self.factor_times(eps)

    def log_prob(self, value: RealLike, intermediates: Any = None) -> Float[Array, "*out"]:
        r"""$\log N(x \mid \mu, C) = -\frac12 \left(|R^{-1}(x - \mu)|^2 + \log|C| + K \log 2\pi\right)$."""
        x = self._as_event("value", value)
        z = self.solve_factor(x - self.mean)
        return -0.5 * (jnp.sum(z * z, axis=-1) + self.log_det + self._log_normaliser)

    def entropy(self) -> Float[Array, "*batch"]:
        r"""$\frac12 (K + K \log 2\pi + \log |C|)$, in nats."""
        return 0.5 * (self.event_shape[0] + self._log_normaliser + self.log_det)

    def kl_to_standard(self) -> Float[Array, "*batch"]:
        r"""$KL(N(\mu, C) \,\|\, N(0, I)) = \frac12 [\mathrm{Tr}\,C + \mu^\top\mu - K - \log|C|]$ (paper, eq. 13)."""
        # The K is taken off inside the sum: Tr C - K would lose the answer to rounding when K is large and C near I.
        return 0.5 * (jnp.sum(self.variance - 1 + self.mean**2, axis=-1) - self.log_det)

    def covariance(self) -> Float[Array, "*batch k k"]:
        """The dense K-by-K covariance. For checks and small K only: nothing fast calls it."""
        factor = self.factor()
        return factor @ factor.mT

    def factor(self) -> Float[Array, "*batch k k"]:
        """The dense K-by-K factor $R$. For checks and small K only."""
        K = self.event_shape[0]
        eye = jnp.eye(K, dtype=self.mean.dtype).reshape((K,) + (1,) * len(self.batch_shape) + (K,))
        return jnp.moveaxis(self.factor_times(eye), 0, -1)

    # ---- shapes, storage and numpyro's bookkeeping -----------------------------------------------------------------

    def __new__(cls, *args: Any, **kwargs: Any) -> "AbstractGaussian":
        """Refuse classes that leave an abstract member unwritten: numpyro's metaclass does not look."""
        missing = [name for name in dir(cls) if getattr(getattr(cls, name), "__isabstractmethod__", False)]
        if missing:
            raise TypeError(f"{cls.__name__} is abstract: it does not define {', '.join(missing)}.")
        return super().__new__(cls)

    # One event's axes of each parameter, for messages: {"mean": "K", "U": "K, r"}.
    _events: ClassVar[dict[str, str]]

    def _store(self, validate_args: bool | None, **parameters: RealLike) -> None:
        """Check the parameters, broadcast them to one batch shape and keep them."""
        owner = type(self).__name__
        enabled = dist.Distribution._validate_args if validate_args is None else validate_args
        arrays = {name: checks.as_real_array(owner, name, value) for name, value in parameters.items()}
        for name, array in arrays.items():
            checks.check_rank(owner, name, array, self._events[name])
        K = arrays["mean"].shape[-1]
        if K == 0:
            raise ValueError(f"{owner}: expected at least one latent; got `mean` of shape {arrays['mean'].shape}.")
        for name, array in arrays.items():
            for axis, letter in enumerate(reversed(self._events[name].split(", ")), start=1):
                if letter == "K":
                    checks.check_latent_size(owner, name, array.shape[-axis], K, array.shape)
        batches = {name: array.shape[: array.ndim - self._event_dim(name)] for name, array in arrays.items()}
        try:
            batch = jnp.broadcast_shapes(*batches.values())
        except ValueError as error:
            raise ValueError(f"{owner}: expected batch shapes that broadcast together; got {batches}.") from error
        dtype = jnp.result_type(*arrays.values())
        for name, array in arrays.items():
            if enabled:
                checks.check_finite(owner, name, array)
            event = array.shape[array.ndim - self._event_dim(name) :]
            setattr(self, name, jnp.broadcast_to(array.astype(dtype), batch + event))
        super().__init__(batch, (K,), validate_args=False)
        self._validate_args = enabled

    @classmethod
    def _event_dim(cls, name: str) -> int:
        return cls.arg_constraints[name].event_dim

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the parameters without the latent axis."""
        return jnp.shape(self.mean)[:-1]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """`(K,)`."""
        return jnp.shape(self.mean)[-1:]

    @property
    def _log_normaliser(self) -> float:
        return self.event_shape[0] * math.log(2 * math.pi)

    def _as_event(self, name: str, value: RealLike) -> Array:
        owner, K = type(self).__name__, self.event_shape[0]
        array = checks.as_real_array(owner, name, value)
        checks.check_rank(owner, name, array, "K")
        checks.check_latent_size(owner, name, array.shape[-1], K, array.shape)
        return array

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The parameters in the order they are declared, so that the leaves' order never varies between processes."""
        return tuple(self.__dict__[name] for name in self.arg_constraints), (self._validate_args,)

    @classmethod
    def tree_unflatten(cls, aux_data: tuple[Any, ...], params: tuple[Any, ...]) -> "AbstractGaussian":
        """Rebuild without checks: JAX passes placeholders here."""
        q = cls.__new__(cls)
        q.__dict__.update(zip(cls.arg_constraints, params, strict=True), _validate_args=aux_data[0])
        return q

    def __repr__(self) -> str:
        if jnp.ndim(self.mean) == 0:  # before the constructor has run, or with placeholders for parameters
            return f"{type(self).__name__}(...)"
        return f"{type(self).__name__}(K={self.event_shape[0]}, batch_shape={self.batch_shape})"


def columns_first(matrix: Float[Array, "*batch k m"], batch_dim: int) -> Float[Array, "m *out k"]:
    """The columns of a matrix as a leading axis, ready to broadcast against a batch of `batch_dim` axes."""
    columns = jnp.moveaxis(matrix, -1, 0)
    missing = max(0, batch_dim - (matrix.ndim - 2))
    return columns.reshape(columns.shape[:1] + (1,) * missing + columns.shape[1:])
