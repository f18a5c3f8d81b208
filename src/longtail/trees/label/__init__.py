"""Label trees: labels are clustered into a tree, each node has small linear models, prediction is a beam search."""
