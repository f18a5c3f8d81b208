"""Train and predict with PECOS XR-Linear defaults; run by a Python that has libpecos: pecos_worker.py FOLDER."""

import json
import os
import sys
import time

import numpy as np
import scipy.sparse as sp
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel

folder = sys.argv[1]
X, Y, X_test = (sp.load_npz(f"{folder}/{name}.npz").tocsr().astype(np.float32) for name in ("X", "Y", "X_test"))
started = time.perf_counter()
clusters = Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"))
model = XLinearModel.train(X, Y, C=clusters)
trained = time.perf_counter()
model.save(f"{folder}/pecos")
model = XLinearModel.load(f"{folder}/pecos", is_predict_only=True)  # the form that PECOS predicts fastest with
loaded = time.perf_counter()
ranked = model.predict(X_test, only_topk=5)
predicted = time.perf_counter()
single = []
for i in range(300):
    begin = time.perf_counter()
    model.predict(X_test[i], only_topk=5)
    single.append(time.perf_counter() - begin)
size = sum(os.path.getsize(os.path.join(path, f)) for path, _, files in os.walk(f"{folder}/pecos") for f in files)
sp.save_npz(f"{folder}/ranked.npz", ranked.tocsr())
times = {"train_s": trained - started, "predict_s": predicted - loaded, "model_mb": size / 1e6}
times |= {"single_p50_ms": 1e3 * float(np.median(single)), "single_p99_ms": 1e3 * float(np.percentile(single, 99))}
print(json.dumps(times))
