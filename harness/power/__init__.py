"""Runs whose power is measured with MLCommons' power kit, and runs in a declared power state of their machine."""
