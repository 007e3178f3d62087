"""What a border costs the host beside the bare collective that it needs.

    ./bazelw run //benchmarks:border_cost -- --out border_cost.json

Two ranks over Gloo on the CPU. In each round every way is taken once, so that all see the same
machine; the figures are medians of processor time (all threads of the first rank) over the rounds.

- gather: an attached module's output border, against `all_gather_into_tensor` into a fresh tensor
- slice: the border back, against `narrow(...).clone()`
- equal: both layouts the same: the module's call, against the call of one that is not attached
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import mimo

WIDTH = 1024
SIZES = (4 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20)
NUM_RANKS = 2
ROUNDS = 40


def _border(source: mimo.Placement, destination: mimo.Placement) -> Callable[..., torch.Tensor]:
    """The output border of a module on `source` that is called from `destination`."""
    child = nn.Identity()
    model = nn.Sequential(child)
    mimo.place(model, destination)
    mimo.place(child, source, inputs="own")
    mimo.attach(model)
    border = mimo.borders(model)[-1]
    return lambda rows: border(child, (rows,), rows)


def _equal() -> Callable[[torch.Tensor], torch.Tensor]:
    child = nn.Identity()
    model = nn.Sequential(child)
    mimo.place(model, mimo.Placement("language", dp=2))
    mimo.place(child, mimo.Placement("vision", dp=2))
    mimo.attach(model)
    return child


def _ways(size: int) -> dict[str, Callable[[], object]]:
    """Each way with its input of `size` bytes a rank (slice: the whole of both ranks)."""
    rows = size // (2 * WIDTH)
    part = torch.ones(rows, WIDTH, dtype=torch.bfloat16)
    whole = torch.ones(NUM_RANKS * rows, WIDTH, dtype=torch.bfloat16)
    vision, language = mimo.Placement("vision", dp=2), mimo.Placement("language", tp=2)
    gather, cut, equal = _border(vision, language), _border(language, vision), _equal()
    bare = nn.Identity()

    def all_gather() -> None:
        output = torch.empty_like(whole)
        dist.all_gather_into_tensor(output, part)

    return {
        "gather": lambda: gather(part),
        "all_gather_into_tensor": all_gather,
        "slice": lambda: cut(whole),
        "narrow and clone": lambda: whole.narrow(0, dist.get_rank() * rows, rows).clone(),
        "equal": lambda: equal(part),
        "plain call": lambda: bare(part),
    }


def _medians(ways: dict[str, Callable[[], object]], rounds: int, repeats: int) -> dict[str, float]:
    """Median processor time of each way in microseconds, of `repeats` calls in a row each round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    with torch.no_grad():
        for _ in range(rounds + 3):
            for name, way in ways.items():
                dist.barrier()
                # Caches hold what this way reads, not what came before.
                way()
                start = time.process_time_ns()
                for _ in range(repeats):
                    way()
                times[name].append((time.process_time_ns() - start) / 1000 / repeats)
    return {name: round(statistics.median(each[3:]), 2) for name, each in times.items()}


def _measure(out: Path) -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    results = []
    for size in SIZES:
        repeats = max(2, min(50, (64 << 20) // size))
        medians = _medians(_ways(size), rounds=ROUNDS if size < SIZES[-1] else 12, repeats=repeats)
        row = {"bytes a rank": size, "microseconds": medians}
        for ours, stock in (
            ("gather", "all_gather_into_tensor"),
            ("slice", "narrow and clone"),
            ("equal", "plain call"),
        ):
            row[f"{ours} ratio"] = round(medians[ours] / max(medians[stock], 0.01), 3)
            row[f"{ours} difference"] = round(medians[ours] - medians[stock], 2)
        results.append(row)
    if dist.get_rank() == 0:
        text = json.dumps(results, indent=2)
        out.write_text(text + "\n")
        print(text)
    mimo.destroy()
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Starts the ranks, or is one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("border_cost.json"), help="the figures")
    out = parser.parse_args().out
    if "RANK" in os.environ:
        _measure(Path(os.environ.get("BUILD_WORKING_DIRECTORY", ".")) / out)
    else:
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
        launch += [str(NUM_RANKS), __file__, *sys.argv[1:]]
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.execv(sys.executable, [sys.executable, *launch])


if __name__ == "__main__":
    main()
