"""Wrappers around any estimator: re-ranking for rare labels, augmented tails, ensembles."""
