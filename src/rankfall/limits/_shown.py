"""How a limit shows itself, in print, in a terminal and in a notebook: its verdict, and what is behind it."""

import math
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Group

    from rankfall.limits._result import Limit

COLOURS = {  # of the verdicts
    "certified": "green",
    "followed": "green",
    "at rest": "green",
    "not unique": "magenta",
    "not separated": "red",
}
CONDITIONS = {  # what each residual is the residual of
    "stationarity": "the weights are the sum of the samples' gradients, times their multipliers",
    "feasibility": "every margin that grows is at least 1",
    "complementarity": "only samples of margin 1 have a multiplier",
    "rest": "the outputs of the samples at rest do not change in this direction",
    "slopes": "every slope lies between the leaky slope and 1",
    "signs": "off the kinks every slope is that of its side",
    "multipliers": "no multiplier is negative",
    "gradient": "the loss is stationary",
    "misfit": "the outputs are the targets",
    "epsilon": "the weights are the sum of the samples' gradients, times their multipliers",
    "delta": "only samples of margin 1 have a multiplier",
}
NAMES = {  # what settings are called where their own name does not say it
    "way": "found by",
    "log_time": "log t reached",
    "s": "loss clock reached",
    "distance": "distance of the last state",
    "stays": "the flow stays there",
    "error_over_room": "error / room",
    "epsilon": "epsilon of the last state",
    "delta": "delta of the last state",
}


def reasons(limit: "Limit") -> str:
    """What follows the verdict: what is missing to an answer, or why there is no limit."""
    return f": {'; '.join(limit.missing)}." if limit.missing else "."


def sentences(limit: "Limit") -> Iterator[str]:
    """The network, what the verdict means, what is proved and followed, and the branches."""
    yield repr(limit.network)
    yield limit.verdict.meaning
    if limit.document is not None:
        yield from str(limit.certificate()).splitlines()[1:]
    for number, branch in enumerate(limit.branches, start=2):
        cosine = f", cosine {branch.cosine:.6g} to the one shown" if math.isfinite(branch.cosine) else ""
        yield (
            f"branch {number}: {branch.verdict}; norm {branch.norm:.6g}, stable rank "
            f"{branch.stable_rank:.6g}{cosine}"
        )


def tables(limit: "Limit") -> dict[str, dict[str, str]]:
    """The numbers, under their titles."""
    tolerance = limit.settings.get("tolerance", 0.0)
    every = {
        f"residuals (tolerance {tolerance:g})": dict(_residuals(limit)),
        "the limit": dict([*_ranks(limit), *_margins(limit), *_judgements(limit)]),
        "the search": dict(_search(limit)),
    }
    return {title: rows for title, rows in every.items() if rows}


def as_text(limit: "Limit") -> str:
    """All of it as plain text."""
    lines = [f"Limit: {limit.verdict}{reasons(limit)}", *(f"  {line}" for line in sentences(limit))]
    for title, rows in tables(limit).items():
        width = max(map(len, rows))
        lines += [f"{title}:", *(f"  {name:{width}}  {value}" for name, value in rows.items())]
    return "\n".join(lines)


def as_html(limit: "Limit") -> str:
    """All of it for a notebook."""
    parts = [f"<p><b>{escape(str(limit.verdict))}</b>{escape(reasons(limit))}</p>"]
    parts += [f"<p>{escape(line)}</p>" for line in sentences(limit)]
    cell = '<td style="text-align:left">'
    for title, rows in tables(limit).items():
        lines = [
            f"<tr>{cell}{escape(name)}</td>{cell}{escape(value)}</td></tr>" for name, value in rows.items()
        ]
        parts.append(f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>")
    return "".join(parts)


def as_rich(limit: "Limit") -> "Group":
    """All of it for a terminal, in colours."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    colour = COLOURS.get(limit.verdict, "yellow")
    parts: list[Any] = [Text.assemble((str(limit.verdict), f"bold {colour}"), reasons(limit))]
    parts += map(Text, sentences(limit))
    for title, rows in tables(limit).items():
        table = Table(title, "")
        for name, value in rows.items():
            table.add_row(name, Text(value))
        parts.append(table)
    return Group(*parts)


def _residuals(limit: "Limit") -> Iterator[tuple[str, str]]:
    """Each residual, and the condition that it belongs to."""
    for name, value in limit.residuals.items():
        number = f"{value:.1e}" if value else "0"
        yield name, f"{number:8} {CONDITIONS.get(name, '')}".rstrip()


def _ranks(limit: "Limit") -> Iterator[tuple[str, str]]:
    """The ranks of the first layer, whole and by the sign of the output weights."""
    ranks = (
        ("stable rank", limit.stable_rank, limit.block_stable_ranks),
        ("rank", limit.rank, limit.block_ranks),
    )
    for name, whole, blocks in ranks:
        each = ", ".join(f"{sign} block {value:.6g}" for sign, value in blocks.items())
        yield name, f"{whole:.10g}" + (f"   ({each})" if limit.network.depth == 2 else "")


def _margins(limit: "Limit") -> Iterator[tuple[str, str]]:
    """Support vectors and margins, or the outputs."""
    if limit.multipliers.any():
        listed = ", ".join(map(str, limit.support[:20])) + (", ..." if len(limit.support) > 20 else "")
        yield "support vectors", f"{len(limit.support)} of {len(limit.multipliers)} samples: {listed}"
    yield (
        "outputs" if limit.loss.name == "square" else "margins",
        f"{limit.margins.min():.10g} to {limit.margins.max():.10g}",
    )
    if limit.multipliers.any() and limit.network.homogeneity:
        yield "normalised margin", f"{limit.normalised_margin:.10g}"
    if limit.region is not None and limit.multipliers.any():
        yield "kinks", f"{len(limit.kinks)} of {limit.region.size:,} pairs of neuron and sample"


def _judgements(limit: "Limit") -> Iterator[tuple[str, str]]:
    """Is it globally optimal, is its boundary linear, and how does it compare with the linear SVM?"""
    if limit.optimality is not None:
        yield "global optimum", f"{limit.optimality.verdict}. {limit.optimality.reason}"
    if limit.comparison is None:
        return
    compared = limit.comparison
    yield "decision boundary", f"{compared.boundary}: {compared.reason}."
    if compared.svm is None:
        yield "linear SVM", "none: the data are not linearly separable."
        return
    own = f"{compared.margin:.8g}, at an angle of {compared.angle:.6g} degrees"
    part = "none: it vanishes" if math.isnan(compared.margin) else own
    yield "linear SVM", f"margin {compared.svm_margin:.8g}; the network's linear part: {part}."


def _search(limit: "Limit") -> Iterator[tuple[str, str]]:
    """How the limit was found, and what that cost."""
    for key, value in limit.settings.items():
        name = NAMES.get(key, key.replace("_", " "))
        if key in ("tolerance", "versions"):
            continue
        if isinstance(value, int):
            yield name, f"{value:,}"
        elif isinstance(value, float) and math.isfinite(value):
            yield name, f"{value:.4g}"
        elif isinstance(value, str):
            yield name, value
