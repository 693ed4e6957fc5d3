"""Which machine wrote a log, where the lines of a log shipper say so."""

from __future__ import annotations

import re

#: So much of a log is looked at.
HEAD = 64 << 10
_ISO = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_HOST = rb"(?P<host>[A-Za-z0-9][\w.\-]{0,80})"
_FORMS = re.compile(
    # syslog, journalctl -o short and -o short-iso: time, host, program[pid]:
    rb"^(?:(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?|"
    + _ISO
    + rb") "
    + _HOST
    + rb" [\w.@/\-]{1,80}(?:\[\d{1,10}\])?: "
    # kubectl logs --prefix: [pod/NAME/CONTAINER]
    rb"|^\[pod/(?P<pod>[a-z0-9][a-z0-9.\-]{0,100})/",
    re.MULTILINE,
)


def host_of(head: bytes) -> tuple[str, int] | None:
    """Name of the host (or pod) and the number of the line that says it, from the first bytes of a log."""
    found = _FORMS.search(head, 0, HEAD)
    if found is None:
        return None
    name = found["host"] or found["pod"]
    return name.decode("ascii", "replace"), head.count(b"\n", 0, found.start()) + 1
