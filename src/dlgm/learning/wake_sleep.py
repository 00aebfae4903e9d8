"""Wake-sleep as an objective: the same model, learned by two gradients that are not those of one function."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Key

from dlgm.learning.noise import Noise
from dlgm.learning.objective import AbstractObjective, FreeEnergy, Terms, check_num_samples, noisy_inputs
from dlgm.model import Model


class WakeSleep(AbstractObjective):
    r"""The wake-sleep algorithm (Hinton, Dayan, Frey and Neal, 1995), one of the rows of the paper's table 1.

    - **Wake.** $\xi \sim q(\xi \mid v)$ is held fixed, and generative parameters follow $-\nabla \log p(v, \xi)$.
    - **Sleep.** A dream $(v', \xi') \sim p$ is held fixed, and recognition parameters follow
      $-\nabla \log q(\xi' \mid v')$.

    The first is a gradient of the free energy; the second is one of $KL(p(\xi \mid v) \,\|\, q(\xi \mid v))$ over the
    model's own rows, the divergence the other way round. So no function is minimised by both. The loss of a row has the
    value of its free energy, a bound like that of any other objective, and the gradient of the two phases.

    **Arguments**

    - `num_samples`: draws of $\xi$, and dreams, a row.

    From a random start it gets stuck where latents are not used, at independent columns: dreams that hardly depend on
    $\xi'$ teach $q$ the prior, and draws from the prior teach the generative model to do without them. So while the KL
    is brought in, $\beta < 1$, the recognition model follows the free energy too, with weight $1 - \beta$. After the
    warm-up, or without one, it is wake-sleep alone.

    Noise at the recognition model's input is added to dreams as well, and a dream has the holes of its row.

    >>> import jax, jax.numpy as jnp
    >>> from dlgm.learning import WakeSleep
    >>> from dlgm.model import ModelConfig, build_model, make_observation
    >>> config = ModelConfig(make_observation("bernoulli", columns=4).config(), latent=(2,), hidden=(8,))
    >>> model = build_model(config, key=jax.random.key(0))
    >>> WakeSleep()(model, jnp.array([0.0, 1.0, 1.0, 0.0]), key=jax.random.key(1)).kl.shape
    (1,)
    """

    num_samples: int = eqx.field(static=True, default=1)

    def __check_init__(self) -> None:
        check_num_samples(self.num_samples, at_least=1)

    def __call__(
        self,
        model: Model,
        v: Float[Array, " x"],
        mask: Bool[Array, " x"] | None = None,
        *,
        beta: Float[Array, ""] | float = 1.0,
        noise: Noise = Noise(),
        key: Key[Array, ""],
    ) -> Terms:
        """The free energy of one row, with the gradient of both phases."""
        key_wake, key_sleep = jax.random.split(key)
        # Wake: with q frozen, dF = -d log p(v, xi) at a draw, for neither the KL nor log p(xi) has such parameters.
        # q is frozen at beta = 1; before, a share of the gradient passes.
        frozen = jax.lax.stop_gradient(model.recognition)
        q = jax.tree.map(lambda p, at: at + (1 - beta) * (p - at), model.recognition, frozen)
        awake = FreeEnergy(self.num_samples)(Model(model.generative, q), v, mask, beta=beta, noise=noise, key=key_wake)

        # Sleep: -log q(xi' | v') of dreams, for its gradient alone.
        def surprise(k: Key[Array, ""]) -> Float[Array, ""]:
            return dream_surprise(model, mask, noise=noise, key=k)

        if self.num_samples == 1:  # as for the free energy
            asleep = surprise(key_sleep)
        else:
            asleep = jnp.mean(jax.vmap(surprise)(jax.random.split(key_sleep, self.num_samples)))
        loss = awake.loss + (asleep - jax.lax.stop_gradient(asleep))
        return Terms(loss, awake.reconstruction, awake.kl)


def dream_surprise(
    model: Model, mask: Bool[Array, " x"] | None = None, *, noise: Noise = Noise(), key: Key[Array, ""]
) -> Float[Array, ""]:
    r"""$-\log q(\xi' \mid v')$ of one dream, $\xi' \sim N(0, I)$ and $v' \sim p(v \mid \xi')$, both held fixed.

    Its mean is $E_{p(v)} KL(p(\xi \mid v) \,\|\, q(\xi \mid v))$ and a constant of the recognition model. With a
    `mask`, that of a row whose other cells were never seen.
    """
    key_xi, key_v, key_inputs = jax.random.split(key, 3)
    generative = jax.lax.stop_gradient(model.generative)
    xi = generative.sample_latents(key_xi)
    v = generative.observation.sample(generative.outputs(xi), key_v)
    x = noisy_inputs(model, jax.lax.stop_gradient(v), mask, noise, key_inputs)
    return -model.recognition(x).log_prob(xi)
