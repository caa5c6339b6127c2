# A worker for models on a GPU: the service in one environment, the engine with torch in another (/opt/ENGINE).
#   docker build -f deploy/docker/worker-cuda.Dockerfile --build-arg ENGINE=personaplex -t duplex-es-worker-personaplex .
# Engines: personaplex, minicpmo; qwen3-omni and nemotron with --build-arg REQUIREMENTS=deploy/requirements/ENGINE.txt, the
# latter with --build-arg EXTRAS=worker,cascade,tracing for its voice.
# torch brings its CUDA libraries; the driver is the host's (NVIDIA's container toolkit). Weights are never in an image:
# mount them at /models. Pin the base by its digest for a release: --build-arg BASE=python@sha256:…
ARG BASE=python:3.11-slim-bookworm

# Triton compiles a little C for each kernel, also at run time.
FROM ${BASE} AS runtime
ARG PACKAGES="gcc libc6-dev"
# hadolint ignore=DL3008,SC2086  # a list of words on purpose; the base's digest pins what there is
RUN apt-get update \
    && apt-get install -y --no-install-recommends ${PACKAGES} \
    && rm -rf /var/lib/apt/lists/*

FROM runtime AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
ARG ENGINE=personaplex
# What the engine needs, before anything that changes more often.
ARG REQUIREMENTS=deploy/models/${ENGINE}/requirements.txt
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip "/opt/${ENGINE}"
WORKDIR /src
COPY deploy/models deploy/models
COPY deploy/requirements deploy/requirements
ARG PIP_FIND_LINKS=""
RUN /opt/pip/bin/pip --python "/opt/${ENGINE}/bin/python" install -r "${REQUIREMENTS}"
COPY . .
ARG EXTRAS=worker,chat,bridge,tracing
ARG VERSION=0
RUN python3 -m venv --without-pip /opt/duplex-es \
    && /opt/pip/bin/pip --python /opt/duplex-es/bin/python install -c deploy/docker/constraints.txt ".[${EXTRAS}]" \
    && install -m 0755 deploy/docker/healthcheck.py /opt/duplex-es/bin/healthcheck.py \
    && mkdir -p /opt/duplex-es/share \
    && cp -r deploy/models /opt/duplex-es/share/models \
    && python3 deploy/docker/sbom.py "duplex-es-worker-${ENGINE}" "${VERSION}" /opt/duplex-es "/opt/${ENGINE}" \
        > /opt/duplex-es/share/sbom.cdx.json

FROM runtime
ARG BASE
ARG ENGINE=personaplex
ARG VERSION=0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="duplex-es-worker-${ENGINE}" \
      org.opencontainers.image.description="Holds sessions and speaks with a model that runs on a GPU" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${BASE}" \
      duplex-es.sbom.path="/opt/duplex-es/share/sbom.cdx.json" \
      duplex-es.sbom.format="CycloneDX 1.5"
RUN groupadd --gid 10001 duplex \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin duplex
COPY --from=build /opt/duplex-es /opt/duplex-es
COPY --from=build /opt/${ENGINE} /opt/${ENGINE}
# Everything that is compiled or cached at run time goes to /tmp: mount a tmpfs or a volume there.
ENV PATH=/opt/duplex-es/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    HF_HUB_OFFLINE=1 \
    TRITON_CACHE_DIR=/tmp/triton \
    TORCHINDUCTOR_CACHE_DIR=/tmp/inductor \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    DUPLEX_ES_DEPLOYMENT=/opt/duplex-es/share/models/${ENGINE}.toml \
    DUPLEX_ES_HEALTH_HOST=0.0.0.0 \
    DUPLEX_ES_HEALTH_PORT=8098 \
    DUPLEX_ES_LOG_FORMAT=json
USER 10001:10001
EXPOSE 8098
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=4s --start-period=600s --retries=3 \
    CMD ["python3", "/opt/duplex-es/bin/healthcheck.py"]
ENTRYPOINT ["duplex-es-worker"]
