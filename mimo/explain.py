"""Edges and plans as a person reads them."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn

from mimo.attach import borders, placements
from mimo.plan import Plan


def _bytes(count: int) -> str:
    """A number of bytes with its unit, e.g. `4 MiB` or `1536 B`."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while count and count % 1024 == 0 and len(units) > 1:
        count //= 1024
        units.pop(0)
    return f"{count} {units[0]}"


def _groups(plan: Plan) -> str:
    """Who gathers together: sizes and strides of the groups' axes and the first group."""
    if not plan.group_axes:
        return "-"
    sizes = " x ".join(str(size) for size, _ in plan.group_axes)
    strides = " x ".join(str(stride) for _, stride in plan.group_axes)
    count = len(plan.groups())
    return f"{count} of {sizes} ranks\nstride {strides}\nfirst {plan.groups()[0]}"


def _text(table: Table) -> str:
    """The table as text: as wide as the terminal, or 100 columns where there is none."""
    output = io.StringIO()
    width = max(80, shutil.get_terminal_size((100, 24)).columns)
    Console(file=output, width=width, markup=False).print(table)
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().splitlines())


def explain(model: nn.Module) -> str:
    """An attached model's placements, and the table of its edges: plan, groups, bytes, gradients.

    Bytes are known for borders that a tensor has crossed in eager mode.

    Raises:
        ValueError: the model is not attached.
    """
    table = Table(box=box.SIMPLE, show_lines=True)
    table.add_column("border", no_wrap=True)
    for column in ("plan", "groups", "tensor"):
        table.add_column(column)
    for border in borders(model):
        for path, crossing in border.crossings.items():
            # The default is of interest where it is taken, or where it is all there is.
            if path is None and crossing.sizes is None and len(border.crossings) > 1:
                continue
            plan = crossing.plan
            tensor = "-"
            if crossing.sizes is not None and crossing.dtype is not None:
                received = Plan(crossing.edge, crossing.sizes).bytes_received(crossing.dtype)
                tensor = f"{list(crossing.sizes)}\n{_bytes(received)} in and out"
            source, destination = crossing.edge.split(" -> ")
            name = f"{border.name} {path or ''}".rstrip()
            plans = f"{plan.kind}\ngradient: {plan.adjoint().kind}"
            table.add_row(f"{name}\n{source} ->\n{destination}", plans, _groups(plan), tensor)
    return "".join(f"{each.strided_text}\n" for each in placements(model)) + _text(table)


def explain_edge(edge: str, sizes: Sequence[int], dtype: torch.dtype) -> str:
    """How one edge is carried out for a tensor of logical `sizes`. Needs no running job.

    Raises:
        ValueError: bad text, or sizes that do not fit the layouts.
        NotImplementedError: no plan for this edge yet; the message names what differs.
    """
    plan = Plan(edge, sizes)
    table = Table(title=plan.edge, title_justify="left", show_header=False)
    table.add_row("logical tensor", f"{list(sizes)} {str(dtype).removeprefix('torch.')}")
    table.add_row("plan", plan.kind)
    table.add_row("groups", _groups(plan))
    table.add_row("each rank receives", _bytes(plan.bytes_received(dtype)))
    table.add_row("each rank sends", _bytes(plan.bytes_received(dtype)))
    table.add_section()
    try:
        adjoint = plan.adjoint()
    except NotImplementedError as error:
        table.add_row("gradient", f"no plan: {error}")
    else:
        table.add_row("gradient", adjoint.edge)
        table.add_row("plan", adjoint.kind)
        table.add_row("each rank receives", _bytes(adjoint.bytes_received(dtype)))
        table.add_row("each rank sends", _bytes(adjoint.bytes_received(dtype)))
    return _text(table)
