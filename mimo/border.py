"""One crossing of a module's inputs or outputs, carried out by the boxing ops."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from mimo import groups
from mimo.plan import Plan


class Border:
    """The border on one side of a placed module; as a hook it takes the module's tensors across.

    Args:
        module: the module's path in the attached model.
        side: "input" or "output".
        edge: the text of the edge that its tensors take.

    Attributes:
        plan: the plan for the smallest tensor that both layouts divide: any that fits has its kind.
        sizes: the logical sizes of the last tensor that crossed in eager mode, or None.
        dtype: that tensor's dtype, or None.
    """

    def __init__(self, module: str, side: str, edge: str) -> None:
        self.module = module
        self.side = side
        self.plan = Plan.of_smallest(edge)
        self.edge = self.plan.edge
        self.sizes: tuple[int, ...] | None = None
        self.dtype: torch.dtype | None = None
        self._group = groups.name_of(self.plan.group(dist.get_rank()))
        self._parts = torch.ops.mimo.source_parts(self.edge)

    @property
    def name(self) -> str:
        """The border's name in tables and errors, e.g. `visual.output`."""
        return f"{self.module}.{self.side}"

    def __call__(self, module: torch.nn.Module, *call: Any) -> Any:  # noqa: ANN401  a hook's type
        """The hook: `(module, args, kwargs)` before the forward, `(module, args, output)` after."""
        tree = call if self.side == "input" else call[-1]
        leaves, spec = pytree.tree_flatten(tree)
        moved = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        if len(moved) != 1 or not leaves[moved[0]].is_floating_point():
            found = ", ".join(f"{leaves[i].dtype} {list(leaves[i].shape)}" for i in moved)
            raise ValueError(
                f"{self.name}: one floating-point tensor can cross {self.edge}, "
                f"but the module's {self.side} holds {found or 'no tensor'}"
            )
        leaves[moved[0]] = self.cross(leaves[moved[0]])
        return pytree.tree_unflatten(leaves, spec)

    def cross(self, tensor: torch.Tensor) -> torch.Tensor:
        """Takes this rank's part of a tensor over the border.

        Args:
            tensor: the rank's part in the source layout; all ranks' parts have the same shape.

        Returns:
            The rank's part in the destination layout, a fresh tensor.

        Raises:
            ValueError: the tensor has too few dimensions for the edge.
            NotImplementedError: there is no plan for the edge and these sizes.
        """
        if tensor.dim() < len(self._parts):
            raise ValueError(
                f"{self.name}: {self.edge} splits dimension {len(self._parts) - 1} of a tensor of "
                f"shape {list(tensor.shape)}"
            )
        sizes = list(tensor.shape)
        for dim, parts in enumerate(self._parts):
            sizes[dim] = sizes[dim] * parts
        if not torch.compiler.is_compiling():
            self.sizes, self.dtype = tuple(sizes), tensor.dtype
        op = torch.ops.mimo.fan_out if self.plan.kind == "slice" else torch.ops.mimo.fan_in
        return op([tensor], [self.edge], sizes, [], self._group)[0]
