"""Script for a child process: CatBoost loads a JSON model from stdin and predicts one row of zeros.

CatBoost has no C library of its own in its Python package, so the package is imported. The exit status gives the
outcome.
"""

import os
import sys
import tempfile

REFUSED = 3


def main() -> None:
    """Load and predict; if the library rejects the file, print its error and exit with a special status."""
    # isolated and without site: the folder that holds the package is all that is needed
    sys.path.append(os.path.dirname(os.path.dirname(sys.argv[1])))
    n_features = int(sys.argv[2])
    contents = sys.stdin.buffer.read()
    import catboost

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        with open(path, "wb") as file:
            file.write(contents)
        try:
            model = catboost.CatBoost()
            model.load_model(path, format="json")
            model.predict([[0.0] * n_features], prediction_type="RawFormulaVal", thread_count=1)
        except catboost.CatBoostError as error:
            print(error, file=sys.stderr)
            sys.exit(REFUSED)


if __name__ == "__main__":
    main()
