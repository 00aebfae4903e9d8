"""What training asks of a model, whatever its make."""

from abc import abstractmethod

import equinox as eqx
from jax import Array
from jaxtyping import Float, Key

from dlgm.model.observations import AbstractObservation


class AbstractTrainable(eqx.Module):
    """Parameters that `dlgm.learning.fit` can train, given an objective that knows the model's make.

    Every array in it is trained, so all of them are of floats; what is fixed is a static field.
    """

    @property
    @abstractmethod
    def observation(self) -> AbstractObservation:
        """The family of the rows, by which they are checked."""

    @property
    @abstractmethod
    def num_groups(self) -> int:
        """How many KL terms the model's objective reports for a row."""

    @abstractmethod
    def penalty(self) -> Float[Array, ""]:
        """The loss of the parameters' prior, which is added once for all rows."""

    @property
    def is_bayesian(self) -> bool:
        """Whether its parameters are drawn from a posterior."""
        return False

    def drawn(self, key: Key[Array, ""]) -> "AbstractTrainable":
        """The model with parameters drawn from their posterior; itself, where it has none."""
        return self
