"""One-vs-rest linear models: the label-blocked solver, its SIMD primitives, and DiSMEC built on them."""
