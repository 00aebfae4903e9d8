"""Families by name."""

import inspect
from collections.abc import Mapping
from typing import Any

from dlgm.model.observations.bernoulli import Bernoulli
from dlgm.model.observations.codes import Categorical, Ordinal
from dlgm.model.observations.composite import Composite
from dlgm.model.observations.counts import NegativeBinomial, Poisson
from dlgm.model.observations.discretised_logistic import DiscretisedLogistic
from dlgm.model.observations.heaped import HeapedGaussian, HeapedLogNormal
from dlgm.model.observations.observation import AbstractObservation
from dlgm.model.observations.real import Gaussian, Logistic, LogNormal, StudentT
from dlgm.names import closest

FAMILIES: dict[str, Any] = {
    family.name: family
    for family in (
        Bernoulli,
        Gaussian,
        StudentT,
        Logistic,
        LogNormal,
        HeapedGaussian,
        HeapedLogNormal,
        Categorical,
        Ordinal,
        Poisson,
        NegativeBinomial,
        DiscretisedLogistic,
    )
}


def make_observation(name: object, columns: object, **options: Any) -> AbstractObservation:
    """The family called `name` over `columns` columns.

    >>> make_observation("categorical", 3, num_classes=4).num_outputs
    12
    """
    if name not in FAMILIES:
        raise ValueError(
            f"Expected an observation family: {', '.join(FAMILIES)}; got {name!r}.{closest(name, FAMILIES)}"
        )
    family = FAMILIES[str(name)]
    known = {key: value for key, value in inspect.signature(family).parameters.items() if key != "columns"}
    for option in options:
        if option not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no options"
            raise ValueError(f"{name}: unknown option `{option}`; it {takes}.{closest(option, known)}")
    for option, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and option not in options:
            raise ValueError(f"{name}: expected the option `{option}`; got none.")
    return family(columns, **options)


def observation_from_config(config: Mapping[str, Any]) -> AbstractObservation:
    """The family that `config()` described. Its trainable arrays are fresh.

    >>> import json
    >>> text = json.dumps(make_observation("gaussian", 2, variance="global").config())
    >>> observation_from_config(json.loads(text)).variance
    'global'
    """
    options = dict(config)
    name = options.pop("family", None)
    if name == Composite.name:
        return Composite([(observation_from_config(part), columns) for part, columns in options["parts"]])
    return make_observation(name, options.pop("columns", None), **options)
