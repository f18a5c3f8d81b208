"""Estimators around estimators: re-ranking for rare labels, augmented tails, ensembles."""
