"""What providers say when they fail, as tables: one row a rule, with its source.

A table holds the rules for one family of failures, whoever the provider is: which of two families a text
belongs to is decided by their order, the same for all. Within a table the first row that matches wins.
"""
