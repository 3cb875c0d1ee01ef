"""Launchers: what a system's words before a command (srun, docker, podman, ssh, any other) need in addition, and what
the nodes that they reach report.

Knows processes and the contract with them; must not know specs, records or plans.
"""
