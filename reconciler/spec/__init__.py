"""The user's declaration: read YAML files into one ``Declared`` submission, whose values record their file:line:column.

This package must not depend on a round's rules, the records or the machine. Only this package uses pydantic.
"""
