"""Model files as an enemy or a failing disk would leave them: a clear error or the same model, and nothing else."""

import json
import random
import tracemalloc

import jax
import numpy as np
import pytest

from dlgm.artifact import ModelFileError, describe_model, load_model, save_model
from dlgm.tensorfile import read_tensors, write_tensors
from tests.test_artifact import saved


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "m.dlgm"
    save_model(path, saved())
    return path.read_bytes(), weights(load_model(path))


def weights(loaded):
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(loaded.model)]


def outcome(read, path):
    """What was read, or the refusal. Any other error is let through."""
    try:
        return read(path), None
    except ModelFileError as error:
        return None, str(error)


def mutated(content, draw):
    """One of the ways in which a file goes wrong."""
    data = bytearray(content)
    header = int.from_bytes(data[:8], "little")
    kind = draw.randrange(7)
    if kind == 0:  # a bit flips anywhere
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif kind == 1:  # several bytes of the header change
        for _ in range(draw.randint(1, 8)):
            data[draw.randrange(8 + header)] = draw.randrange(256)
    elif kind == 2:  # it ends early
        del data[draw.randrange(len(data)) :]
    elif kind == 3:  # or late
        data += draw.randbytes(draw.randint(1, 100))
    elif kind == 4:  # the header claims another length, perhaps an enormous one
        data[:8] = draw.choice([0, 1, header - 1, header + 1, 2**31, 2**63, 2**64 - 1]).to_bytes(8, "little")
    elif kind == 5:  # a stretch is lost, doubled or zeroed
        a = draw.randrange(len(data))
        b = min(len(data), a + draw.randint(1, 64))
        data[a:b] = draw.choice([b"", bytes(b - a), bytes(data[a:b]) * 2])
    else:  # a number in the header is another one
        text = bytes(data[8 : 8 + header])
        digits = [i for i, byte in enumerate(text) if chr(byte).isdigit()]
        i = draw.choice(digits)
        data[8 + i] = ord(draw.choice("0123456789-e."))
    return bytes(data)


def test_ten_thousand_mutations(whole, tmp_path):
    content, expected = whole
    draw, path = random.Random(0), tmp_path / "m.dlgm"
    refused = 0
    for _ in range(10_000):
        path.write_bytes(mutated(content, draw))
        for read in (describe_model, load_model):
            loaded, message = outcome(read, path)
            assert message is None or (message.startswith(str(path)) and "\n" not in message)
        refused += message is not None
        assert loaded is None or weights(loaded) == expected
    assert refused > 9_000


def config_with(**changes):
    def change(tensors, text):
        text["config"] = json.dumps({**json.loads(text["config"]), **changes})

    return change


def observation_with(**changes):
    def change(tensors, text):
        config = json.loads(text["config"])
        text["config"] = json.dumps({**config, "observation": {**config["observation"], **changes}})

    return change


def tensor_with(change_one):
    def change(tensors, text):
        name = sorted(tensors)[0]
        tensors[name] = change_one(tensors[name])

    return change


FORGED = {
    "deep JSON": lambda t, d: d.update(config="[" * 100_000 + "]" * 100_000),
    "deep JSON in the data": lambda t, d: d.update(data='{"a":' * 100_000 + "1" + "}" * 100_000),
    "not an object": lambda t, d: d.update(config="[1, 2]"),
    "a text": lambda t, d: d.update(training='"text"'),
    "huge latent": config_with(latent=[10**9]),
    "beyond all floats": config_with(latent=[10**400]),
    "huge hidden": config_with(hidden=[10**9]),
    "many layers": config_with(hidden=[1] * 10_000),
    "many layers, nested": config_with(hidden=[[1] * 10_000, [3]]),
    "negative": config_with(latent=[-2, 1]),
    "a float": config_with(latent=[2.0, 1]),
    "infinite": lambda t, d: d.update(config=d["config"].replace("[2, 1]", "[1e999]")),
    "huge rank": config_with(covariance="rank-r", rank=10**9),
    "unknown setting": config_with(__class__="os.system"),
    "unknown nonlinearity": config_with(nonlinearity="__import__('os').abort()"),
    "huge columns": observation_with(columns=10**12),
    "unknown family": observation_with(family="pickle"),
    "no family": lambda t, d: d.update(config=json.dumps({**json.loads(d["config"]), "observation": {}})),
    "an integer array": tensor_with(lambda a: a.astype(np.int32)),
    "a float64 array": tensor_with(lambda a: a.astype(np.float64)),
    "another shape": tensor_with(lambda a: a.reshape(1, -1)),
    "an empty array": tensor_with(lambda a: a[:0]),
    "a stray array": lambda t, d: t.update(stray=np.zeros(3, np.float32)),
    "no arrays": lambda t, d: t.clear(),
    "not finite": tensor_with(lambda a: a + np.inf),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_files(name, whole, tmp_path):
    """With a digest that fits: the refusal comes from what the file says, and takes little memory."""
    path = tmp_path / "m.dlgm"
    path.write_bytes(whole[0])
    tensors, text = read_tensors(path)
    FORGED[name](tensors, text)
    write_tensors(path, tensors, text)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) as error:
            load_model(path)
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
    assert str(error.value).startswith(str(path))
    assert len(str(error.value)) < 1000


def test_names_twice(whole, tmp_path):
    """A header that names an array, or the description, twice: whichever counts, the digest has to fit it."""
    content, expected = whole
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length].decode().rstrip()
    name = sorted(json.loads(header))[1]
    entry = json.dumps(json.loads(header)[name])
    for twice in (f'{{"{name}":{entry},' + header[1:], header[:-1] + ',"__metadata__":{"format":"dlgm"}}'):
        twice += " " * (-len(twice) % 8)
        path = tmp_path / "m.dlgm"
        path.write_bytes(len(twice).to_bytes(8, "little") + twice.encode() + content[8 + length :])
        loaded, message = outcome(load_model, path)
        assert message.startswith(str(path)) if loaded is None else weights(loaded) == expected
