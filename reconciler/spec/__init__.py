"""The user's declaration: takes YAML files, gives one ``Declared`` submission whose values know their file:line:column.

Must not know the rules of a round, the records or the machine. pydantic stays in here.
"""
