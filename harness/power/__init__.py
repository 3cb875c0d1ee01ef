"""Runs with power measured by MLCommons' power kit, and runs in a declared power state of the machine."""
