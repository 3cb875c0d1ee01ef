"""Use submitit, if installed, to write a batch script with its options and submit it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from submitit import SlurmExecutor
from submitit.core.utils import FailedJobError, FailedSubmissionError

from reconciler.errors import ReconcilerError
from reconciler.execute.executors.queue_executor import QueueSilentError

# sbatch's messages when it did not reach a controller or lost it before the answer.
_SILENT = (
    *("Unable to contact slurm controller", "slurm_msg_sendto", "slurm_receive_msg", "Socket timed out"),
    *("Connection refused", "Unable to establish controller machine", "Zero Bytes were transmitted"),
    *("Unexpected missing socket", "Transport endpoint is not connected", "in standby mode"),
)


class _Sbatch(SlurmExecutor):
    """Submits with sbatch. ``hidden``: variables of this process that no job may see. Slurm passes on the others
    unchanged; given a list of names to pass on, it would first start a login shell on the node."""

    hidden: Sequence[str] = ()

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        without = [word for name in self.hidden for word in ("-u", name)]
        return ["env", *without, *super()._make_submission_command(submission_file_path)]

    def submit_script(self, script: str) -> str:
        return str(self._submit_command(script).job_id)


def submit_job(
    folder: Path, script: str, options: Mapping[str, object], more: Mapping[str, object], hidden: Sequence[str]
) -> str:
    """Submit a job and return its number. ``options``: arguments of submitit's executor, ``more``: options of sbatch
    that submitit does not know. Raises ReconcilerError with Slurm's message, or QueueSilentError if Slurm did not
    answer, whether or not it accepted the job."""
    folder.mkdir(exist_ok=True)
    try:
        sbatch = _Sbatch(folder)
        sbatch.hidden = hidden
        sbatch.update_parameters(use_srun=False, stderr_to_stdout=True, additional_parameters=dict(more), **options)
        return sbatch.submit_script(script)
    except (FailedJobError, FailedSubmissionError, RuntimeError, ValueError) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        if any(words in said for words in _SILENT):
            raise QueueSilentError(said) from error
        raise ReconcilerError(f"Slurm refuses the job: {said}", fix="see executor.slurm of the system") from error
