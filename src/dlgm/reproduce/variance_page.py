"""The variance study's numbers in tables and a sentence, for the terminal and for the results page."""

from typing import Any

from dlgm.reproduce.page import markdown_table
from dlgm.reproduce.variance import FORMULAS, ONE

AGAINST = ("gradient", "largest deviation from the formula", "largest in standard errors")
COMPARED = ("estimator", "in mu", "in sigma")
COMPARED_TITLE = "f = cos 2x + x under N(0.5, 0.8^2): variance of one sample's gradient"


def against_title(results: dict[str, Any]) -> str:
    """What the formulas are compared on."""
    return f"f = c x^2 / 2: {len(results['quadratic'])} settings of mu, sigma, c"


def against_formulas(results: dict[str, Any]) -> list[tuple[str, str, str]]:
    """How far each measured variance is from its formula, at worst: under the headings `AGAINST`."""
    lines = []
    for name in FORMULAS:
        cells = [row["variances"][name] for row in results["quadratic"]]
        gaps = [abs(cell["measured"] - cell["formula"]) for cell in cells]
        if all(cell["formula"] == 0 for cell in cells):
            lines.append((name, f"{max(gaps):.1e} (formula: 0)", "-"))
            continue
        relative = max(gap / cell["formula"] for gap, cell in zip(gaps, cells, strict=True))
        errors = max(gap / cell["standard_error"] for gap, cell in zip(gaps, cells, strict=True))
        lines.append((name, f"{100 * relative:.2f} %", f"{errors:.1f}"))
    return lines


def compared(results: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Every estimator's variance on one latent: under the headings `COMPARED`."""

    def cell(found: dict[str, float] | None) -> str:
        return "diverges" if found is None else f"{found['variance']:.3f}"

    return [
        (row["estimator"], cell(row["mu"]), cell(row["sigma"])) for row in results["comparison"] if row["law"] == ONE
    ]


def ratio_and_growth(results: dict[str, Any]) -> str:
    """The two facts of app. D in a sentence each."""
    smallest, exponents = results["ratio"]["smallest"], results["growth"]["exponents"]
    return (
        f"REINFORCE / Bonnet: the smallest ratio over all settings is {smallest['formula']:.3f} by the formula "
        f"(lower bound 5/2), measured {smallest['measured']:.3f} in the mean over {smallest['settings']} settings, "
        f"with a standard error of {smallest['standard_error']:.3f}. "
        f"Growth with K: REINFORCE K^{exponents['REINFORCE']:z.2f}, Bonnet K^{exponents['Bonnet']:z.2f}."
    )


def markdown(results: dict[str, Any]) -> str:
    """The numbers as a section of the results page."""
    return "\n\n".join(
        [
            "## Variance of gradient estimators (app. D)",
            f"{against_title(results)}:",
            markdown_table(AGAINST, against_formulas(results)),
            ratio_and_growth(results),
            f"{COMPARED_TITLE}:",
            markdown_table(COMPARED, compared(results)),
        ]
    )
