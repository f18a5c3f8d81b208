"""What docs/results.md says of a run."""

import json

from longtail import Bonsai, RankNet
from longtail.bench.results import results_page
from longtail.core import codec


def test_models_are_written_with_the_parameters_that_are_not_defaults(tmp_path):
    model = RankNet(base=Bonsai(C=1.5), folds=4)
    result = {
        "dataset": "small", "recipe": "ranknet-bonsai", "model": "ranknet", "parameters": codec.encode(model)["params"],
        "metrics": {"P@1": 12.345}, "train_s": 1.0, "predict_s": 1.0, "peak_rss_mb": 1.0, "model_mb": 1.0,
        "n_train": 4, "n_test": 2, "n_features": 3, "n_labels": 2, "commit": "abc", "date": "2026-01-01",
        "machine": "a machine",
    }  # fmt: skip
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "ranknet-bonsai.json").write_text(json.dumps(result))
    page = results_page(tmp_path)
    assert "- ranknet-bonsai: ranknet(base = bonsai(C = 1.5), folds = 4); commit abc" in page
    assert "| ranknet-bonsai | 12.35 |" in page or "| ranknet-bonsai | 12.34 |" in page
