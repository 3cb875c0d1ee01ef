"""Other users of the machine while a run is to be timed: of this one, or of the nodes behind a launcher."""

from __future__ import annotations

from harness.contract import Busy, ProbeRequest
from reconciler.errors import ReconcilerError
from reconciler.execute.request_parts import select_slices
from reconciler.launch.nodes import find_first_busy, probe_nodes
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths

LOOK = 2.0  # seconds for which the processors must be loaded


def find_busy(settings: CellSettings, paths: RepositoryPaths, *, look: float = LOOK) -> Busy | None:
    """Find what speaks against timing a run with these settings now; None when its machine is quiet.

    ``look``: seconds for which the processors must be loaded; a tenth of a second at least. Raises ReconcilerError when
    the nodes behind a launcher cannot be seen.
    """
    if settings.is_queued:
        return None  # a job of a timed run has its nodes alone
    # GPUs that are cut: those whose slices it takes.
    slices = select_slices(settings)
    request = ProbeRequest(quiet=look, gpus=len(slices) or list_gpus(settings), slices=slices)
    try:
        nodes = probe_nodes(request, settings.launcher, paths.work, (paths.root.resolve(),))
    except ReconcilerError:
        if not settings.runs_here:
            raise
        return None  # a machine that cannot be probed runs nothing either, and the run will say why
    return find_first_busy(nodes, elsewhere=not settings.runs_here)


def list_gpus(settings: CellSettings) -> int:
    """How many GPUs a run takes, from the first on."""
    return settings.get_number("run.options.devices") or settings.hardware.count
