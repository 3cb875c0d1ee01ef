"""Slurm jobs; optional, registered in ``reconciler.resource.queues``."""
