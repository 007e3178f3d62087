"""Which tensors cross, by declaration, on a job whose peers are not there."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import mimo

VISION, LANGUAGE = {"dp": 4}, {"dp": 2, "tp": 2}


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    """Rank 1 of four, whose collectives return without peers; slices are real."""
    dist.init_process_group("fake", rank=1, world_size=4)
    yield
    mimo.destroy()
    dist.destroy_process_group()


@dataclass
class Pair:
    left: torch.Tensor
    right: Any


class Child(nn.Module):
    """Keeps what it got and returns what `answer` makes of it."""

    def __init__(self, answer: Callable[..., Any] = lambda *args, **kwargs: args[0]) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, pixels: Any, grid: Any = None, *rest: Any, scale: Any = None) -> Any:  # noqa: ANN401
        self.seen = {"pixels": pixels, "grid": grid, "rest": rest, "scale": scale}
        return self.answer(pixels)


class Parent(nn.Module):
    def __init__(self, child: nn.Module) -> None:
        super().__init__()
        self.child = child

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return self.child(*args, **kwargs)


def attached(child: nn.Module, **declared: Any) -> Parent:  # noqa: ANN401
    model = Parent(child)
    mimo.place(model, mimo.Placement("language", **LANGUAGE))
    mimo.place(child, mimo.Placement("vision", **VISION), **declared)
    mimo.attach(model)
    return model


def rows(count: int, start: int = 0) -> torch.Tensor:
    """`count` labelled rows of two columns."""
    return torch.arange(start, start + count).float()[:, None].repeat(1, 2)


# Rank 1 is the second of the two that share the first data-parallel part: it keeps rows 2 and 3.
MINE = slice(2, 4)


def test_arguments_cross_by_name_however_they_are_passed() -> None:
    child = Child()
    declared = {"pixels": mimo.S(0), "grid": mimo.S(1), "scale": mimo.I}
    model = attached(child, inputs=declared, outputs=mimo.S(0))
    pixels, grid, scale = rows(4), torch.arange(8).view(2, 4), torch.ones(3)
    for args, kwargs in (
        ((pixels, grid), {"scale": scale}),
        ((pixels,), {"grid": grid, "scale": scale}),
        ((), {"pixels": pixels, "grid": grid, "scale": scale}),
    ):
        output = model(*args, **kwargs)
        assert torch.equal(child.seen["pixels"], pixels[MINE])
        assert torch.equal(child.seen["grid"], grid[:, MINE])
        assert child.seen["scale"] is scale
        assert output.shape == (4, 2)


def test_a_lone_floating_tensor_needs_no_declaration() -> None:
    child = Child()
    model = attached(child)
    flag = torch.tensor(3)
    model(rows(4), flag, scale=torch.tensor(2.0))
    assert torch.equal(child.seen["pixels"], rows(4)[MINE])
    assert child.seen["grid"] is flag
    assert child.seen["scale"].item() == 2


@pytest.mark.parametrize(
    ("declared", "path"),
    [
        ({"pixels": {"image": mimo.S(0), "mask": mimo.I, "levels": mimo.S(0)}}, "nested"),
        ({"pixels.image": mimo.S(0), "pixels.levels": mimo.S(0), "pixels": mimo.I}, "dotted"),
        ({"pixels": {"image": mimo.S(0), "mask": None, "levels": (mimo.S(0), mimo.S(0))}}, "tuple"),
    ],
)
def test_declarations_reach_into_structures(declared: dict[str, Any], path: str) -> None:
    child = Child(lambda pixels: pixels["image"])
    model = attached(child, inputs=declared)
    mask = torch.ones(5)
    model({"image": rows(4), "mask": mask, "levels": (rows(4), [rows(2)])})
    seen = child.seen["pixels"]
    assert torch.equal(seen["image"], rows(4)[MINE]), path
    assert torch.equal(seen["levels"][0], rows(4)[MINE])
    assert torch.equal(seen["levels"][1][0], rows(2)[1:])
    assert seen["mask"] is mask


def test_dataclasses_cross_in_and_out() -> None:
    child = Child(lambda pair: Pair(pair.left, {"kept": pair.right}))
    model = attached(
        child,
        inputs={"pixels": {"left": mimo.S(0), "right": mimo.I}},
        outputs={"left": mimo.S(0), "right": {"kept": mimo.I}},
    )
    kept = torch.ones(3)
    output = model(Pair(rows(4), kept))
    assert torch.equal(child.seen["pixels"].left, rows(4)[MINE])
    assert isinstance(output, Pair)
    assert output.left.shape == (4, 2)
    assert output.right["kept"] is kept


def test_tuples_and_numbers_declare_by_position() -> None:
    for inputs in ((mimo.S(0), mimo.S(1)), {0: mimo.S(0), 1: mimo.S(1)}):
        child = Child()
        model = attached(child, inputs=inputs, outputs=mimo.S(0))
        grid = torch.arange(8).view(2, 4)
        model(rows(4), grid=grid)
        assert torch.equal(child.seen["pixels"], rows(4)[MINE])
        assert torch.equal(child.seen["grid"], grid[:, MINE])
    child = Child()
    model = attached(child, inputs={"pixels": mimo.S(0), "grid": mimo.I, 2: mimo.S(0)})
    model(rows(4), None, rows(4, 7))
    assert torch.equal(child.seen["rest"][0], rows(4, 7)[MINE])


def test_scalars_below_a_declaration_are_never_cut() -> None:
    child = Child(lambda pixels: pixels["image"])
    model = attached(child, inputs={"pixels": mimo.S(0)})
    scale = torch.tensor(2.0)
    model({"image": rows(4), "scale": scale})
    assert child.seen["pixels"]["scale"] is scale


def test_arguments_that_do_not_change_stay_the_same_object() -> None:
    child = Child()
    model = attached(child, inputs={"pixels": mimo.S(0), "grid": mimo.I})
    cache = {"keys": [torch.ones(2)]}
    model(rows(4), cache)
    assert child.seen["grid"] is cache


def test_tensors_where_torch_cannot_look_are_refused() -> None:
    hidden = UserDict(image=rows(4))
    for declared in ({}, {"inputs": {"pixels": mimo.S(0)}}):
        with pytest.raises(TypeError, match=r"child.input: pixels is a collections.UserDict with"):
            attached(Child(lambda _: rows(2)), **declared)(hidden)
    child = Child(lambda _: rows(2))
    attached(child, inputs={"pixels": mimo.I})(hidden)
    assert child.seen["pixels"] is hidden


def test_one_full_graph_serves_nested_arguments_of_all_sizes() -> None:
    child = Child(lambda pixels: {"rows": pixels["image"] * 2, "count": pixels["count"]})
    model = attached(
        child,
        inputs={"pixels": {"image": mimo.S(0)}, "grid": mimo.I},
        outputs={"rows": mimo.S(0)},
    )
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
    for count in (4, 6, 8):
        image = rows(count).requires_grad_()
        output = compiled({"image": image, "count": 3}, torch.ones(3))
        output["rows"].sum().backward()
        assert output["rows"].shape == image.grad.shape == (count, 2)
        assert output["count"] == 3


def test_own_inputs_stay() -> None:
    child = Child()
    model = attached(child, inputs="own")
    pixels = rows(3)
    assert model(pixels, torch.ones(2, 2)).shape == (6, 2)
    assert child.seen["pixels"] is pixels


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda model: model(rows(4), torch.ones(2, 3)),
            'child.input: pixels .*place(model.child, ..., inputs={"pixels": mimo.S(0)})',
        ),
        (
            lambda model: model(rows(4), scale=torch.ones(2, dtype=torch.int64)),
            'inputs={"pixels": mimo.I}',
        ),
        (
            lambda model: model({"a": [torch.ones(2, 2), torch.ones(2, 2)]}),
            'inputs={"pixels.a.0": mimo.S(0)}',
        ),
    ],
)
def test_undeclared_tensors_are_refused_with_the_line_to_write(
    call: Callable[[nn.Module], Any], line: str
) -> None:
    with pytest.raises(ValueError) as error:
        call(attached(Child()))
    for part in line.split(" .*"):
        assert part in str(error.value)


def test_modules_in_lists_are_named_as_python_finds_them() -> None:
    model = nn.Sequential(nn.Sequential(Child()))
    mimo.place(model, mimo.Placement("language", **LANGUAGE))
    mimo.place(model[0][0], mimo.Placement("vision", **VISION))
    mimo.attach(model)
    with pytest.raises(ValueError) as error:
        model(rows(4).long())
    assert 'mimo.place(model.get_submodule("0.0"), ..., inputs={"pixels"' in str(error.value)


def test_a_declaration_that_meets_nothing_is_no_licence() -> None:
    model = attached(Child(lambda pixels: {"rows": pixels}), outputs={"row": mimo.S(1)})
    with pytest.raises(ValueError, match=r"child.output: rows .*\. Declared is: row$"):
        model(rows(4))
    model = attached(Child(), inputs={"pixels": mimo.S(0), "pixels.mask": mimo.I})
    with pytest.warns(UserWarning, match="child.input: pixels.mask is declared but is not there"):
        model(rows(4))


def test_outputs_are_refused_with_the_line_to_write() -> None:
    model = attached(Child(lambda pixels: (pixels, pixels)))
    with pytest.raises(ValueError, match=r'outputs=\{"0": mimo.S\(0\)\}'):
        model(rows(4))
    model = attached(Child(lambda pixels: pixels.long()))
    with pytest.raises(ValueError, match=r"outputs=mimo.S\(0\)\)"):
        model(rows(4))


@pytest.mark.parametrize(
    ("declared", "error", "message"),
    [
        (
            {"inputs": {"pixel": mimo.S(0)}},
            ValueError,
            'Child, inputs: no argument "pixel", only pix',
        ),
        ({"inputs": {"0": mimo.S(0)}}, ValueError, 'Child, inputs: no argument "0", only pixels'),
        ({"inputs": {"pixel.a": mimo.S(0)}}, ValueError, 'Child, inputs: no argument "pixel"'),
        (
            {"inputs": {0: mimo.S(0), "pixels": mimo.I}},
            ValueError,
            "Child, inputs: pixels is declared twice, by name and as argument pixels",
        ),
        ({"inputs": {"pixels": 0}}, TypeError, "Child, inputs: pixels is 0: expected mimo.S"),
        ({"outputs": {"x": 1.5}}, TypeError, "Child, outputs: x is 1.5: expected mimo.S"),
        (
            {"outputs": mimo.B},
            ValueError,
            'child.output: B alone .*"\\[S\\(0\\)\\] -> \\[dp=S\\(0\\),tp=B\\]',
        ),
        ({"outputs": "[S(0)]"}, ValueError, 'child.output: "\\[S\\(0\\)\\]" is no edge'),
        ({"outputs": "[S(0)] -> [S(0)]"}, ValueError, "child.output: .*give one for each axis"),
        ({"outputs": "[S(0)] -> [S(0),B]"}, NotImplementedError, "child.output: .*no plan"),
    ],
)
def test_bad_declarations_are_named(
    declared: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        attached(Child(), **declared)


def test_a_whole_edge_can_be_declared() -> None:
    child = Child()
    model = attached(child, inputs={"pixels": "[dp=S(1),tp=I] -> [S(1)]"}, outputs=mimo.S(1))
    model(rows(4).T)
    assert torch.equal(child.seen["pixels"], rows(4).T[:, MINE])


def test_an_edge_that_does_not_fit_the_tensor_is_named() -> None:
    model = attached(Child(), inputs={"pixels": mimo.S(2)})
    with pytest.raises(ValueError, match=r"child.input: .* splits dimension 2 of .* \[4, 2\]"):
        model(rows(4))


def test_rows_known_at_run_time_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="S\\(0, rows='grid'\\): only even parts"):
        mimo.S(0, rows="grid")


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Parent(Child())
        self.second = Child()

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.second(self.second(self.first(pixels)))


def test_several_children_nested_placements_and_two_calls() -> None:
    model = Nested()
    mimo.place(model, mimo.Placement("language", **LANGUAGE))
    mimo.place(model.first, mimo.Placement("vision", **VISION))
    mimo.place(model.first.child, mimo.Placement("patches", **LANGUAGE))
    mimo.place(model.second, mimo.Placement("audio", **VISION))
    mimo.attach(model)
    assert [border.crossings[None].edge.split(" -> ")[0] for border in mimo.borders(model)] == [
        "language{dp:2,tp:2}[S(0),I]",
        "vision{dp:4}[S(0)]",
        "vision{dp:4}[S(0)]",
        "patches{dp:2,tp:2}[S(0),I]",
        "language{dp:2,tp:2}[S(0),I]",
        "audio{dp:4}[S(0)]",
    ]
    before = mimo.traffic().calls
    assert model(rows(4)).shape == (4, 2)
    assert len(model.first.child.seen["pixels"]) == 4
    assert len(model.second.seen["pixels"]) == 2
    assert mimo.traffic().calls - before == 8


def test_a_shared_module_has_one_callers_placement() -> None:
    shared = Child()
    model = nn.Sequential(Parent(shared), Parent(shared))
    mimo.place(model, mimo.Placement("language", **LANGUAGE))
    mimo.place(shared, mimo.Placement("vision", **VISION))
    mimo.attach(model)
    assert [border.name for border in mimo.borders(model)] == ["0.child.input", "0.child.output"]
    assert model(rows(4)).shape == (4, 2)
    mimo.place(model[1], mimo.Placement("audio", **VISION))
    with pytest.raises(ValueError, match=r"0.child and 1.child are the same module, called from"):
        mimo.attach(model)


OTHER_RANKS = (
    r"child is placed on vision\{dp:2\}\+2 but called from language\{dp:2\}; these are disjoint "
    r"\(ranks \[0, 1\] only in language\{dp:2\} and \[2, 3\] only in vision\{dp:2\}\+2\)"
    r".*cannot be reached yet: that is for mimo.reshard"
)


def test_other_ranks_are_refused_with_what_serves_them() -> None:
    model = Parent(Child())
    mimo.place(model, mimo.Placement("language", dp=2))
    mimo.place(model.child, mimo.Placement("vision", offset=2, dp=2))
    with pytest.raises(ValueError, match=OTHER_RANKS):
        mimo.attach(model)


def test_dp_inside_tp_is_warned_about() -> None:
    model = Parent(Child())
    mimo.place(model, mimo.Placement.parse("language{dp:2@1,tp:2@2}"))
    mimo.place(model.child, mimo.Placement("vision", **VISION), inputs="own", outputs=mimo.I)
    with pytest.warns(UserWarning, match="dp \\(stride 1\\) lies inside tp \\(stride 2\\)") as seen:
        mimo.attach(model)
    # It points at the caller's line.
    assert seen[0].filename == __file__
