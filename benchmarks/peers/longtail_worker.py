"""Train and predict with an estimator of longtail: longtail_worker.py FOLDER NAME JSON-PARAMETERS."""

import json
import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from longtail.core.model import load_model
from longtail.core.registry import estimator_class

folder, name, parameters = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
X, Y, X_test = (sparse.load_npz(folder / f"{part}.npz").tocsr() for part in ("X", "Y", "X_test"))
make = estimator_class(name)
few = slice(0, 600)  # loads and, the first time on a machine, compiles the kernels; peers come compiled
make(**parameters).fit(X[few], Y[few]).predict(X_test[few])
started = time.perf_counter()
model = make(**parameters).fit(X, Y)
trained = time.perf_counter()
ranked = model.predict(X_test, k=5)
predicted = time.perf_counter()
single = []
for i in range(300):
    begin = time.perf_counter()
    model.predict(X_test[i], k=5)
    single.append(time.perf_counter() - begin)
model.save(folder / "longtail", overwrite=True)
size = sum(file.stat().st_size for file in (folder / "longtail").iterdir())
assert (load_model(folder / "longtail").predict(X_test[few], k=5).labels == ranked.labels[few]).all()
sparse.save_npz(folder / "ranked.npz", ranked.to_csr(Y.shape[1]))
times = {"train_s": trained - started, "predict_s": predicted - trained, "model_mb": size / 1e6}
times |= {"single_p50_ms": 1e3 * float(np.median(single)), "single_p99_ms": 1e3 * float(np.percentile(single, 99))}
sys.stdout.write(json.dumps(times) + "\n")
