"""The estimator contract, predictions and model directories: what every other room builds on."""
