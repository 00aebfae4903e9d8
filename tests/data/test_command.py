"""`dlgm data`, run in this process."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from dlgm.cli.data import app
from dlgm.cli.errors import UsageError
from tests.data import write


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("DLGM_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *args: CliRunner().invoke(app, args)


def test_list(run, tmp_path):
    write.put(tmp_path / "cifar10/cifar-10-batches-bin/data_batch_1.bin", bytes(30 * 3073))
    result = run("list")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[:2] == ["name train/valid/test shape family files", "digits 1,297/250/250 8x8 bernoulli embedded"]
    assert "binarized-mnist 50,000/10,000/10,000 28x28 bernoulli missing" in lines
    assert "cifar10 25/2/3 32x32x3 discretised-logistic found" in lines
    assert "cifar10: 1 of 5 training batches, no test batch" in lines
    assert (
        f"frey-faces: put frey_rawface.mat (or the same with .gz) in {tmp_path}/frey_faces" in lines
    )  # in one piece, to be copied


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
        "location": f"{tmp_path}/frey_faces",
        "files": ["frey_rawface.mat"],
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
        ("svhn", "Looked for svhn/train_32x32.mat (or svhn/train_32x32.mat.gz) in "),
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


@pytest.mark.parametrize("command", ["list", "show"])
def test_help_has_an_example(run, command):
    help_text = run(command, "--help").stdout
    assert f"Example: dlgm data {command}" in help_text
    assert "--json" in help_text
    assert "--quiet" in help_text


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import dlgm.cli.data", {"numpy", "jax", "rich.table", "dlgm.data"}),
        ("import dlgm.data; dlgm.data.list_datasets()", {"jax", "sklearn", "scipy", "matplotlib", "pandas", "PIL"}),
    ],
)
def test_imports_are_lazy(statement, heavy, monkeypatch):
    monkeypatch.delenv("DLGM_DATA", raising=False)
    program = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not heavy & set(run.stdout.split())
