"""`dlgm data`, run in this process."""

import io
import json
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from scipy.io import savemat
from typer.testing import CliRunner

from dlgm.cli.app import app as whole_app
from dlgm.cli.data import app
from dlgm.cli.errors import UsageError
from tests.data import write
from tests.data.server import Server


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("DLGM_DATA", str(tmp_path))
    monkeypatch.setenv("DLGM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *args: CliRunner().invoke(app, args)


def test_list(run, tmp_path, monkeypatch):
    write.put(tmp_path / "cifar10/cifar-10-batches-bin/data_batch_1.bin", bytes(30 * 3073))
    result = run("list")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[:2] == [
        "name train/valid/test shape where size terms",
        "digits 1,297/250/250 8x8 embedded - as scikit-learn",
    ]
    assert "binarized-mnist 50,000/10,000/10,000 28x28 not yet 110 MB none stated" in lines
    assert "cifar10 25/2/3 32x32x3 DLGM_DATA 170 MB none stated" in lines
    assert "svhn 65,932/7,325/26,032 32x32x3 not yet 246 MB non-commercial" in lines
    assert "cifar10: 1 of 5 training batches, no test batch" in lines
    assert lines[-1] == "What is not here yet would be fetched, but DLGM_OFFLINE forbids it."
    monkeypatch.delenv("DLGM_OFFLINE")
    assert run("list").stdout.endswith("is fetched when first used, or with `dlgm data fetch NAME`.\n")


def test_list_as_json(run, tmp_path):
    result = run("list", "--json", "--quiet")
    infos = json.loads(result.stdout)
    assert [info["name"] for info in infos][:3] == ["digits", "binarized-mnist", "mnist"]
    assert infos[4] == {
        "name": "frey-faces",
        "description": "one man's face in a video, grey; validation and test are the last 400 frames",
        "shape": [28, 20],
        "rows": {"train": 1565, "valid": 200, "test": 200},
        "family": "discretised-logistic",
        "where": "",
        "location": f"{tmp_path}/cache/frey_faces",
        "files": ["frey_rawface.mat"],
        "size": 1_100_000,
        "terms": "none stated",
        "page": "https://cs.nyu.edu/~roweis/data.html",
        "found": False,
        "note": "",
    }


def test_quiet(run):
    assert run("list", "--quiet").stdout == ""
    assert run("show", "digits", "--quiet").stdout == ""


def test_show(run):
    result = run("show", "digits")
    assert result.exit_code == 0
    words = " ".join(result.stdout.replace("│", " ").replace("┃", " ").split())
    assert "digits: 8x8 uint8, bernoulli" in words
    assert "split rows share of ones classes" in words
    assert "train 1,297 0.3226 10 valid 250 0.3253 10 test 250 0.3231 10" in words


def test_show_as_json(run, tmp_path):
    record = b"\x03" + bytes([60]) * 3072
    write.put(tmp_path / "cifar10/cifar-10-batches-bin/data_batch_1.bin", 30 * record)
    assert json.loads(run("show", "cifar10", "--json").stdout) == {
        "name": "cifar10",
        "shape": [32, 32, 3],
        "family": "discretised-logistic",
        "dtype": "uint8",
        "splits": {
            "train": {"rows": 25, "mean": 60.0, "classes": 1},
            "valid": {"rows": 2, "mean": 60.0, "classes": 1},
            "test": {"rows": 3, "mean": 60.0, "classes": 1},
        },
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("minst", "Expected the name of a data set; got 'minst'. Did you mean 'mnist'?"),
        ("svhn", "svhn: expected train_32x32.mat, test_32x32.mat in "),
    ],
)
def test_what_goes_wrong_is_one_line(run, name, words):
    error = run("show", name).exception
    assert isinstance(error, UsageError)  # which the command line prints, with exit code 2
    assert str(error).startswith(words)
    assert "\n" not in str(error)


def test_exit_code_of_a_wrong_name():
    program = "from dlgm.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", program, "data", "show", "digit"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "dlgm: Expected the name of a data set; got 'digit'. Did you mean 'digits'? There are: digits, "
        "binarized-mnist, mnist, fashion-mnist, frey-faces, cifar10, cifar10-patches, svhn, small-norb.\n"
    )


@pytest.mark.parametrize("command", ["list", "show", "path", "fetch"])
def test_help_has_an_example(run, command):
    help_text = run(command, "--help").stdout
    assert f"Example: dlgm data {command}" in help_text
    assert "--json" in help_text
    assert "--quiet" in help_text


