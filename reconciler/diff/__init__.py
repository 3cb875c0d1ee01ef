"""Compare desired, recorded and observed state to find changes, drift and findings. Pure: no I/O, no clock."""
