"""Whole passes over small repositories: each folder below is a case, with its plan and its pass as golden text."""
