"""Where arrays live: the rows of a batch over all devices, everything else on each. One CPU is a mesh of one.

The devices may belong to several processes, joined by `jax.distributed`. Each then runs the same program, and what they
decide by the clock or on a signal they must decide alike.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import P
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding

ROWS = "rows"
T = TypeVar("T")

# What the runtime calls a failure of somebody else; what it cannot name comes as a ValueError.
_ELSEWHERE = re.compile(r"(ABORTED|CANCELLED|DEADLINE_EXCEEDED|INTERNAL|UNAVAILABLE|UNKNOWN): ")


class ProcessLostError(RuntimeError):
    """Another of the processes that train together has died, or cannot be reached."""


def make_mesh(num_devices: int | None = None) -> Mesh:
    """A mesh of the first `num_devices` devices (all by default) with one axis, over which batches are cut."""
    available = jax.device_count()
    if num_devices is not None and not 1 <= num_devices <= available:
        raise ValueError(f"num_devices: expected 1 to {available}, the devices JAX sees; got {num_devices}.")
    size = num_devices or available
    return jax.make_mesh((size,), (ROWS,), axis_types=(AxisType.Auto,), devices=jax.devices()[:size])


def over_rows(mesh: Mesh) -> NamedSharding:
    """The first axis cut over the devices."""
    return NamedSharding(mesh, P(ROWS))


def everywhere(mesh: Mesh) -> NamedSharding:
    """A copy on each device."""
    return NamedSharding(mesh, P())


def over_batches(mesh: Mesh) -> NamedSharding:
    """The second axis cut over the devices: batches one after another."""
    return NamedSharding(mesh, P(None, ROWS))


def replicated(tree: Any, mesh: Mesh) -> Any:
    """The arrays of a tree, which every process has alike, on every device."""
    if jax.process_count() == 1:
        return jax.device_put(tree, everywhere(mesh))

    def put(leaf: Any) -> jax.Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(put(jax.random.key_data(leaf)))
        array = np.asarray(leaf)
        return jax.make_array_from_callback(array.shape, everywhere(mesh), lambda index: array[index])

    return jax.tree.map(put, tree)


def local(tree: Any) -> Any:
    """A tree of replicated arrays as this process's own, with which it can compute alone."""
    return tree if jax.process_count() == 1 else jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), tree)


def agreed(*numbers: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first process's numbers, and the largest among all processes: the same two answers in every one."""
    if jax.process_count() == 1:
        return numbers, numbers
    gathered = np.asarray(multihost_utils.process_allgather(np.array(numbers, np.int32))).reshape(-1, len(numbers))
    return tuple(gathered[0].tolist()), tuple(gathered.max(axis=0).tolist())


def everyone(act: Callable[[], T]) -> T:
    """`act()`, which every process does for itself; if it fails in one, all of them stop."""
    if jax.process_count() == 1:
        return act()
    result, failure = None, None
    try:
        result = act()
    except Exception as error:
        failure = error
    _, (failed,) = agreed(failure is not None)
    if failure is not None:
        raise failure
    if failed:
        raise ProcessLostError("Another process has stopped with an error of its own.")
    return result  # type: ignore[return-value]


def by_first(act: Callable[[], bytes], refusal: type[Exception]) -> bytes:
    """What `act()` gives in the first process, which alone does it; a `refusal` there is raised in all of them."""
    if jax.process_count() == 1:
        return act()
    content, failure = b"", None
    if jax.process_index() == 0:
        try:
            content = act()
        except refusal as error:
            content, failure = str(error).encode(), error
    (size, failed), _ = agreed(len(content), failure is not None)
    array = np.frombuffer(content, np.uint8) if jax.process_index() == 0 else np.zeros(size, np.uint8)
    content = np.asarray(multihost_utils.broadcast_one_to_all(array)).tobytes() if size else b""
    if failure is not None:
        raise failure
    if failed:
        raise refusal(content.decode())
    return content


@contextmanager
def company() -> Iterator[None]:
    """Inside, an exchange with other processes that fails is a `ProcessLostError`."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if jax.process_count() == 1 or not _ELSEWHERE.match(str(error)):
            raise
        raise ProcessLostError(f"Another process has gone ({str(error).splitlines()[0]}).") from error
