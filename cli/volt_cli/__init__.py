"""The command `volt`: one module per command, for parsing arguments and printing only."""
