"""Reports: what a model does on test data, as one page that opens anywhere."""
