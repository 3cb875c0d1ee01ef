"""Launchers: what a system's words before a command (srun, docker, podman, ssh, any other) need beside them, and what
the nodes say that they reach.

Knows processes and the contract with them; must not know specs, records or plans.
"""
