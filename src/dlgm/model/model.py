"""A generative model and the recognition model that inverts it."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Key

from dlgm.model.bayes import ParameterPosterior
from dlgm.model.cell_recognition import CellRecognition
from dlgm.model.generative import GenerativeModel
from dlgm.model.observations import AbstractObservation
from dlgm.model.posterior import AbstractPosterior
from dlgm.model.recognition import RecognitionModel
from dlgm.model.trainable import AbstractTrainable


class Model(AbstractTrainable):
    r"""A deep latent Gaussian model: $p(v, \xi)$ and $q(\xi \mid v)$.

    A plain pytree of arrays. `build_model` makes one from a `ModelConfig`, `fit` trains it.

    With `parameters` it is a Bayesian model, with the means of $q(\theta)$ in `generative`; `drawn` and `at_mean` make
    plain ones of it. Questions to a model draw the parameters by themselves where their answer is an average.
    """

    generative: GenerativeModel
    recognition: RecognitionModel | CellRecognition
    parameters: ParameterPosterior | None = None

    def drawn(self, key: Key[Array, ""]) -> "Model":
        r"""A plain model with $\theta \sim q(\theta)$; a model that is plain already is returned as it is."""
        if self.parameters is None:
            return self
        return Model(self.parameters.drawn(self.generative, key), self.recognition)

    def at_mean(self) -> "Model":
        """A plain model with the parameters at their means: a point estimate."""
        return Model(self.generative, self.recognition)

    def penalty(self) -> Float[Array, ""]:
        r"""The parameters' own term of the loss: $KL(q(\theta) \,\|\, p(\theta))$, or $|\theta|^2 / (2 \kappa)$."""
        if self.parameters is None:
            return self.generative.penalty()
        return self.parameters.divergence(self.generative)

    @property
    def is_bayesian(self) -> bool:
        """Whether it has a posterior over its parameters."""
        return self.parameters is not None

    @property
    def observation(self) -> AbstractObservation:
        """The generative model's."""
        return self.generative.observation

    @property
    def num_groups(self) -> int:
        """The recognition model's: one for each layer, or a single one for a joint posterior."""
        return self.recognition.num_groups

    def encode(self, v: Float[Array, " x"], mask: Bool[Array, " x"] | None = None) -> Float[Array, " i"]:
        """A row as the recognition model sees it: finite numbers, in the family's own coordinate, zero in holes."""
        return self.with_mask(self.generative.observation.encode(v, mask), mask)

    def with_mask(self, x: Float[Array, " i"], mask: Bool[Array, " x"] | None) -> Float[Array, " j"]:
        """An encoded row and, if the model sees the mask, a number a column after it: one for a hole, else zero.

        Ones for holes and not for what is there: a column without holes in training then adds nothing, ever.
        """
        if not self.recognition.sees_mask:
            return x
        columns = self.generative.observation.columns
        holes = jnp.zeros(columns, x.dtype) if mask is None else (~mask).astype(x.dtype)
        return jnp.concatenate([x, holes])

    def posterior(self, v: Float[Array, " x"], mask: Bool[Array, " x"] | None = None) -> AbstractPosterior:
        r"""$q(\xi \mid v)$."""
        return self.recognition(self.encode(v, mask))
