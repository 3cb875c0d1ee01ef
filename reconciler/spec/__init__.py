"""What the user wrote: takes YAML files, gives one ``Declared`` submission whose every value knows its file:line:column.

Must not know the rules of a round, the records or the machine. pydantic stays in here.
"""
