"""Runs a function on several ranks: real processes under torchrun, over Gloo.

    result = ranks.run(worker, 4, "argument")

`worker` is a module-level function of a test file. It is called on every rank with the arguments
(which travel as JSON) once the process group stands; what rank 0 returns comes back (as JSON).
"""

from __future__ import annotations

import datetime
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

LAUNCH_SECONDS = 240
COLLECTIVE_SECONDS = 60


def run(worker: Callable[..., Any], num_ranks: int, *arguments: Any) -> Any:  # noqa: ANN401
    """Runs `worker(*arguments)` on `num_ranks` processes and returns what rank 0 returned.

    Raises:
        AssertionError: a rank failed; the message holds the output of all.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(num_ranks), __file__, worker.__code__.co_filename]
        command += [worker.__name__, json.dumps(arguments), str(result)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LAUNCH_SECONDS, check=False
        )
        assert done.returncode == 0, f"{worker.__name__} failed\n{done.stdout}\n{done.stderr}"
        return json.loads(result.read_text())


def _main(file: str, function: str, arguments: str, result: str) -> None:
    # Test files import each other's helpers as their own package does.
    sys.path.insert(0, str(Path(file).parent))
    spec = importlib.util.spec_from_file_location("worker", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["worker"] = module
    spec.loader.exec_module(module)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=COLLECTIVE_SECONDS))
    value = getattr(module, function)(*json.loads(arguments))
    if os.environ["RANK"] == "0":
        Path(result).write_text(json.dumps(value))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    _main(*sys.argv[1:])