# Where the files are


def test_path(run, tmp_path):
    path = write.put(tmp_path / "frey_faces/frey_rawface.mat", b"", gzipped=True)
    assert run("path", "frey-faces").stdout == f"{tmp_path}/frey_faces\n"
    assert run("path", "frey-faces", "--files").stdout == f"{path}\n"
    assert run("path", "frey-faces", "--quiet").stdout == ""
    assert json.loads(run("path", "frey-faces", "--json").stdout) == {
        "name": "frey-faces",
        "where": "DLGM_DATA",
        "folder": f"{tmp_path}/frey_faces",
        "files": [str(path)],
    }


def test_path_of_what_is_not_there(run, tmp_path):
    error = run("path", "mnist").exception
    assert isinstance(error, UsageError)
    assert str(error) == (
        f"Expected the files of mnist in {tmp_path}/mnist (DLGM_DATA) or in {tmp_path}/cache/mnist; they are not "
        "there. `dlgm data fetch mnist` fetches them."
    )
    assert str(run("path", "digits").exception) == "digits is embedded: it has no files."
    assert json.loads(run("path", "digits", "--json").stdout)["folder"] is None


def test_exit_code_of_an_absent_path(tmp_path, monkeypatch):
    monkeypatch.setenv("DLGM_DATA", str(tmp_path))
    program = "from dlgm.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", program, "data", "path", "svhn"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("dlgm: Expected the files of svhn in ")
    assert run.stderr.count("\n") == 1


# Fetching, from a mirror of one's own


@cache  # such a file has the time of its writing in it
def faces(number):
    """A file as Frey's, every pixel `number`."""
    file = io.BytesIO()
    savemat(file, {"ff": np.full((560, 1965), number, np.uint8)})
    return file.getvalue()


FACES = "/frey_faces/frey_rawface.mat"


@pytest.fixture
def mirror(run, monkeypatch):
    """Where everything is fetched from; nothing is, but what is put there."""
    monkeypatch.delenv("DLGM_OFFLINE")
    monkeypatch.delenv("DLGM_DATA")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as server:
        server.files[FACES] = faces(7)
        monkeypatch.setenv("DLGM_MIRROR", server.address)
        yield server


def test_fetch(run, mirror, tmp_path):
    cache = tmp_path / "cache"
    result = run("fetch", "frey-faces", "digits")
    assert result.exit_code == 0
    assert result.stdout == f"frey-faces: fetched to {cache}/frey_faces\ndigits: embedded\n"
    assert result.stderr == (
        f"Fetching frey-faces: 1.1 MB from {mirror.address}/frey_faces/ to {cache}/frey_faces. "
        "Terms: none stated, see https://cs.nyu.edu/~roweis/data.html\n"
    )
    assert (cache / "frey_faces/frey_rawface.mat").read_bytes() == mirror.files[FACES]
    assert run("fetch", "frey-faces").stdout == f"frey-faces: whole, in {cache}/frey_faces\n"
    assert len(mirror.seen) == 1
    assert run("fetch", "frey-faces", "--force").stdout == f"frey-faces: fetched to {cache}/frey_faces\n"
    assert len(mirror.seen) == 2


def test_fetch_mends_what_is_damaged(run, mirror, tmp_path):
    path = write.put(tmp_path / "cache/frey_faces/frey_rawface.mat", faces(7)[:5000])
    result = run("fetch", "frey-faces")
    assert result.stderr.startswith(f"{path}: expected a MATLAB file; got ")
    assert path.read_bytes() == mirror.files[FACES]


def test_fetch_as_json_and_quiet(run, mirror, tmp_path):
    result = run("fetch", "frey-faces", "--json", "--quiet")
    assert json.loads(result.stdout) == [
        {
            "name": "frey-faces",
            "status": "fetched",
            "where": "cache",
            "files": [f"{tmp_path}/cache/frey_faces/frey_rawface.mat"],
            "message": "",
        }
    ]
    assert result.stderr == ""
    result = run("fetch", "frey-faces", "--quiet", "--force")
    assert (result.stdout, result.stderr, result.exit_code) == ("", "", 0)


