"""Placing, attaching, detaching and explaining, on a job whose peers are not there."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import mimo
from mimo.__main__ import main

EDGE = "vision{dp:4,tp:2}[S(0),I] -> language{dp:2,tp:4}[S(0),I]"


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    """Rank 0 of four, whose collectives return without peers."""
    dist.init_process_group("fake", rank=0, world_size=4)
    yield
    mimo.destroy()
    dist.destroy_process_group()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.visual = nn.Linear(3, 3)
        self.language = nn.Linear(3, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.language(self.visual(images))


def placed(vision: dict[str, int], language: dict[str, int]) -> Model:
    model = Model()
    mimo.place(model, mimo.Placement("language", **language))
    mimo.place(model.visual, mimo.Placement("vision", **vision))
    return model


def test_attach_makes_one_border_a_side() -> None:
    model = placed({"dp": 4}, {"dp": 2, "tp": 2})
    mimo.attach(model)
    assert [(border.name, border.crossings[None].plan.kind) for border in mimo.borders(model)] == [
        ("visual.input", "slice"),
        ("visual.output", "all-gather"),
    ]
    output = model(torch.ones(2, 3))
    assert output.shape == (2, 3)
    assert mimo.borders(model)[1].crossings[None].sizes == (4, 3)


def test_attach_and_detach_are_idempotent() -> None:
    model = placed({"dp": 4}, {"dp": 2, "tp": 2})
    images = torch.ones(2, 3)
    plain = model(images)
    for _ in range(2):
        mimo.attach(model)
        assert len(model.visual._forward_hooks) == len(model.visual._forward_pre_hooks) == 1
    for _ in range(2):
        mimo.detach(model)
        assert not model.visual._forward_hooks and not model.visual._forward_pre_hooks
    assert torch.equal(model(images), plain)
    with pytest.raises(ValueError, match="not attached"):
        mimo.borders(model)


def test_equal_layouts_need_no_hook() -> None:
    model = placed({"dp": 2, "tp": 2}, {"dp": 2, "tp": 2})
    mimo.attach(model)
    assert not model.visual._forward_hooks and not model.visual._forward_pre_hooks
    assert [border.crossings[None].plan.kind for border in mimo.borders(model)] == [
        "identity",
        "identity",
    ]


def test_a_copy_of_an_attached_model_crosses_too() -> None:
    model = placed({"dp": 4}, {"dp": 2, "tp": 2})
    mimo.attach(model)
    rows: list[int] = []
    other = copy.deepcopy(model)
    other.visual.register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    other(torch.ones(2, 3))
    assert rows == [1]


def test_keyword_arguments_cross() -> None:
    model = placed({"dp": 4}, {"dp": 2, "tp": 2})
    mimo.attach(model)
    assert model.visual(input=torch.ones(2, 3)).shape == (2, 3)


def test_attach_errors_name_the_module_and_the_placements() -> None:
    with pytest.raises(ValueError, match="the model itself is not placed"):
        mimo.attach(Model())
    with pytest.raises(ValueError, match=r"visual is placed on vision\{dp:2\} but called"):
        mimo.attach(placed({"dp": 2}, {"dp": 2, "tp": 2}))
    model = placed({"dp": 4}, {"dp": 2})
    mimo.place(model, mimo.Placement.parse("language{dp:2@1,tp:2@2}"))
    with pytest.raises(NotImplementedError, match="2 rows to S\\(0\\) by 1 rows"):
        mimo.attach(model)


def test_what_cannot_cross_is_named() -> None:
    model = placed({"dp": 4}, {"dp": 2, "tp": 2})
    mimo.attach(model)
    with pytest.raises(
        ValueError, match=r"visual.input: input \(torch.int64 .*inputs=\{\"input\": mimo.S\(0\)\}"
    ):
        model(torch.ones(2, 3, dtype=torch.int64))
    with pytest.raises(NotImplementedError, match="axis dp of size 4 does not divide the 6 rows"):
        model(torch.ones(3, 3))


def test_parts_of_an_attached_model_are_left_to_the_whole() -> None:
    model = nn.Sequential(placed({"dp": 4}, {"dp": 2, "tp": 2}))
    mimo.place(model, mimo.Placement("outer", dp=2, tp=2))
    mimo.attach(model)
    before = mimo.traffic().calls
    for call in (mimo.attach, mimo.detach):
        with pytest.raises(ValueError, match="this Model is part of an attached Sequential"):
            call(model[0])
    model(torch.ones(2, 3))
    assert mimo.traffic().calls - before == 2


def test_attaching_what_is_around_an_attached_model_starts_over() -> None:
    inner = placed({"dp": 4}, {"dp": 2, "tp": 2})
    mimo.attach(inner)
    model = nn.Sequential(inner)
    mimo.place(model, mimo.Placement("outer", dp=2, tp=2))
    mimo.attach(model)
    before = mimo.traffic().calls
    model(torch.ones(2, 3))
    assert mimo.traffic().calls - before == 2
    with pytest.raises(ValueError, match="not attached"):
        mimo.borders(inner)


def test_a_copy_is_attached_anew_and_detached() -> None:
    model = placed({"dp": 4}, {"dp": 2, "tp": 2})
    mimo.attach(model)
    other = copy.deepcopy(model)
    mimo.place(other, mimo.Placement("language", dp=2, tp=2))
    mimo.place(other.visual, mimo.Placement("vision", dp=4))
    for attach, calls in ((mimo.attach, 2), (mimo.detach, 0)):
        attach(other)
        before = mimo.traffic().calls
        other(torch.ones(2, 3))
        assert mimo.traffic().calls - before == calls
    before = mimo.traffic().calls
    model(torch.ones(2, 3))
    assert mimo.traffic().calls - before == 2


def test_an_attach_that_fails_leaves_the_borders_as_they_were() -> None:
    model = placed({"dp": 4}, {"dp": 2, "tp": 2})
    mimo.attach(model)
    mimo.place(model.visual, mimo.Placement("vision", dp=2))
    with pytest.raises(ValueError, match="called from language"):
        mimo.attach(model)
    before = mimo.traffic().calls
    model(torch.ones(2, 3))
    assert mimo.traffic().calls - before == 2


def test_after_destroy_a_border_says_what_is_missing() -> None:
    model = placed({"dp": 4}, {"dp": 2, "tp": 2})
    mimo.attach(model)
    mimo.destroy()
    with pytest.raises(RuntimeError, match="there is no group mimo:0,1,2,3"):
        model(torch.ones(2, 3))
    mimo.attach(model)
    model(torch.ones(2, 3))


def test_a_new_job_makes_new_groups() -> None:
    mimo.attach(placed({"dp": 4}, {"dp": 2, "tp": 2}))
    dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=4)
    model = placed({"dp": 4}, {"dp": 2, "tp": 2})
    mimo.attach(model)
    assert model(torch.ones(2, 3)).shape == (2, 3)


def test_wrappers_that_average_are_named() -> None:
    model = placed({"dp": 4}, {"dp": 2, "tp": 2})
    mesh = mimo.Placement("vision", dp=4).device_mesh
    fully_shard(model.visual, mesh=mesh)
    with pytest.warns(UserWarning, match="visual is sharded by fully_shard, which averages"):
        mimo.attach(model)
    mimo.sum_gradients(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mimo.attach(model)
    model.language = DistributedDataParallel(model.language)
    for call in (mimo.attach, mimo.sum_gradients):
        with pytest.raises(ValueError, match="language is wrapped by DistributedDataParallel"):
            call(model)


def test_tokens_of_one_rank_are_not_those_of_the_job() -> None:
    with pytest.warns(UserWarning, match="counted on one of 4 ranks only; give the placement"):
        mimo.count_tokens(torch.ones(2, dtype=torch.int64))


def test_explain_shows_every_border() -> None:
    model = placed({"dp": 4}, {"dp": 2, "tp": 2})
    mimo.attach(model)
    model(torch.ones(2, 3))
    text = mimo.explain(model)
    assert text.startswith("language{dp:2@2,tp:2@1}\nvision{dp:4@1}\n")
    for word in ("visual.input", "visual.output", "slice", "all-gather", "[4, 3]", "12 B in"):
        assert word in text


def test_explain_works_with_no_job_running() -> None:
    command = [sys.executable, "-m", "mimo", "explain"]
    done = subprocess.run(
        [*command, EDGE, "--shape", "8,256,1024", "--dtype", "bfloat16"],
        capture_output=True,
        text=True,
        check=True,
    )
    for word in ("all-gather", "4 of 2 ranks", "stride 2", "first [0, 2]", "1 MiB", "slice"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("edge", "shape", "message"),
    [
        (EDGE + "]", "8,4", 'expected the end, found "]"'),
        (EDGE, "8,x", "'8,x': expected whole numbers such as 8,256,1024"),
        (EDGE, f"{2**63}", f"size {2**63} of [{2**63}] is not in [0, 2^63)"),
        (EDGE, f"{2**62},4", "multiply to more than 2^63 - 1"),
    ],
)
def test_explain_says_what_is_wrong(
    edge: str, shape: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        assert main(["explain", edge, "--shape", shape]) == 1
    except SystemExit as exit_:
        assert exit_.code == 2
    assert message in capsys.readouterr().err


def test_losses_add_up_to_the_global_mean_and_zero_tokens_give_zero() -> None:
    logits = torch.randn(2, 3, 5, requires_grad=True)
    labels = torch.tensor([[1, -100, 2], [-100, -100, 4]])
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(mimo.token_loss(logits, labels), expected)
    assert mimo.count_tokens(labels).item() == 3
    lone = mimo.token_loss(logits[0, 0], labels[0, 0])
    torch.testing.assert_close(lone, nn.functional.cross_entropy(logits[0, 0], labels[0, 0]))
    loss = mimo.token_loss(logits, torch.full_like(labels, -100))
    loss.backward()
    assert loss.item() == 0 and not logits.grad.any()


@pytest.mark.parametrize(
    ("logits", "labels", "tokens", "message"),
    [
        (
            (2, 3, 5),
            (2, 4),
            None,
            r"labels \[2, 4\] are not .* logits \[2, 3, 5\]",
        ),
        ((6, 5), (2, 3), None, r"labels \[2, 3\] are not one"),
        ((2, 3, 5), (2, 3), (1,), r"tokens \[1\] is not one 0-d count"),
    ],
)
def test_losses_of_unlike_shapes_are_refused(
    logits: tuple[int, ...], labels: tuple[int, ...], tokens: tuple[int, ...] | None, message: str
) -> None:
    count = None if tokens is None else torch.ones(tokens, dtype=torch.int64)
    with pytest.raises(ValueError, match=message):
        mimo.token_loss(torch.zeros(logits), torch.zeros(labels, dtype=torch.int64), tokens=count)
