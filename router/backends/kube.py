"""GpuBackend objects of one namespace, listed and watched in a thread of its own.

The `kubernetes` client is imported only here. The watch resumes where it was after the apiserver ended it, lists anew
after 410 Gone, and goes on trying for as long as the process lives: while the apiserver is away the last known backends
stay in the book.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pydantic
import structlog
import urllib3
from kubernetes import client, config, watch

import crds
from crds import errors, gpubackend
from router.backends import environment

_log = structlog.get_logger("router.kube")

# The parts of the client without annotations.
_config: Any = config
_new_watch: Any = watch.Watch

_PLURAL = "gpubackends"
_GONE, _NOT_FOUND = 410, 404
# Seconds. The apiserver ends a watch after _WATCH; a connection that died silently is noticed a little later.
_WATCH = 60
_TIMEOUT = (5, 75)
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0

# Everything that talking to an apiserver can raise: its own errors, a broken connection, a half-written event.
_TROUBLE = (client.ApiException, urllib3.exceptions.HTTPError, OSError, ValueError)

Specs = Mapping[str, gpubackend.Spec]


class Trouble(errors.Operational):
    """The apiserver did not take a write."""


class Unconfigured(errors.Permanent):
    """There is no way to an apiserver."""


def connect(kubeconfig: str | None) -> client.CustomObjectsApi:
    """A client from a kubeconfig file, or from the pod's service account when none is given. Raises Unconfigured."""
    settings = client.Configuration()
    try:
        if kubeconfig:
            if not Path(kubeconfig).is_file():
                raise config.ConfigException(f"no file {kubeconfig!r}")
            _config.load_kube_config(config_file=kubeconfig, client_configuration=settings)
        else:
            _config.load_incluster_config(client_configuration=settings)
    except config.ConfigException as error:
        raise Unconfigured(
            f"No backends: GPU_BACKENDS is not set and there is no way to an apiserver ({error}).",
            field="GPU_BACKENDS",
            remedy="Set GPU_BACKENDS to a JSON list of backends or KUBECONFIG, or run in a pod with a service account.",
        ) from error
    return client.CustomObjectsApi(client.ApiClient(settings))


class Source:
    """Tells `changed` the valid specs by name, from its own thread, whenever they differ from what it told before."""

    def __init__(
        self, api: client.CustomObjectsApi, namespace: str, changed: Callable[[Specs], object], *, chance: Random
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._changed = changed
        self._chance = chance
        self._specs: dict[str, gpubackend.Spec] = {}
        self._statuses: dict[str, gpubackend.Status] = {}
        self._told: Specs | None = None
        self._leaving = threading.Event()
        self._watch = _new_watch()
        # A daemon: a read that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="gpubackends", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout: float = 2.0) -> None:
        """End the thread; waits at most `timeout` seconds."""
        self._leaving.set()
        self._watch.stop()
        self._thread.join(timeout)

    def statuses(self) -> Mapping[str, gpubackend.Status]:
        """What the objects said of themselves when they were last seen."""
        return dict(self._statuses)

    def patch(self, name: str, status: Mapping[str, Any]) -> None:
        """Merge fields into an object's status; one that is gone needs none. Raises Trouble."""
        try:
            self._api.patch_namespaced_custom_object_status(
                crds.GROUP, crds.VERSION, self._namespace, _PLURAL, name, {"status": status}, _request_timeout=_TIMEOUT
            )
        except _TROUBLE as error:
            if not (isinstance(error, client.ApiException) and error.status == _NOT_FOUND):
                raise Trouble(_short(error)) from error

    def _run(self) -> None:
        pause, version = _FIRST_PAUSE, ""
        while not self._leaving.is_set():
            try:
                if not version:
                    version = self._list()
                version = self._follow(version)
                pause = _FIRST_PAUSE
            except _TROUBLE as error:
                if self._leaving.is_set():
                    return
                if isinstance(error, client.ApiException) and error.status == _GONE:
                    _log.info("watch expired, listing anew")
                    version = ""
                    continue
                # A list is cheap and always right; where the watch stood may be what the trouble was about.
                version = ""
                _log.warning("apiserver trouble", error=_short(error), retry_seconds=pause)
                self._leaving.wait(pause * self._chance.uniform(0.8, 1.2))
                pause = min(pause * 2, _LONGEST_PAUSE)

    def _list(self) -> str:
        document: Any = self._api.list_namespaced_custom_object(
            crds.GROUP, crds.VERSION, self._namespace, _PLURAL, _request_timeout=_TIMEOUT
        )
        before, self._specs = self._specs, {}
        for item in document["items"]:
            self._put(item, before)
        self._tell()
        return str(document["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> str:
        """Watch until the apiserver ends it; returns where to go on."""
        events = self._watch.stream(
            self._api.list_namespaced_custom_object,
            crds.GROUP,
            crds.VERSION,
            self._namespace,
            _PLURAL,
            resource_version=version,
            allow_watch_bookmarks=True,
            timeout_seconds=_WATCH,
            _request_timeout=_TIMEOUT,
        )
        for event in events:
            item = event["object"]
            version = str(item["metadata"]["resourceVersion"])
            if event["type"] == "DELETED":
                self._specs.pop(item["metadata"]["name"], None)
                self._statuses.pop(item["metadata"]["name"], None)
            elif event["type"] in ("ADDED", "MODIFIED"):
                self._put(item, self._specs)
            self._tell()
            if self._leaving.is_set():
                break
        return version

    def _put(self, item: Mapping[str, Any], before: Specs) -> None:
        name = item["metadata"]["name"]
        try:
            spec = environment.parse(item.get("spec") or {}, f"gpubackend/{name}.spec")
        except environment.Invalid as error:
            # The apiserver's schema should have refused it. What was valid before stays.
            _log.error("invalid GpuBackend", name=name, error=error.message, remedy=error.remedy)
            if name in before:
                self._specs[name] = before[name]
            return
        self._specs[name] = spec
        try:
            self._statuses[name] = gpubackend.Status.model_validate(item.get("status") or {})
        except pydantic.ValidationError as error:
            _log.warning("status of a GpuBackend cannot be read", name=name, error=str(error))

    def _tell(self) -> None:
        if self._told != self._specs:
            self._told = dict(self._specs)
            self._changed(self._told)


def _short(error: BaseException) -> str:
    if isinstance(error, client.ApiException):
        return f"{error.status} {error.reason}"
    return f"{type(error).__name__}: {error}"[:200]
