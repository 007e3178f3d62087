"""Edges and plans as a person reads them."""

from __future__ import annotations

import io
from collections.abc import Sequence

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from mimo.attach import borders
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
    axes = " x ".join(f"{size} ranks of stride {stride}" for size, stride in plan.group_axes)
    first = ", ".join(map(str, plan.groups()[0]))
    return f"{len(plan.groups())} of {axes}, first [{first}]"


def _text(table: Table, width: int) -> str:
    output = io.StringIO()
    Console(file=output, width=width).print(table)
    return output.getvalue()


def explain(model: nn.Module) -> str:
    """The table of an attached model's edges: plan, groups, bytes and what gradients do.

    Bytes are known for borders that a tensor has crossed.
    """
    table = Table(title="borders", title_justify="left")
    columns = ("border", "edge", "plan", "groups", "sizes", "bytes in = out", "gradient")
    for column in columns:
        table.add_column(column, overflow="fold")
    for border in borders(model):
        plan = border.plan
        sizes = received = "-"
        if border.sizes is not None and border.dtype is not None:
            sizes = str(list(border.sizes))
            received = _bytes(Plan(border.edge, border.sizes).bytes_received(border.dtype))
        row = (border.name, border.edge, plan.kind, _groups(plan), sizes, received)
        table.add_row(*row, plan.adjoint().kind)
    return _text(table, width=140)


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
    return _text(table, width=100)
