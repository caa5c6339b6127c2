"""Asks the service in this container whether it is ready: exit code 0 if it says so, else 1 with its reason.

``DUPLEX_ES_HEALTH_PORT`` is where a worker answers; a gateway answers on ``DUPLEX_ES_PORT``, 8099 if nothing is set.
"""

import http.client
import os
import sys

PATIENCE_S = 3.0


def main() -> int:
    """The exit code; what is wrong goes to stderr, where the container engine shows it."""
    port = os.environ.get("DUPLEX_ES_HEALTH_PORT") or os.environ.get("DUPLEX_ES_PORT") or "8099"
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        body = answer.read(2_000).decode(errors="replace")
    except OSError as error:
        print(f"nothing answers on port {port}: {error}", file=sys.stderr)
        return 1
    if answer.status != 200:
        print(body, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
