"""Make the pages of results: everything in README.md and docs/ that repeats measurements.

`python -m scripts.pages` reads docs/lab/runs (results of `longtail bench --out docs/lab/runs`) and docs/lab/benchmarks
(measurement files of benchmarks/) and writes docs/results.md with its pictures, docs/lab/*.md, and every table between
`<!-- table: NAME -->` and `<!-- end of table -->`. `--check` only says what is out of date.
"""
