"""Builds the C kernel with the wheel where a compiler is found; without one the wheel is pure Python.

Everything else is in setup.cfg. PINE_BOOST_PURE=1 in the environment leaves the kernel out.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from setuptools import Distribution, find_packages, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

_SPEC = importlib.util.spec_from_file_location(
    "kernel_library", Path(__file__).parent / "pine_boost" / "kernels" / "library.py"
)
assert _SPEC is not None and _SPEC.loader is not None  # noqa: PT018 - a file of this repository
library: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(library)


def _is_pure() -> bool:
    return os.environ.get("PINE_BOOST_PURE") == "1" or library.find_compiler() is None


class BuildWithKernel(build_py):
    """Copies the package and compiles the kernel beside its source; a failure is no error."""

    def run(self) -> None:
        """Copy, then compile."""
        super().run()
        if not self.editable_mode and not _is_pure():
            library.compile_to(Path(self.build_lib).resolve() / "pine_boost" / "kernels" / library.file_name())


class PlatformDistribution(Distribution):
    """Platform-specific where a kernel is compiled, although setuptools knows of no extension module."""

    def has_ext_modules(self) -> bool:
        """Whether the files belong to one platform."""
        return not _is_pure()


class PlatformWheel(bdist_wheel):
    """One wheel per platform for all Pythons: the kernel has no Python headers."""

    def get_tag(self) -> tuple[str, str, str]:
        """Any Python 3, this platform."""
        python, abi, platform = super().get_tag()
        return (python, abi, platform) if _is_pure() else ("py3", "none", platform)


ROOT = Path(__file__).parent
# parsers/ is found where it lies: the link pine_boost/parsers is a text file where git makes no links (Windows)
packages = {"pine_boost", *(f"pine_boost.{name}" for name in find_packages(str(ROOT / "pine_boost")))}
packages |= {"pine_boost.parsers", *(f"pine_boost.parsers.{name}" for name in find_packages(str(ROOT / "parsers")))}


def _project_urls() -> dict[str, str]:
    """The addresses of the repository that publishes, as its workflow knows them.

    The sources lie in several places and none of them is named here: a local build states no address rather than a
    guessed one.
    """
    repository = os.environ.get("GITHUB_REPOSITORY")
    if not repository:
        return {}
    source = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}"
    return {
        "Source": source,
        "Documentation": f"{source}/blob/main/docs/index.md",
        "Changelog": f"{source}/blob/main/CHANGELOG.md",
        "Issues": f"{source}/issues",
    }


setup(
    project_urls=_project_urls(),
    packages=sorted(packages),
    cmdclass={"build_py": BuildWithKernel, "bdist_wheel": PlatformWheel},
    distclass=PlatformDistribution,
)
