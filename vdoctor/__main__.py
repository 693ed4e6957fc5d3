"""python -m vdoctor"""

from __future__ import annotations

from vdoctor.cli import main

if __name__ == "__main__":
    main()
