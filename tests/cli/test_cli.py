"""The command line as a user meets it: in a process of its own, with right and wrong input."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from dlgm.cli.app import app
from dlgm.learning.config import OBJECTIVES, OPTIMISERS, SCHEDULES
from dlgm.model.config import STRUCTURES
from dlgm.model.heads import HEADS
from dlgm.model.observations.registry import FAMILIES
from dlgm.model.presets import PRESETS
from dlgm.reproduce.variance import FORMULAS

QUICK = ("--budget", "quick")


def dlgm(*args, cwd=None):
    return subprocess.run(
        [sys.executable, "-c", "from dlgm.cli import main; main()", *args], capture_output=True, text=True, cwd=cwd
    )


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    out = tmp_path_factory.mktemp("variance") / "new" / "folder"
    return dlgm(
        "reproduce", "variance", *QUICK, "--seed", "1", "--json", "--out", str(out), "--page", str(out / "page.md")
    ), out


def test_variance_study_writes_its_files(quick):
    run, out = quick
    assert run.returncode == 0, run.stderr
    names = {"variance.json", "formulas.png", "ratio.png", "growth.png", "comparison.png", "page.md", "figures"}
    assert {path.name for path in out.iterdir()} == names
    for path in out.rglob("*.png"):
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert path.stat().st_size > 10_000


def test_variance_study_prints_its_numbers(quick):
    """With --json, stdout holds the file and nothing else; without, tables are made of the same numbers."""
    from rich.console import Console

    from dlgm.cli.reproduce_variance import _summary

    run, out = quick
    assert json.loads(run.stdout) == json.loads((out / "variance.json").read_text())
    assert run.stderr == ""
    console = Console(record=True, width=120, file=io.StringIO())
    for table in _summary(json.loads(run.stdout)):
        console.print(table)
    printed = console.export_text()
    for words in ("Bonnet, d/dmu", "REINFORCE, leave-one-out", "diverges"):
        assert words in printed
    page = (out / "page.md").read_text()
    assert page.startswith(
        "<!-- written by `dlgm reproduce variance` -->\n\n## Variance of gradient estimators (app. D)"
    )
    assert re.search(r"\| ProductRule \| \d+\.\d{3} \| diverges \|", page)
    assert "(lower bound 5/2), measured " in page
    assert '"budget": "quick", "seed": 1' in page


def test_variances_agree_with_the_papers_formulas(quick):
    """Every measured variance within 5 standard errors (6e-7 a comparison), Price's exactly zero."""
    results = json.loads((quick[1] / "variance.json").read_text())
    assert results["seed"] == 1
    for row in results["quadratic"]:
        assert set(row["variances"]) == set(FORMULAS)
        for name, cell in row["variances"].items():
            slack = 1e-12 if name == "Price, d/dC" else 5 * cell["standard_error"]
            assert abs(cell["measured"] - cell["formula"]) <= slack, (row, name)


def test_ratio_growth_and_comparison(quick):
    results = json.loads((quick[1] / "variance.json").read_text())
    for row in results["ratio"]["rows"]:
        assert row["measured"] > 2.5 - 5 * row["standard_error"]
        assert abs(row["measured"] - row["formula"]) < 5 * row["standard_error"]
    centred = [row for row in results["ratio"]["rows"] if row["mu_over_sigma"] == 0]
    smallest = results["ratio"]["smallest"]
    assert (smallest["formula"], smallest["settings"]) == (2.5, len(centred))
    assert np.isclose(smallest["measured"], np.mean([row["measured"] for row in centred]))
    assert abs(smallest["measured"] - 2.5) < 5 * smallest["standard_error"] < 5 * centred[0]["standard_error"]
    for row in results["growth"]["rows"]:
        for name in ("REINFORCE", "Bonnet"):
            assert abs(row[name]["measured"] - row[name]["formula"]) < 5 * row[name]["standard_error"]
    exponents = results["growth"]["exponents"]
    assert abs(exponents["REINFORCE"] - 1) < 0.1
    assert abs(exponents["Bonnet"]) < 0.1
    one = [row for row in results["comparison"] if row["law"] == "one latent"]
    assert len(one) == 10
    for row in one:
        for parameter in ("mu", "sigma"):
            cell = row[parameter]
            if cell is None:
                assert (row["estimator"], parameter) == ("ProductRule", "sigma")
            else:
                assert abs(cell["mean"] - cell["exact_mean"]) < 5 * cell["mean_standard_error"], row["estimator"]


