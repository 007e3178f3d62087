"""An attached model on real ranks: modes it runs in, checks at first use, life cycle."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

import mimo
from tests.support import ranks

VISION, LANGUAGE = mimo.Placement("vision", dp=4), mimo.Placement("language", dp=2, tp=2)


class Model(nn.Module):
    """An encoder inside a language model; `between` sees the features on the way."""

    def __init__(self, between: Callable[[torch.Tensor], torch.Tensor] = lambda rows: rows) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.visual = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4))
        self.language = nn.Linear(4, 2)
        self.between = between

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.language(self.between(self.visual(images)))


def placed(model: nn.Module, vision: mimo.Placement = VISION, **declared: Any) -> nn.Module:  # noqa: ANN401
    mimo.place(model, LANGUAGE)
    mimo.place(model.visual, vision, **declared)
    return model


def attached(model: nn.Module, vision: mimo.Placement = VISION, **declared: Any) -> nn.Module:  # noqa: ANN401
    mimo.attach(placed(model, vision, **declared))
    return model


def images() -> torch.Tensor:
    """This rank's four of the eight global rows."""
    first = 4 * LANGUAGE.coordinate("dp")
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(1))[first : first + 4]


def raised(call: Callable[[], Any]) -> str:
    """The message of the error that a call must raise."""
    try:
        call()
    except (ValueError, RuntimeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("nothing was raised")


def everywhere(message: str) -> list[str]:
    """The messages of all ranks."""
    return mimo.groups.gather_objects(message, None, "the test")


def check_modes() -> int:
    """On every rank: the model in every mode equals the plain one; returns how many were tried."""
    plain = Model()
    model = attached(Model())
    right = plain(images())
    tried = 0

    def same(output: torch.Tensor, tolerance: float = 1e-6) -> None:
        nonlocal tried
        torch.testing.assert_close(output.float(), right, atol=tolerance, rtol=tolerance)
        tried += 1

    same(model(images()))
    model.eval()
    for _ in range(3):
        same(model(images()))
    with torch.no_grad():
        same(model(images()))
    with torch.inference_mode():
        same(model(images()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(images())
    assert output.dtype == torch.bfloat16
    same(output, 2e-2)
    model.train()
    output = model(images())
    output.sum().backward()
    plain(images()).sum().backward()
    summed = model.visual[0].weight.grad.clone()
    dist.all_reduce(summed)
    expected = plain.visual[0].weight.grad.clone()
    dist.all_reduce(expected)
    # Two ranks of a data-parallel part hold the same rows in the plain model.
    torch.testing.assert_close(summed, expected / 2)
    compiled = torch.compile(model, backend="aot_eager")
    same(compiled(images()))
    mimo.detach(model)
    same(compiled(images()))
    mimo.attach(model)
    before = mimo.traffic().calls
    same(compiled(images()))
    assert mimo.traffic().calls - before == 2
    return tried


def check_wrapping() -> list[str]:
    """On every rank: FSDP2 before and after attach, and checkpointing inside and around."""
    gradients = []
    for order in ("shard first", "attach first", "checkpoint inside"):
        model = placed(Model())
        if order == "attach first":
            mimo.attach(model)
        if order == "checkpoint inside":
            layers = list(model.visual)
            body = nn.Sequential(*layers)
            model.visual.forward = lambda rows, body=body: checkpoint(
                body, rows, use_reentrant=False
            )
        fully_shard(model.visual, mesh=VISION.device_mesh)
        fully_shard(model.language, mesh=LANGUAGE.device_mesh["dp"])
        mimo.sum_gradients(model)
        if order != "attach first":
            mimo.attach(model)
        model(images()).sum().backward()
        gradients.append(model.visual[0].weight.grad.full_tensor())
    plain = Model()
    plain(images()).sum().backward()
    right = plain.visual[0].weight.grad
    dist.all_reduce(right)
    for gradient in gradients:
        # Two ranks of a data-parallel part hold the same rows in the plain model.
        torch.testing.assert_close(gradient, right / 2)
    model = attached(Model())
    loss = checkpoint(model, images().requires_grad_(), use_reentrant=False).sum()
    return everywhere(raised(loss.backward))


def check_faults() -> dict[str, list[str]]:
    """On every rank: what each fault at first use says, by rank."""
    rank = dist.get_rank()
    messages = {}
    other = mimo.Placement("vision", dp=2, tp=2) if rank == 2 else VISION
    messages["placed differently"] = everywhere(raised(lambda: attached(Model(), other)))
    alone = Model()
    if rank != 2:
        placed(alone)
    messages["not placed on one rank"] = everywhere(raised(lambda: mimo.attach(alone)))
    model = attached(Model())
    wrong = images() + (rank == 1)
    messages["other samples"] = everywhere(raised(lambda: model(wrong)))
    messages["other samples again"] = everywhere(raised(lambda: model(wrong)))
    # Unless the caller says that each rank has its own.
    mimo.place(model, LANGUAGE, inputs={"images": "own"})
    mimo.attach(model)
    assert len(model(wrong)) == len(wrong)
    model = attached(Model(), inputs="own")
    few = torch.ones(1 + (rank == 3), 3)
    messages["other shapes"] = everywhere(raised(lambda: model.visual(few)))
    messages["other shapes again"] = everywhere(raised(lambda: model.visual(few)))
    model = attached(Model(), inputs="own")
    model.visual.requires_grad_(rank != 0)
    messages["frozen on one rank"] = everywhere(raised(lambda: model.visual(torch.ones(1, 3))))
    model = attached(Model(), inputs={"input": mimo.S(0)})
    model.visual.forward = lambda input=None: torch.ones(1, 4)
    text_only = None if rank == 1 else torch.ones(2, 3)
    messages["text only on one rank"] = everywhere(raised(lambda: model.visual(text_only)))
    return messages


def check_replicas() -> dict[str, list[str]]:
    """On every rank: gradients that differ along tp are named, whatever came before."""
    factor = [1.0]
    tp = LANGUAGE.coordinate("tp")

    def model_of(dtype: torch.dtype = torch.float32) -> nn.Module:
        return attached(Model(lambda rows: rows * factor[0]).to(dtype))

    messages = {}
    first_factors = {
        "zero": 0.0,
        "infinite": float("inf"),
        "not a number": 1.0,
        "not a number on one": float("nan") if tp else 1.0,
    }
    for name, first in first_factors.items():
        model = model_of()
        factor[0] = float("nan") if name == "not a number" else first
        model(images()).sum().backward()
        factor[0] = 1.0 + tp
        messages[name] = everywhere(raised(model(images()).sum().backward))
    # Differences that are rounding's, and those beyond: relative to the largest gradient.
    for name, dtype, apart, passes in (
        ("float32 close", torch.float32, 1e-4, True),
        ("float32 apart", torch.float32, 1e-2, False),
        ("bfloat16 close", torch.bfloat16, 1e-2, True),
        ("bfloat16 apart", torch.bfloat16, 1e-1, False),
    ):
        factor[0] = 1.0 + tp * apart
        backward = model_of(dtype)(images().to(dtype)).sum().backward
        if passes:
            backward()
        else:
            messages[name] = everywhere(raised(backward))
    # A tensor that stays is looked at too: each vision rank uses the whole for rows of its own.
    model = attached(WithScale(), inputs={"rows": mimo.S(0), "scale": mimo.I})
    messages["whole, for own rows"] = everywhere(raised(model(images()).sum().backward))
    # A result that nobody uses has no gradient; its part in the border counts as zeros.
    model = Model(lambda pair: pair[0])
    model.visual.append(Between(lambda rows: (rows, 2 * rows)))
    mimo.attach(placed(model, outputs=(mimo.S(0), mimo.S(0))))
    model(images()).sum().backward()
    plain = Model()
    plain(images()).sum().backward()
    torch.testing.assert_close(model.language.weight.grad, plain.language.weight.grad)
    # What follows the border may write into its result.
    model = attached(Model(lambda rows: rows.mul_(2)))
    model(images()).sum().backward()
    plain = Model(lambda rows: rows * 2)
    plain(images()).sum().backward()
    assert torch.equal(model.language.weight.grad, plain.language.weight.grad)
    return messages


def check_given_meshes() -> int:
    """On every rank: borders between given meshes use their groups; how many are made anew."""
    mimo.destroy()
    shapes = {"vision": ([4], ("dp",)), "language": ([2, 2], ("dp", "tp"))}
    vision, language = (
        mimo.Placement.from_device_mesh(
            name, dist.init_device_mesh("cpu", tuple(shape), mesh_dim_names=names)
        )
        for name, (shape, names) in shapes.items()
    )
    before = len(dist.distributed_c10d._world.pg_map)
    model = Model()
    mimo.place(model, language)
    mimo.place(model.visual, vision)
    mimo.attach(model)
    made = len(dist.distributed_c10d._world.pg_map) - before
    torch.testing.assert_close(model(images()), Model()(images()))
    mimo.detach(model)
    mimo.destroy()
    # The meshes keep their groups.
    assert len(dist.distributed_c10d._world.pg_map) == before
    dist.all_reduce(torch.ones(1), group=language.device_mesh["tp"].get_group())
    return made


def check_rounds() -> list[list[int]]:
    """On every rank: groups and threads after each of 20 rounds of building and destroying."""
    counts = []
    for _ in range(20):
        model = attached(Model())
        model(images()).sum().backward()
        mimo.detach(model)
        mimo.destroy()
        threads = len(os.listdir("/proc/self/task"))
        counts.append([len(dist.distributed_c10d._world.pg_map), threads])
    return counts


def check_time_limit() -> dict[str, list[str]]:
    """On every rank: rank 1 fails between two borders; what the others see, and how soon."""
    limit = datetime.timedelta(seconds=3)
    messages = {}
    for name, calls_before in (("later call", 1), ("first call", 0)):
        calls = [0]

        def fail(rows: torch.Tensor, calls: list[int] = calls, last: int = calls_before) -> Any:  # noqa: ANN401
            calls[0] += 1
            if dist.get_rank() == 1 and calls[0] > last:
                raise ValueError("out of luck")
            return rows

        model = Model()
        model.visual.append(Between(fail))
        mimo.place(model, mimo.Placement("language", tp=4, timeout=limit))
        mimo.place(model.visual, VISION)
        mimo.attach(model)
        for _ in range(calls_before):
            model(torch.ones(4, 3))
        start = time.monotonic()
        message = raised(lambda model=model: model(torch.ones(4, 3)))
        took = time.monotonic() - start
        assert took < 20, took
        mimo.detach(model)
        mimo.destroy()
        messages[name] = everywhere(message)
    return messages


class WithScale(nn.Module):
    """A parameter of the language model goes whole into the encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.visual = Scaled()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.visual(images, self.scale)


class Scaled(nn.Module):
    def forward(self, rows: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return rows * scale


class Between(nn.Module):
    def __init__(self, call: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.call = call

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.call(rows)


def check_all() -> dict[str, Any]:
    """All of the above in one job; the one that breaks its groups comes last."""
    return {
        "modes": check_modes(),
        "recomputed": check_wrapping(),
        "faults": check_faults(),
        "replicas": check_replicas(),
        "made beside given meshes": check_given_meshes(),
        "rounds": check_rounds(),
        "time limit": check_time_limit(),
    }


def test_attached_models_on_four_ranks() -> None:
    seen = ranks.run(check_all, 4)
    assert seen["modes"] == 10
    for message in seen["recomputed"]:
        assert "visual.input: the border is entered again by a recomputation" in message
    faults = seen["faults"]
    for message in faults["placed differently"]:
        assert message.startswith("ValueError: mimo.attach: rank 2 has visual.input (lang")
        assert "where rank 0 has visual.input (lang" in message
    for message in faults["other samples"] + faults["other samples again"]:
        assert "ranks 0 and 1 differ on axis tp only" in message
        assert "but images do not agree" in message
        assert 'mimo.place(model, ..., inputs={"images": "own"})' in message
    for rank, message in enumerate(faults["not placed on one rank"]):
        words = "the model itself is not placed" if rank == 2 else "rank 2 failed: ValueError"
        assert message.startswith(f"ValueError: mimo.attach: {words}")
    edge = "vision{dp:4}[S(0)] -> language{dp:2,tp:2}[S(0),I]"
    for message in faults["other shapes"] + faults["other shapes again"]:
        assert f"visual.output: the tensor is float32 [1, 4] that needs a gradient over {edge}" in (
            message
        )
        assert "on rank 2 but [2, 4] on rank 3: only parts of equal shapes" in message
    for message in faults["frozen on one rank"]:
        assert f"float32 [1, 4] over {edge} on rank 0 but float32 [1, 4] that needs" in message
    for message in faults["text only on one rank"]:
        assert "visual.input: input is float32 [2, 3] over language" in message
        assert "on rank 0 but not there on rank 1" in message
    assert len(seen["replicas"]) == 7
    for message in seen["replicas"].pop("whole, for own rows"):
        assert (
            "visual.input: gradients differ along dp where language{dp:2,tp:2}[I,I] ->" in message
        )
    for messages in seen["replicas"].values():
        for message in messages:
            assert "visual.output: gradients differ along tp" in message
            assert "B has no plan yet" in message
    # The group of all four ranks is the vision mesh's, those of tp the language mesh's.
    assert seen["made beside given meshes"] == 0
    assert len({tuple(count) for count in seen["rounds"][2:]}) == 1, seen["rounds"]
    edge = "vision{dp:4}[S(0)] -> language{tp:4}[I]"
    words = {"later call": f"mimo::fan_in over {edge} on rank", "first call": f"over {edge}: rank"}
    for name, waited in seen["time limit"].items():
        assert waited[1] == "ValueError: out of luck"
        for rank in (0, 2, 3):
            assert f"{words[name]} {rank}" in waited[rank], name
