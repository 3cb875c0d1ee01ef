"""Launchers: what the words that a system puts before a command (srun, docker, podman, ssh, any other) need in
addition, and the reports of the nodes that they reach.

These modules know processes and the contract with them; they must not know specs, records or plans.
"""