def test_help_has_an_example_and_version_a_number():
    help_text = dlgm("reproduce", "variance", "--help").stdout
    assert "dlgm reproduce variance --budget quick" in help_text
    for option in ("--out", "--seed", "--budget", "--page", "--quiet", "--json"):
        assert option in help_text
    assert dlgm("--version").stdout.startswith("dlgm 0.")


def test_fit_s_help_has_every_name():
    """Written out there, so that help need not import what they name."""
    words = [
        parameter.help or ""
        for parameter in typer.main.get_command(app).commands["fit"].params  # type: ignore[attr-defined]
        if hasattr(parameter, "help")
    ]
    for known in (PRESETS, FAMILIES, OPTIMISERS, OBJECTIVES, SCHEDULES, STRUCTURES, HEADS):
        assert any(all(re.search(rf"\b{name}\b", text) for name in known) for text in words), known


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["reproduce", "variance", "--seed", "minus"], "--seed"),
        (["reproduce", "variance", "--seed", "-1"], "--seed"),
        (["reproduce", "nothing"], "No such command"),
        (["reproduce", "variance", "--fast"], "No such option"),
    ],
)
def test_wrong_options(args, words, tmp_path):
    run = dlgm(*args, cwd=tmp_path)
    assert run.returncode == 2
    assert words in " ".join(run.stderr.replace("│", " ").split())
    assert "Traceback" not in run.stderr
    assert not list(tmp_path.iterdir())


def test_out_is_a_file(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("precious")
    run = dlgm("reproduce", "variance", *QUICK, "--out", str(taken))
    assert run.returncode == 2
    assert run.stderr == f"dlgm: --out: expected a folder to write to; {taken} is a file.\n"
    assert taken.read_text() == "precious"


def modules_after(statement):
    program = f"import sys; {statement}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.split())


def test_imports_are_lazy():
    """What makes `import dlgm` and `dlgm --help` quick, said without a clock."""
    heavy = {"jax", "numpy", "numpyro", "equinox", "matplotlib"}
    assert not heavy & modules_after("import dlgm")
    assert not heavy & modules_after("import dlgm.cli")
    assert "matplotlib" not in modules_after("import dlgm; dlgm.RankOneGaussian; dlgm.expect")


def test_every_public_name_resolves():
    import dlgm as package

    assert {"RankOneGaussian", "expect", "BonnetPrice"} <= set(package.__all__)
    for name in package.__all__:
        assert getattr(package, name).__doc__
        assert name in dir(package)
    with pytest.raises(AttributeError, match="module 'dlgm' has no attribute 'Nothing'"):
        package.Nothing  # noqa: B018


def test_public_names_are_listed_once():
    import dlgm as package
    from dlgm import artifact, data, estimators, gaussians, inference, learning, model, stochastic, tables

    rooms = (artifact, data, estimators, gaussians, inference, learning, model, stochastic, tables)
    exported = [name for room in rooms for name in room.__all__]
    assert len(set(exported)) == len(exported)
    assert set(package.__all__) == set(exported)


def test_no_pickle_and_no_eval_in_the_package():
    root = Path(__file__).parents[2] / "src"
    for path in root.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text, path
        assert "allow_pickle=True" not in text, path
        assert "eval(" not in text.replace("jax.eval_shape(", ""), path


def test_compiled_programs_are_kept_in_the_cache(tmp_path, monkeypatch):
    """In a folder for this kind of processor; not where JAX has been told of another, nor where none can be made."""
    variable = "JAX_COMPILATION_CACHE_DIR"
    monkeypatch.setenv("DLGM_CACHE", str(tmp_path))
    monkeypatch.setenv(variable, "elsewhere")
    CliRunner().invoke(app, ["data", "list"])
    assert os.environ[variable] == "elsewhere"
    assert not any(tmp_path.iterdir())

    monkeypatch.delenv(variable)
    CliRunner().invoke(app, ["data", "list"])
    (kind,) = (tmp_path / "compiled").iterdir()
    assert os.environ[variable] == str(kind)
    assert kind.stat().st_mode & 0o077 == 0

    kind.chmod(0o777)  # others may have put something there
    monkeypatch.delenv(variable)
    CliRunner().invoke(app, ["data", "list"])
    assert variable not in os.environ
    kind.chmod(0o700)
    monkeypatch.setenv(variable, "elsewhere")

    (tmp_path / "file").touch()
    monkeypatch.setenv("DLGM_CACHE", str(tmp_path / "file"))
    monkeypatch.delenv(variable)
    assert CliRunner().invoke(app, ["data", "list"]).exit_code == 0
    assert variable not in os.environ
