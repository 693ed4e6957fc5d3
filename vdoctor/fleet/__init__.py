"""Archives of logs beyond one machine, on Dask. Needs the extra vdoctor[fleet]; see `vdoctor.fleet.run.analyse`."""

from __future__ import annotations
