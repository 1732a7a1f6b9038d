"""The web application: rows in, classes out.

In comes a scorer (a `FastScorer` or `GuardedModel`, or a classifier of scikit-learn's kind); out goes a
FastAPI application. Refuses bodies and batches above their limits and rows that the model cannot take,
each with a status in the 400s and a sentence that says what to do.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from pine_boost import PineBoostError

MAX_ROWS = 1000
MAX_BYTES = 1_000_000


class Meter:
    """Requests by status, rows answered and the seconds spent on them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests: dict[int, int] = {}
        self.rows, self.seconds = 0, 0.0

    def add(self, status: int, n_rows: int, seconds: float) -> None:
        """Count one request."""
        with self._lock:
            self.requests[status] = self.requests.get(status, 0) + 1
            if status == 200:
                self.rows, self.seconds = self.rows + n_rows, self.seconds + seconds

    def lines(self) -> list[str]:
        """The counts as Prometheus reads them."""
        with self._lock:
            counted, n_rows, seconds = dict(self.requests), self.rows, self.seconds
        return [
            "# TYPE scorer_rows_total counter",
            f"scorer_rows_total {n_rows}",
            "# TYPE scorer_requests_total counter",
            *(f'scorer_requests_total{{status="{s}"}} {n}' for s, n in sorted(counted.items())),
            "# TYPE scorer_answered_seconds_total counter",
            f"scorer_answered_seconds_total {seconds:.6f}",
        ]


def create_app(scorer: Any, claim: str, *, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> FastAPI:
    """An application around one scorer and what may be said of it; every process makes its own."""
    app = FastAPI(title="pine_boost scorer", docs_url=None, redoc_url=None, openapi_url=None)
    meter = Meter()

    @app.post("/predict")
    async def predict(request: Request) -> JSONResponse:
        started = time.perf_counter()
        status, n_rows = 500, 0
        try:
            body = await read_body(request, max_bytes)
            rows = read_rows(body, scorer.n_features_in_, max_rows)
            try:
                classes = scorer.predict(rows)
            except PineBoostError as error:  # says itself what is wrong with the row
                raise HTTPException(422, str(error)) from error
            status, n_rows = 200, len(rows)
            return JSONResponse({"classes": classes.tolist()})
        except HTTPException as error:
            status = error.status_code
            raise
        finally:
            meter.add(status, n_rows, time.perf_counter() - started)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "model": repr(scorer), "claim": claim, "n_features": scorer.n_features_in_}

    @app.get("/metrics")
    async def metrics() -> PlainTextResponse:
        lines = meter.lines()
        if hasattr(scorer, "counts"):  # of a guarded model
            counts = scorer.counts
            lines += [
                "# HELP scorer_fallbacks_total Rows that the original model answered.",
                "# TYPE scorer_fallbacks_total counter",
                f"scorer_fallbacks_total {counts.n_fallbacks}",
                "# HELP scorer_coverage Share of rows that the pruned model answered.",
                "# TYPE scorer_coverage gauge",
                f"scorer_coverage {counts.share_guarded if counts.n_rows else 0.0:.6f}",
            ]
        return PlainTextResponse("\n".join(lines) + "\n")

    return app


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The body, as long as it keeps to the limit; a longer one is not even received."""
    stated = request.headers.get("content-length", "0")
    if stated.isdigit() and int(stated) > max_bytes:
        raise HTTPException(413, f"The body has {stated} bytes; up to {max_bytes} are accepted.")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise HTTPException(413, f"The body is larger than {max_bytes} bytes.")
    return bytes(body)


def read_rows(body: bytes, n_features: int, max_rows: int) -> np.ndarray:
    """The rows of ``{"rows": [[...], ...]}``; null is missing."""
    try:
        document = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"The body is not JSON: {error}") from error
    rows = document.get("rows") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows:
        raise HTTPException(422, 'Send {"rows": [[...], ...]} with at least one row.')
    if len(rows) > max_rows:
        raise HTTPException(413, f"{len(rows)} rows; up to {max_rows} in a request are accepted.")
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != n_features:
            found = len(row) if isinstance(row, list) else type(row).__name__
            raise HTTPException(422, f"Row {number} is {found}; a list of {n_features} numbers is accepted.")
        for column, value in enumerate(row):
            if type(value) not in (float, int) and value is not None:
                raise HTTPException(422, f"Row {number}, column {column} is {value!r:.60}; a number or null.")
    try:
        return np.array(rows, dtype=np.float64)
    except (ValueError, OverflowError) as error:
        raise HTTPException(422, f"A number is too large: {error}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON; send null for a missing value")