def test_fetch_leaves_the_users_own_files_alone(run, mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("DLGM_DATA", str(tmp_path))
    write.put(tmp_path / "frey_faces/frey_rawface.mat", b"mine")
    words = f"frey-faces: found in {tmp_path}/frey_faces, where DLGM_DATA points; not checked\n"
    assert run("fetch", "frey-faces").stdout == words
    assert mirror.seen == []
    forced = run("fetch", "frey-faces", "--force").stdout
    assert forced == (
        f"frey-faces: fetched to the cache; but {tmp_path}/frey_faces, where DLGM_DATA points, comes first\n"
    )
    assert (tmp_path / "frey_faces/frey_rawface.mat").read_bytes() == b"mine"


def test_one_failure_does_not_stop_the_others(run, mirror, tmp_path, monkeypatch):
    """All are asked for; all but one fail, here because nothing may be fetched."""
    run("fetch", "frey-faces")
    for result in (run("fetch", "--all", "--offline"), run("fetch", "--all", "--offline", "--quiet")):
        assert result.exit_code == 2
        failures = result.stderr.splitlines()
        assert len(failures) == 7
        assert failures[0].startswith("dlgm: binarized-mnist: expected binarized_mnist_train.amat, ")
    answer = json.loads(run("fetch", "--all", "--offline", "--json").stdout)
    statuses = {result["name"]: result["status"] for result in answer}
    assert (statuses.pop("digits"), statuses.pop("frey-faces")) == ("embedded", "whole")
    assert set(statuses.values()) == {"failed"}
    assert answer[1]["message"].startswith("binarized-mnist: expected ")


def test_sets_that_share_files_are_fetched_once(mirror, tmp_path, monkeypatch):
    from dlgm.data import fetch_datasets, registry

    asked = []

    def fetch(entry, force, **rest):
        asked.append((entry.name, force))
        return True

    monkeypatch.setattr(registry, "_fetch", fetch)
    monkeypatch.setattr(registry, "find_dataset", lambda name: None)
    assert [result.status for result in fetch_datasets(["cifar10", "cifar10-patches"], force=True)] == 2 * ["fetched"]
    assert asked == [("cifar10", True), ("cifar10-patches", False)]


@pytest.mark.parametrize("args", [["fetch"], ["fetch", "mnist", "--all"]], ids=" ".join)
def test_fetch_what(run, args):
    error = run(*args).exception
    assert isinstance(error, UsageError)
    assert str(error) == "Expected names of data sets, or --all: see `dlgm data list`."


def test_fetch_a_wrong_name_fetches_nothing(run, mirror):
    error = run("fetch", "frey-faces", "frey-face").exception
    assert isinstance(error, UsageError)
    assert str(error).startswith("Expected the name of a data set; got 'frey-face'. Did you mean 'frey-faces'?")
    assert mirror.seen == []


def test_loading_fetches(run, mirror, tmp_path):
    result = run("show", "frey-faces", "--json")
    assert json.loads(result.stdout)["splits"]["test"] == {"rows": 200, "mean": 7.0, "classes": 0}
    assert result.stderr.startswith(
        f"Fetching frey-faces: 1.1 MB from {mirror.address}/frey_faces/ to {tmp_path}/cache/"
    )
    again = run("show", "frey-faces", "--json")
    assert (again.stdout, again.stderr) == (result.stdout, "")
    assert mirror.seen == [FACES]


@pytest.mark.parametrize(
    "args",
    [
        ["data", "show", "frey-faces"],
        ["data", "fetch", "frey-faces"],
        ["fit", "frey-faces", "--out", "model.dlgm"],
        ["score", "frey-faces", "--model", "model.dlgm"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("how", ["option", "variable"])
def test_offline(mirror, args, how, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dlgm.cli.score.load_saved", lambda path: None)
    if how == "variable":
        monkeypatch.setenv("DLGM_OFFLINE", "1")
    result = CliRunner().invoke(whole_app, [*args, "--offline"] if how == "option" else args)
    words = (
        f"frey-faces: expected frey_rawface.mat in {tmp_path}/cache/frey_faces; missing or damaged, and fetching is off"
    )
    assert words in (str(result.exception) + result.stderr)
    assert result.exit_code != 0
    assert mirror.seen == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import dlgm.cli.data", {"numpy", "jax", "rich.table", "dlgm.data"}),
        ("import dlgm.data", {"jax", "sklearn", "scipy", "matplotlib", "pooch", "requests", "http.client", "pandas"}),
        (
            "import dlgm.data; dlgm.data.list_datasets()",
            {"jax", "sklearn", "scipy", "matplotlib", "requests", "pandas", "PIL"},
        ),
    ],
)
def test_imports_are_lazy(statement, heavy, monkeypatch):
    monkeypatch.delenv("DLGM_DATA", raising=False)
    program = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not heavy & set(run.stdout.split())
