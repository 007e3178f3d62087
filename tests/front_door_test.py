"""Placing, attaching, detaching and explaining, on a job whose peers are not there."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

import mimo


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    """Rank 0 of four, whose collectives return without peers."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
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


def test_placement_has_axes_from_slowest_to_fastest() -> None:
    placement = mimo.Placement("language", dp=2, tp=4)
    assert str(placement) == "language{dp:2,tp:4}"
    assert placement.axes == {"dp": 2, "tp": 4}
    assert placement.num_ranks == 8
    assert (placement.coordinate("dp", 5), placement.coordinate("tp", 5)) == (1, 1)
    assert (placement.size("cp"), placement.coordinate("cp", 5)) == (1, 0)
    assert placement.layout() == "language{dp:2,tp:4}[S(0),I]"
    assert placement.layout([mimo.S(1), mimo.B]) == "language{dp:2,tp:4}[S(1),B]"


def test_placement_from_text_has_strides_and_offset() -> None:
    placement = mimo.Placement.parse("vision{dp:4@1,tp:2@4}+8")
    assert str(placement) == "vision{dp:4@1,tp:2@4}+8"
    assert placement.ranks == [8, 12, 9, 13, 10, 14, 11, 15]
    assert str(mimo.Placement("vision", offset=4, dp=2)) == "vision{dp:2}+4"


def test_placement_makes_torchs_device_mesh() -> None:
    mesh = mimo.Placement.parse("vision{dp:2@1,tp:2@2}").device_mesh
    assert mesh.mesh_dim_names == ("dp", "tp")
    assert mesh.mesh.tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mimo.Placement("vision", dp=0), "placement vision: axis dp has size 0"),
        (lambda: mimo.Placement("vision"), "placement vision: .*expected an axis name"),
        (lambda: mimo.Placement("vision", offset=-1, dp=2), "expected a rank offset"),
        (lambda: mimo.Placement.parse("{dp:2}"), '"" is no placement name'),
        (lambda: mimo.Placement("two words", dp=2), '"two words" is no placement name'),
        (lambda: mimo.Placement.parse("v{dp:2@1,tp:2@1}"), "rank 1 is named twice"),
        (lambda: mimo.Placement("vision", dp=2).coordinate("dp", 7), "rank 7 is not in vision"),
    ],
)
def test_bad_placements_are_named(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


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


def test_explain_shows_every_border() -> None:
    model = placed({"dp": 4}, {"dp": 2, "tp": 2})
    mimo.attach(model)
    model(torch.ones(2, 3))
    text = mimo.explain(model)
    for word in ("visual.input", "visual.output", "slice", "all-gather", "[4, 3]", "12 B in"):
        assert word in text


def test_explain_works_with_no_job_running() -> None:
    command = [sys.executable, "-m", "mimo", "explain"]
    edge = "vision{dp:4,tp:2}[S(0),I] -> language{dp:2,tp:4}[S(0),I]"
    done = subprocess.run(
        [*command, edge, "--shape", "8,256,1024", "--dtype", "bfloat16"],
        capture_output=True,
        text=True,
        check=True,
    )
    for word in ("all-gather", "4 of 2 ranks", "stride 2", "first [0, 2]", "1 MiB", "slice"):
        assert word in done.stdout
    bad = subprocess.run(
        [*command, edge + "]", "--shape", "8"], capture_output=True, text=True, check=False
    )
    assert bad.returncode == 1
    assert "expected the end, found ']'" in bad.stderr


def test_losses_add_up_to_the_global_mean_and_zero_tokens_give_zero() -> None:
    logits = torch.randn(2, 3, 5, requires_grad=True)
    labels = torch.tensor([[1, -100, 2], [-100, -100, 4]])
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(mimo.token_loss(logits, labels), expected)
    assert mimo.count_tokens(labels).item() == 3
    loss = mimo.token_loss(logits, torch.full_like(labels, -100))
    loss.backward()
    assert loss.item() == 0 and not logits.grad.any()
