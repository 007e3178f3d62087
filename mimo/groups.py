"""Process groups for borders, named after their ranks and shared by all who need the same ranks."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _register_process_group, _unregister_process_group
from torch.distributed.device_mesh import DeviceMesh


class _Group(NamedTuple):
    """A group, whether it was made here, and the group of all ranks of the job it belongs to."""

    group: dist.ProcessGroup
    is_ours: bool
    job: dist.ProcessGroup

    @property
    def is_current(self) -> bool:
        """Whether the job it was made in still runs; all ranks have the same answer."""
        return self.job is dist.group.WORLD


_groups: dict[str, _Group] = {}


def name_of(ranks: Iterable[int]) -> str:
    """The name under which the group of these ranks is registered, e.g. `mimo:0,2`."""
    return torch.ops.mimo.group_name(list(ranks))


def get(ranks: Sequence[int]) -> dist.ProcessGroup:
    """The group of these ranks, made before.

    Raises:
        RuntimeError: it does not exist, or no longer.
    """
    name = name_of(ranks)
    if not exists(ranks):
        raise RuntimeError(
            f"there is no group {name}: it is made by mimo.attach and gone after mimo.destroy"
        )
    return _groups[name].group


def exists(ranks: Sequence[int]) -> bool:
    """Whether the group of these ranks has been made in this job."""
    name = name_of(ranks)
    return name in _groups and _groups[name].is_current


def make(rank_sets: Iterable[Iterable[int]], timeout: datetime.timedelta) -> None:
    """Makes the groups of these rank sets that do not exist yet.

    A collective call: every rank of the job must make the same sets, also those it is not in. Sets
    come in one sorted order, so the order of the argument does not matter.

    Args:
        rank_sets: the ranks of each group.
        timeout: how long a member waits for the others; groups made before keep theirs.
    """
    for ranks in sorted({tuple(sorted(ranks)) for ranks in rank_sets}):
        name = name_of(ranks)
        if not exists(ranks):
            group = dist.new_group(list(ranks), timeout=timeout, group_desc=name)
            _keep(name, group, is_ours=True)


def adopt(mesh: DeviceMesh) -> None:
    """Lets borders use the groups along the dimensions of a mesh; they keep their time limits.

    All ranks of the job must adopt the same meshes in the same order.
    """
    for dim in range(mesh.ndim):
        for ranks in mesh.mesh.movedim(dim, -1).reshape(-1, mesh.size(dim)).tolist():
            # Only groups numbered as ours are: by ascending rank.
            if exists(ranks) or ranks != sorted(ranks):
                continue
            mine = dist.get_rank() in ranks
            group = mesh.get_group(dim) if mine else dist.GroupMember.NON_GROUP_MEMBER
            _keep(name_of(ranks), group, is_ours=False)


def _keep(name: str, group: dist.ProcessGroup, *, is_ours: bool) -> None:
    _groups[name] = _Group(group, is_ours, dist.group.WORLD)
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        _register_process_group(name, group)


def gather_objects(value: Any, group: dist.ProcessGroup | None, who: str) -> list[Any]:  # noqa: ANN401
    """Every member's value, in the group's order.

    A collective call. A dry run (torch's "fake" backend) has no peers: they count as like this one.

    Args:
        value: this rank's value.
        group: the group; None for all ranks of the job.
        who: who waits, for the error.

    Raises:
        RuntimeError: others did not come within the group's time limit.
    """
    values: list[Any] = [value] * dist.get_world_size(group)
    if dist.get_backend(group) != "fake":
        with waiting(group, who):
            dist.all_gather_object(values, value, group=group)
    return values


def gather_tensors(tensor: torch.Tensor, group: dist.ProcessGroup, who: str) -> list[torch.Tensor]:
    """Every member's tensor, all of one shape and type; otherwise as `gather_objects`."""
    tensors = [tensor] * dist.get_world_size(group)
    if dist.get_backend(group) != "fake":
        tensors = [torch.empty_like(tensor) for _ in tensors]
        with waiting(group, who):
            dist.all_gather(tensors, tensor, group=group)
    return tensors


@contextlib.contextmanager
def waiting(group: dist.ProcessGroup | None, who: str) -> Iterator[None]:
    """Says in an error who waited for whom."""
    try:
        yield
    except RuntimeError as error:
        ranks = dist.get_process_group_ranks(group)
        raise RuntimeError(
            f"{who}: rank {dist.get_rank()} waits for ranks {ranks}: {error}"
        ) from error


def destroy() -> None:
    """Takes down all groups made here. Calling it again does nothing."""
    while _groups:
        name, each = _groups.popitem()
        # The end of a job takes its groups with it.
        if not each.is_current or each.group is dist.GroupMember.NON_GROUP_MEMBER:
            continue
        _unregister_process_group(name)
        if each.is_ours:
            dist.destroy_process_group(each.group)
