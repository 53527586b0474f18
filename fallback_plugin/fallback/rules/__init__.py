"""What providers say when they fail, as tables: one row a rule.

Each table goes from the surest evidence to the weakest, and within a table the first row that matches wins.
"""
