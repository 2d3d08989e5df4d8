"""The command line: `perdure`, one module for each group of commands."""
