"""What was measured, as a page of Markdown tables."""

from collections.abc import Iterator
from typing import Any

PEERS = {
    "step": ("Training step", "ms", 1e3),
    "likelihood": ("Likelihood of a row, S = 5,000", "ms", 1e3),
    "chain": ("Fifteen steps of the chain, a row", "us", 1e6),
    "sample": ("Sampling, a row", "us", 1e6),
}


def tabulate(results: dict[str, Any]) -> str:
    return "\n".join(line for name, part in results.items() for line in section(name, part)) + "\n"


def section(name: str, part: dict[str, Any]) -> Iterator[str]:
    if name in PEERS:
        title, unit, factor = PEERS[name]
        yield from (f"## {title}", "", f"| | median, {unit} | quartiles |", "| --- | ---: | ---: |")
        for worker, s in part["seconds"].items():
            quartiles = f"{factor * s['quarter']:.2f} - {factor * s['three_quarters']:.2f}"
            yield f"| {worker} | {factor * s['median']:.2f} | {quartiles} |"
        yield from ("", "| ratio, round by round | median | quartiles |", "| --- | ---: | ---: |")
        for pair, r in part["ratios"].items():
            yield f"| {pair} | {r['median']:.2f} | {r['quarter']:.2f} - {r['three_quarters']:.2f} |"
    elif name == "posteriors":
        yield from against("Posterior alone, microseconds a row", "K", part["seconds a row"], 1e6)
        yield from exponents(part["exponents"])
    elif name == "growth":
        yield from against("Training step, ms, against latents", "K", part["seconds by latents"], 1e3)
        yield from exponents(part["exponents by latents"])
        for what in ("layers", "batch"):
            yield from against(
                f"Training step, ms, against {what}", what, {"rank-one": part[f"seconds by {what}"]}, 1e3
            )
            yield from exponents({"rank-one": part[f"exponent by {what}"]})
    elif name == "start":
        yield from ("## Start", "", "| | seconds |", "| --- | ---: |")
        yield from (f"| {what} | {s['median']:.2f} |" for what, s in part.items() if what != "machine")
    else:
        yield from (f"## {name.capitalize()}", "", "| | |", "| --- | ---: |")
        yield from (f"| {what} | {value} |" for what, value in flat(part) if not what.startswith("machine"))
    yield ""


def against(title: str, axis: str, curves: dict[str, dict[str, float]], factor: float) -> Iterator[str]:
    sizes = max((list(curve) for curve in curves.values()), key=len)
    yield from (f"## {title}", "", f"| {axis} | {' | '.join(sizes)} |", "| --- |" + " ---: |" * len(sizes))
    for name, curve in curves.items():
        yield f"| {name} | {' | '.join(f'{factor * curve[s]:.4g}' if s in curve else '' for s in sizes)} |"
    yield ""


def exponents(values: dict[str, float]) -> Iterator[str]:
    yield from ("Fitted exponents: " + ", ".join(f"{name} {value:.2f}" for name, value in values.items()), "")


def flat(part: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in part.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}: ")
        else:
            yield f"{before}{name}", f"{value:,.2f}" if isinstance(value, float) else str(value)
