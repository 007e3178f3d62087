"""What a run shows: progress, metrics.jsonl, the loss plot and the result. On one rank only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

mpl.use("Agg")
from matplotlib import pyplot as plt

SMOOTHED_STEPS = 25
LOGGED_STEPS = 100


@dataclass(frozen=True)
class StepMetrics:
    """One step of the whole job, a line of metrics.jsonl.

    Attributes:
        step: the step's number, from 1.
        loss: mean cross entropy over all tokens of the global batch.
        tokens: valid tokens of the global batch.
        images: images of the global batch.
        seconds: wall-clock time.
        border_seconds: time of it in borders on the first rank, waiting for others included.
        border_bytes: bytes that the first rank received in borders.
    """

    step: int
    loss: float
    tokens: int
    images: int
    seconds: float
    border_seconds: float
    border_bytes: int


class Report:
    """Writes into a folder and draws a progress bar.

    Args:
        folder: made if missing.
        first_step: steps done before; metrics after them are dropped, those up to them are kept.
        last_step: the number of the last step.
    """

    def __init__(self, folder: Path, first_step: int, last_step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.console = Console()
        self._folder = folder
        self._path = folder / "metrics.jsonl"
        lines = self._path.read_text().splitlines() if first_step and self._path.exists() else []
        self._steps = [StepMetrics(**json.loads(line)) for line in lines]
        self._steps = [metrics for metrics in self._steps if metrics.step <= first_step]
        self._path.write_text("".join(self._line(metrics) for metrics in self._steps))
        columns: list[ProgressColumn] = [TextColumn("training"), BarColumn(), MofNCompleteColumn()]
        columns.append(TextColumn("loss {task.fields[loss]}"))
        columns.append(TextColumn("{task.fields[rate]} tokens/s"))
        columns.append(TextColumn("borders {task.fields[borders]}"))
        columns.append(TimeRemainingColumn())
        self._progress = Progress(*columns, console=self.console)
        self._task = self._progress.add_task(
            "training", total=last_step, completed=first_step, loss="-", rate="-", borders="-"
        )

    def __enter__(self) -> Report:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @staticmethod
    def _line(metrics: StepMetrics) -> str:
        return json.dumps(asdict(metrics)) + "\n"

    def add(self, metrics: StepMetrics) -> None:
        """Adds one step."""
        self._steps.append(metrics)
        with self._path.open("a") as file:
            file.write(self._line(metrics))
        shown = {
            "loss": f"{metrics.loss:.3f}",
            "rate": f"{metrics.tokens / metrics.seconds:,.0f}",
            "borders": f"{metrics.border_seconds / metrics.seconds:.0%}",
        }
        self._progress.update(self._task, completed=metrics.step, **shown)
        if not self.console.is_terminal and metrics.step % LOGGED_STEPS == 0:
            self.console.print(
                f"step {metrics.step}  loss {shown['loss']}  {shown['rate']} tokens/s  "
                f"borders {shown['borders']}"
            )

    def finish(self, title: str, correct: int, asked: int) -> None:
        """Writes loss.png and result.json and prints the share of held-out digits read right."""
        seconds = sum(metrics.seconds for metrics in self._steps)
        result = {
            "layout": title,
            "steps": len(self._steps),
            "seconds": round(seconds, 1),
            "held_out_digits": asked,
            "read_right": correct,
            "share": round(correct / asked, 4),
        }
        (self._folder / "result.json").write_text(json.dumps(result, indent=2) + "\n")
        self._plot(title)
        self.console.print(
            f"[bold]{correct / asked:.1%}[/bold] of {asked} held-out digits read right after "
            f"{len(self._steps)} steps in {seconds:.0f} s; loss plot, metrics and checkpoint in "
            f"{self._folder}"
        )

    def _plot(self, title: str) -> None:
        steps = [metrics.step for metrics in self._steps]
        losses = [metrics.loss for metrics in self._steps]
        smooth = []
        for i in range(len(losses)):
            window = losses[max(0, i + 1 - SMOOTHED_STEPS) : i + 1]
            smooth.append(sum(window) / len(window))
        figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
        axes.plot(steps, losses, color="tab:blue", alpha=0.3, linewidth=0.8, label="each step")
        axes.plot(
            steps, smooth, color="tab:blue", linewidth=1.8, label=f"mean of {SMOOTHED_STEPS} steps"
        )
        axes.set_yscale("log")
        axes.set_xlabel("step")
        axes.set_ylabel("mean cross entropy a token")
        axes.set_title(f"Reading digits: {title}", loc="left")
        axes.grid(alpha=0.3, which="both", linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        figure.savefig(self._folder / "loss.png", dpi=150)
        plt.close(figure)
