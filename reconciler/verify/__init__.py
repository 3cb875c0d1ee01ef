"""Find contradictions in any submission tree. Findings state both places that contradict each other.

Rules never write, and never refer to a benchmark by name.
"""
