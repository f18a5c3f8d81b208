"""One-vs-rest on a GPU: waves of labels, rounds of coordinate descent, and the kernels below them."""
