"""Where arrays live: the rows of a batch over all devices, everything else on each. One CPU is a mesh of one."""

import jax
from jax import P
from jax.sharding import AxisType, Mesh, NamedSharding

ROWS = "rows"


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
