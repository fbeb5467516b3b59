"""Wait until the apiserver serves the three kinds; run by the chart's hook between the CRDs and their first objects."""

import json
import os
import ssl
import sys
import time
import urllib.request

# Where the kubelet puts the account's token; an argument names another folder.
MOUNT = sys.argv[1] if len(sys.argv) > 1 else "/var/run/secrets/kubernetes.io/serviceaccount"
WANTED = {"pendingtasks", "connections", "gpubackends"}
TRIES = 60


def served() -> set[str]:
    """The resources of our group that the apiserver knows now."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    with open(f"{MOUNT}/token", encoding="ascii") as token:
        request = urllib.request.Request(
            f"https://{f'[{host}]' if ':' in host else host}:{port}/apis/jervis.dev/v1alpha1",
            headers={"Authorization": f"Bearer {token.read()}"},
        )
    trust = ssl.create_default_context(cafile=f"{MOUNT}/ca.crt")
    with urllib.request.urlopen(request, timeout=5, context=trust) as answer:  # noqa: S310  # https, see above
        return {resource["name"] for resource in json.load(answer)["resources"]}


for attempt in range(TRIES):
    try:
        missing = WANTED - served()
    except OSError as error:  # a refused connection, or 404 until the group is there
        missing, reason = WANTED, str(error)
    else:
        reason = f"not served yet: {', '.join(sorted(missing))}"
    if not missing:
        sys.exit()
    sys.stderr.write(f"try {attempt + 1} of {TRIES}: {reason}\n")
    time.sleep(1)
sys.exit(f"the kinds of jervis.dev/v1alpha1 are not served: {reason}")
