"""Scorer folders that were edited by somebody who knows the format."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pine_boost.json_fields import digest_of
from pine_boost.scoring.scorer_folder import ARRAYS, MANIFEST, _sha256


def rewrite(
    folder: Path,
    change_arrays: Callable[[dict[str, Any]], Any] | None = None,
    change_manifest: Callable[[dict[str, Any]], Any] | None = None,
) -> None:
    """Change a folder as somebody would who knows the format: all digests fit again."""
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest.pop("digest")
    if change_arrays is not None:
        with np.load(folder / ARRAYS) as archive:
            arrays = {name: archive[name].copy() for name in archive.files}
        change_arrays(arrays)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        (folder / ARRAYS).write_bytes(buffer.getvalue())
        manifest["files"][ARRAYS] = _sha256(buffer.getvalue())
    if change_manifest is not None:
        change_manifest(manifest)
    manifest["digest"] = digest_of(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest))
