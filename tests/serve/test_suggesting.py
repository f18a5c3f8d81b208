"""Which labels are asked for and returned."""

from __future__ import annotations

import asyncio

import numpy as np

from longtail import DiSMEC, TextPipeline, make_longtail
from longtail.core.calibrated import ModelCalibration
from longtail.core.calibration import Calibration, CalibrationOfGroups
from longtail.features import TextFeatures
from longtail.serve.batching import BatchQueue
from longtail.serve.models import load_served
from longtail.serve.settings import ModelSettings
from longtail.serve.suggesting import Wish, suggest


def test_few_suggestions_are_the_first_of_many_where_probabilities_have_their_own_order(tmp_path):
    data = make_longtail(n_points=400, n_features=200, n_labels=60, kind="text")
    model = TextPipeline(model=DiSMEC(), features=TextFeatures(min_df=1))
    model.fit(data.train.texts, data.train.Y, label_names=data.train.label_names)
    model.calibrate(data.test.texts, data.test.Y)
    rare, frequent = (Calibration(np.array([-1.0, 1.0]), np.array(ends)) for ends in ([-1.0, 3.0], [-9.0, 3.0]))
    fitted = model.probabilities_
    edges = np.array([np.median(model.label_counts_)], np.int64)
    model.probabilities_ = ModelCalibration(
        CalibrationOfGroups([rare, frequent]), edges, fitted.candidates, fitted.n_points, fitted.curve
    )
    model.save(tmp_path / "model")
    served = load_served("m", ModelSettings(path=tmp_path / "model"))

    async def found(limit):
        queue = BatchQueue(most=512, seconds=10.0, batch=32)
        rows = await suggest(queue, served, data.test.texts[:10], Wish(limit=limit))
        await queue.close()
        return rows

    few, many = asyncio.run(found(5)), asyncio.run(found(60))
    assert few == [row[:5] for row in many]
    assert all(row == sorted(row, key=lambda one: -one.probability) for row in many)
    by_score = model.predict(data.test.texts[:10], k=10).labels
    assert any(one.label not in own for row, own in zip(few, by_score, strict=True) for one in row)
