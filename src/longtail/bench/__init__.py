"""From recipes and studies to runs, and from runs to result files and a table."""
