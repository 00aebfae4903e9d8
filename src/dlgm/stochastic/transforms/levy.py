"""The Levy law."""

import numpyro.distributions as dist


class Levy(dist.Levy):
    r"""$x = \mu + c / \epsilon^2$ with $\epsilon$ standard normal: heavy-tailed, without a mean.

    numpyro's own law, which samples by a differentiable transformation already, declared reparametrised.

    **Arguments**: `loc` $\mu$, `scale` $c > 0$.
    """

    reparametrized_params = ["loc", "scale"]
