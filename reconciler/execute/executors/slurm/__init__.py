"""Jobs of Slurm; optional, its entry is in ``reconciler.resource.queues``."""
