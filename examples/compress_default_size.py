"""A booster of default size loses most of its leaves; a future input keeps its class in 98 %."""

from sklearn.datasets import make_classification
from xgboost import XGBClassifier

from pine_boost import compress_booster

X, y = make_classification(5000, 15, n_informative=8, random_state=1)
X_train, y_train = X[:2000], y[:2000]
X_val, X_new, y_new = X[2000:3500], X[3500:], y[3500:]

model = XGBClassifier(n_estimators=100, max_depth=6, learning_rate=0.1, n_jobs=1)
model.fit(X_train, y_train)

result = compress_booster(model, X_train, X_val, fidelity=0.98, confidence=0.95)
print(result.summary())

# rows that neither the path nor the test has seen
kept = result.evaluate(X_new)
before, after = (float((m.predict(X_new) == y_new).mean()) for m in (model, result.model))
print(f"On {len(X_new)} new rows {kept:.2%} keep their class.")
print(f"Accuracy {before:.3f} before, {after:.3f} after.")
assert result.status == "VALIDATED"
assert kept > 0.97
