"""What every application needs: build an estimator by name, apply a model to data, score its predictions."""
