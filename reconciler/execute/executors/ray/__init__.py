"""Jobs of Ray; optional, its entry is in ``reconciler.resource.queues``."""
