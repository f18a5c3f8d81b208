"""Engines other than threads: where the independent parts of a training run beyond this process."""
