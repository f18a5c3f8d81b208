"""Search for good parameters: fits of models on a development split, as trials of an Optuna study."""
