"""Write folders of results, and find out which files in a folder are an earlier result.

A file belongs to an earlier result if a manifest in its folder, unchanged by its own digest, names it with the digest
that it still has; a report, if the digest of its text holds and it names the models of the manifest. These files may
be replaced and removed. Every other file is replaced only if the user asks for it, and never removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping
from itertools import count
from pathlib import Path

from pine_boost.certificate.saved import CERTIFICATE, COMPRESSION, REPORT, SWEEP_CSV, SWEEP_JSON, read_table, table_csv
from pine_boost.errors import InvalidInputError, PineBoostError
from pine_boost.files import (
    CERTIFICATE_LIMIT,
    MODEL_LIMIT,
    clear_errors,
    is_same,
    is_sealed_page,
    path_of,
    read_limited,
    write_file,
)
from pine_boost.json_fields import FieldError, digest, digest_of, parse

_OF_MODELS = ("original_digest", "pruned_digest", "compressed_digest", "model_digest")
_RESULTS = (CERTIFICATE, COMPRESSION)  # with a page of their own
_UNFINISHED = ".pine_boost"  # suffix of the name of a folder while its contents are written


def write_folder(folder: str | os.PathLike[str], files: Mapping[str, bytes], *, overwrite: bool = False) -> Path:
    """Write files so that a new folder appears complete, and an old one never looks complete.

    A folder with only an earlier result is moved aside as a whole and removed when the new one is in
    its place. If there are other files, each file is replaced individually; manifests (certificates)
    are removed first, and the last one is written last.

    Parameters
    ----------
    folder : path
    files : mapping
        Names within the folder (with ``/`` for subfolders) and contents, the manifest last. Files of
        an earlier result (`owned_in`) may be replaced and removed; no other file is removed.
    overwrite : bool
        Replace files of the same names, regardless of who wrote them.

    Raises
    ------
    InvalidInputError
        The name is empty or not a path, a file of that name exists, or the folder holds files of
        others under names that would be written.
    OutputError
        The system refused: no space, no permission. Nothing that looks complete is left.
    """
    folder = path_of(folder)
    owned = require_free(folder, files, overwrite=overwrite)
    with clear_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        # everything that can fail for lack of space happens before the old files are changed
        place = tempfile.TemporaryDirectory(_UNFINISHED, f".{folder.name}.", folder.parent, ignore_cleanup_errors=True)
        with place as temporary:
            new = Path(temporary, "new")
            for name, contents in files.items():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                write_file(new / name, contents)
            if not folder.exists():
                os.rename(new, folder)
            elif not (_names_in(folder) <= owned and _swap(folder, new)):
                _replace_files(new, folder, list(files), owned)
    return folder


def require_free(
    folder: str | os.PathLike[str],
    names: Iterable[str],
    *,
    overwrite: bool = False,
    inputs: Iterable[str | os.PathLike[str]] = (),
) -> set[str]:
    """Raise if a file that pine_boost did not write would be replaced; return those of an earlier result.

    The last of the names is the manifest.
    ``inputs`` are files that are read: they are never replaced, not even with ``overwrite``.
    """
    folder = path_of(folder)
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file; choose a folder to write to.")
    names = list(names)
    for path in inputs:
        for name in names:
            if is_same(folder / name, Path(path)):
                raise InvalidInputError(
                    f"{path} is an input of this command and would be replaced by the result; write to another folder."
                )
    owned = owned_in(folder, names[-1])
    theirs = sorted(n for n in names if os.path.lexists(folder / n) and n not in owned)
    if theirs and not overwrite:
        raise InvalidInputError(
            f"{folder} already holds {', '.join(theirs)}, which may not have been written by "
            "pine_boost. Choose another folder, or pass overwrite=True.",
            option="overwrite",
        )
    return owned


def owned_in(folder: str | os.PathLike[str], manifest: str) -> set[str]:
    """Names of the files in a folder that were written with this manifest and are as they were written.

    The manifest (certificate.json, compression.json, scorer.json) has a digest of its own and names the files beside it
    by theirs; a report names its models, and has the digest of its text in its last line. A certificate and the folders
    of a sweep count as each other's.
    """
    folder = path_of(folder)
    if manifest not in (CERTIFICATE, SWEEP_JSON):
        return _named_by(folder, manifest)
    owned = _named_by(folder, CERTIFICATE)
    try:
        rows = read_table(folder / SWEEP_JSON)
    except PineBoostError:
        return owned
    owned.add(SWEEP_JSON)
    if _contents(folder / SWEEP_CSV) == table_csv(rows):
        owned.add(SWEEP_CSV)
    for inner in (f"alpha-{row['alpha']:g}" for row in rows):
        owned |= {f"{inner}/{name}" for name in _named_by(folder / inner, CERTIFICATE)}
    return owned


def _named_by(folder: Path, manifest: str) -> set[str]:
    try:
        stated = parse(read_limited(folder / manifest, CERTIFICATE_LIMIT, "manifest"))
        intact = stated.get("digest") == digest_of(stated)
        models = [digest(stated[name], name) for name in _OF_MODELS if name in stated]
    except (PineBoostError, FieldError, ValueError):
        return set()
    files = stated.get("files")
    if not (intact and isinstance(files, dict) and all(Path(name).name == name for name in files)):
        return set()
    owned = {manifest, *(name for name, written in files.items() if _sha256(folder / name) == written)}
    page = _contents(folder / REPORT)
    # one that names the model of a scorer may also be of a compression of that model, in the same folder
    is_others = "model_digest" in stated and any((folder / name).exists() for name in _RESULTS if name not in owned)
    if models and page is not None and is_sealed_page(page) and all(model.encode() in page for model in models):
        owned |= set() if is_others else {REPORT}
    return owned


def is_own_page(path: Path) -> bool:
    """Whether a file is an HTML page as it was written here, by its own digest."""
    page = _contents(path)
    return page is not None and is_sealed_page(page)


def _sha256(path: Path) -> str | None:
    contents = _contents(path)
    return None if contents is None else hashlib.sha256(contents).hexdigest()


def _contents(path: Path) -> bytes | None:
    try:
        return None if path.is_symlink() else read_limited(path, MODEL_LIMIT, "file")
    except (PineBoostError, OSError):  # no folder holds a file with so long a name
        return None


def require_writable(folder: str | os.PathLike[str]) -> None:
    """Raise unless files can be written where the folder is or would be; leave nothing behind."""
    folder = path_of(folder)
    with clear_errors(folder):
        place = next(path for path in (folder, *folder.parents) if path.exists())
        # create the whole path: this finds a file in it, or a file system that takes no folders
        with tempfile.TemporaryDirectory(dir=place, prefix=f".{folder.name}.") as tried:
            Path(tried, "try").write_bytes(b"pine_boost")
        if place == folder:
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}."):
                pass


def keep_elsewhere(folder: str | os.PathLike[str], files: Mapping[str, bytes]) -> Path | None:
    """Write files that could not be written to a folder to another place; None if there is none."""
    folder = path_of(folder)
    for parent in (folder.parent, Path.cwd(), Path(tempfile.gettempdir())):
        others = (parent / f"{folder.name}-kept-{number}" for number in count(1))
        try:
            return write_folder(next(other for other in others if not os.path.lexists(other)), files)
        except PineBoostError:
            continue
    return None


def remove_leftovers(folder: Path) -> None:
    """Remove what a process that was killed while writing this folder left beside it."""
    for left in folder.parent.glob(f".{folder.name}.*{_UNFINISHED}"):
        # eight characters are chosen at random: another folder may be called "name.more"
        if left.is_dir() and len(left.name) == len(folder.name) + 10 + len(_UNFINISHED):
            shutil.rmtree(left, ignore_errors=True)


def _names_in(folder: Path) -> set[str]:
    """Return the names of everything in a folder, including links and empty folders."""
    if folder.is_symlink():
        return {"a link to a folder is never moved"}
    found = set()
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir() or not any(path.iterdir()):
            found.add(path.relative_to(folder).as_posix())
    return found


def _swap(folder: Path, new: Path) -> bool:
    """Put a new folder in the place of an old one; return False if the old one cannot be moved."""
    old = new.with_name("old")
    new.chmod(folder.stat().st_mode & 0o7777)
    try:
        os.rename(folder, old)
        os.rename(new, folder)
    except OSError:  # the current folder of another process, or a mount point
        return False
    finally:
        if old.exists() and not folder.exists():  # interrupted between the two
            os.rename(old, folder)
    return True


def _replace_files(source: Path, folder: Path, names: list[str], owned: Collection[str]) -> None:
    manifests = [name for name in names if Path(name).name in (CERTIFICATE, names[-1])]
    for name in (*manifests, *(name for name in owned if name not in names)):
        (folder / name).unlink(missing_ok=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(source / name, folder / name)
