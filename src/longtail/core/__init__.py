"""The estimator contract, predictions, model directories: what every other room stands on."""
