"""The boxing ops as torch sees them: opcheck, numerical gradients and compilation, on one rank."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch._dynamo.testing import CompileCounterWithBackend

import mimo
from mimo import groups

GATHER = "vision{dp:1}[S(0)] -> language{tp:1}[I]"
SLICE = "vision{tp:1}[I] -> language{dp:1}[S(0)]"
OPS = [(torch.ops.mimo.fan_in, GATHER), (torch.ops.mimo.fan_out, SLICE)]


@pytest.fixture(scope="module", autouse=True)
def group() -> Iterator[str]:
    """A job of one rank and its group."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    groups.make([[0]], datetime.timedelta(seconds=60))
    yield groups.name_of([0])
    mimo.destroy()
    dist.destroy_process_group()


@pytest.mark.parametrize(("op", "edge"), OPS)
def test_opcheck(op: torch._ops.OpOverloadPacket, edge: str, group: str) -> None:
    features = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    ids = torch.arange(5)
    for tensors, sizes in ([[features], [4, 3]], [[features, ids], [4, 3, 5]]):
        torch.library.opcheck(op.default, (tensors, [edge] * len(tensors), sizes, [], group))


@pytest.mark.parametrize(("op", "edge"), OPS)
def test_gradients_are_the_numerical_ones(
    op: torch._ops.OpOverloadPacket, edge: str, group: str
) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return op([a, b], [edge, edge], [3, 2, 2], [], group)

    a = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    b = torch.randn(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (a, b))
    assert torch.autograd.gradgradcheck(function, (a, b))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(("op", "edge"), OPS)
def test_one_full_graph_serves_all_sizes(
    op: torch._ops.OpOverloadPacket, edge: str, backend: str, group: str
) -> None:
    def function(features: torch.Tensor) -> torch.Tensor:
        batch = features.shape[0] // 2
        rows = features.view(batch, 2, 3).sin()
        (moved,) = op([rows], [edge], [batch, 2, 3], [], group)
        return moved.view(2 * moved.shape[0], 3) * 2

    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    for batch in (4, 6, 2, 10):
        features = torch.randn(2 * batch, 3, requires_grad=True)
        expected, actual = function(features), compiled(features)
        torch.testing.assert_close(actual, expected)
        weights = torch.randn_like(expected)
        torch.testing.assert_close(
            torch.autograd.grad(actual, features, weights),
            torch.autograd.grad(expected, features, weights),
        )
    assert counter.frame_count == 1


def test_errors_have_python_types(group: str) -> None:
    features = torch.zeros(4, 3)
    with pytest.raises(ValueError, match="expected '->'"):
        torch.ops.mimo.fan_in([features], ["vision{dp:1}[S(0)]"], [4, 3], [], group)
    with pytest.raises(ValueError, match="puts \\[5, 3\\] on rank 0, but the tensor there has"):
        torch.ops.mimo.fan_in([features], [GATHER], [5, 3], [], group)
    with pytest.raises(ValueError, match='"0" is no name of a mimo group'):
        torch.ops.mimo.fan_in([features], [GATHER], [4, 3], [], "0")
    with pytest.raises(NotImplementedError, match="from P to I"):
        torch.ops.mimo.fan_in([features], ["a{x:2}[P] -> b{x:2}[I]"], [4, 3], [], group)
