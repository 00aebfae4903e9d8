"""A generative model and the recognition model that inverts it."""

import equinox as eqx
from jax import Array
from jaxtyping import Bool, Float

from dlgm.model.generative import GenerativeModel
from dlgm.model.posterior import AbstractPosterior
from dlgm.model.recognition import RecognitionModel


class Model(eqx.Module):
    r"""A deep latent Gaussian model: $p(v, \xi)$ and $q(\xi \mid v)$.

    A plain pytree of arrays. `build_model` makes one from a `ModelConfig`, `fit` trains it.
    """

    generative: GenerativeModel
    recognition: RecognitionModel

    def encode(self, v: Float[Array, " x"], mask: Bool[Array, " x"] | None = None) -> Float[Array, " i"]:
        """A row as the recognition model sees it: finite numbers, in the family's own coordinate, zero in holes."""
        return self.generative.observation.encode(v, mask)

    def posterior(self, v: Float[Array, " x"], mask: Bool[Array, " x"] | None = None) -> AbstractPosterior:
        r"""$q(\xi \mid v)$."""
        return self.recognition(self.encode(v, mask))
