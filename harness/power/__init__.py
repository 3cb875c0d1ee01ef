"""Runs whose power is measured by MLCommons' power kit, and runs in a declared power state of the machine."""
