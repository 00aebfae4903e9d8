r"""The recognition model of the paper's section 4.1: deep networks from a row to $q(\xi \mid v)$."""

import equinox as eqx
from jax import Array
from jaxtyping import Float

from dlgm.gaussians import BlockGaussian
from dlgm.model.heads import AbstractHead
from dlgm.model.networks import MLP
from dlgm.model.posterior import AbstractPosterior, DirectedPosterior, GaussianPosterior


class RecognitionModel(eqx.Module):
    """A trunk that all layers share, and a head for each Gaussian.

    Heads for every layer give a posterior that is factorised over layers; a single head for all latents together a
    joint one; and with `directed`, each head also sees the draws of the layers above its own.

    **Fields**

    - `trunk`: from the encoded row to features, or `None` for heads that see the encoded row itself.
    - `heads`: one for each layer, the layer next to the data first, or one for all.
    - `directed`: whether a head takes the draws above it beside the features.
    - `sees_mask`: whether, beside the encoded row, one number a column says that its cell is a hole.
    """

    trunk: MLP | None
    heads: tuple[AbstractHead, ...]
    directed: bool = eqx.field(static=True)
    sees_mask: bool = eqx.field(static=True, default=False)

    @property
    def num_groups(self) -> int:
        """How many KL terms a row has."""
        return len(self.heads)

    def __call__(self, x: Float[Array, " i"]) -> AbstractPosterior:
        """The posterior for one encoded row."""
        features = x if self.trunk is None else self.trunk.features(x)
        if self.directed:
            return DirectedPosterior(features, self.heads)
        gaussians = [head(features) for head in self.heads]
        return GaussianPosterior(gaussians[0] if len(gaussians) == 1 else BlockGaussian(*gaussians))
