"""The main job, a short run of it: what it writes, resuming, and plain PyTorch beside it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import train_digits

STEPS = 50
LAUNCH_SECONDS = 200


def train(out: Path, *flags: str) -> str:
    """Runs the script as its users do and returns what it printed."""
    command = [sys.executable, train_digits.__file__, "--out", str(out), *flags]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LAUNCH_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def metrics(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that was stopped after ten steps and taken up again."""
    out = tmp_path_factory.mktemp("run")
    train(out, "--steps", "10")
    return out, train(out, "--steps", str(STEPS), "--resume")


def test_a_run_writes_its_metrics_plot_and_result(run: tuple[Path, str]) -> None:
    out, printed = run
    steps = metrics(out)
    assert [step["step"] for step in steps] == list(range(1, STEPS + 1))
    for step in steps:
        assert math.isfinite(step["loss"])
        assert 32 * 2 <= step["tokens"] <= 32 * 5
        assert step["images"] == 128
        assert 0 < step["border_seconds"] < step["seconds"]
        # 32 feature rows of 64 fp32 numbers come in from the sibling; images are sliced.
        assert step["border_bytes"] == 32 * 64 * 4
    assert sum(step["loss"] for step in steps[-10:]) / 10 < 0.7 * steps[0]["loss"]
    assert (out / "loss.png").stat().st_size > 10_000
    result = json.loads((out / "result.json").read_text())
    assert result["held_out_digits"] == 360
    assert "visual.output" in printed and "held-out digits read right" in printed


def test_plain_pytorch_has_the_same_losses_without_a_stop(
    run: tuple[Path, str], tmp_path: Path
) -> None:
    train(tmp_path, "--single", "--steps", "20")
    # The learning rate of these steps does not depend on how many there will be.
    assert train_digits.WARM_UP_STEPS >= 20
    plain = metrics(tmp_path)
    assert len(plain) == 20
    for ours, right in zip(metrics(run[0]), plain, strict=False):
        assert ours["tokens"] == right["tokens"]
        assert ours["loss"] == pytest.approx(right["loss"], rel=1e-4)
        assert right["border_bytes"] == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--vision", "dp=3"), "has 3 ranks, language{dp:2,tp:2} 4: both need the same"),
        (("--vision", "pp=4"), "--vision pp=4: expected dp=N, tp=N or both"),
        (("--vision", "dp=3", "--language", "dp=3"), "dp=3 does not divide 32 samples"),
        (("--steps", "0"), "--steps is at least 1"),
    ],
)
def test_bad_flags_are_refused_at_once(
    flags: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["train_digits", *flags])
    with pytest.raises(SystemExit):
        train_digits.main()
    assert message in capsys.readouterr().err
