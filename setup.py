"""Build hook: the rule base lives at the top level of the repository and ships inside the package."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRules(build_py):
    """Copy rules/ to vdoctor/_rules/ in the build tree and index it (never in editable installs)."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "vdoctor" / "_rules"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(Path(__file__).parent / "rules", target)
            sys.path.insert(0, str(Path(__file__).parent))
            from vdoctor.store import write_index

            write_index(target)


setup(cmdclass={"build_py": BuildWithRules})
