#!/usr/bin/env bash
# The whole service on one machine with a GPU: gateways, log, worker, and callers at the pace of speech.
# Usage: ci/gpu_service.sh OUT SESSIONS KV SECONDS. The programs of this project must be on the PATH.
set -euo pipefail

out=$1 sessions=$2 kv=$3 seconds=$4
callers=4 # processes; one would be a load of its own
model=nvidia/personaplex-7b-v1
name=$kv-$sessions
urls=$(for n in 0 1 2 3; do echo "ws://127.0.0.1:$((8600 + n))"; done)

options=(--worker-option=--model-option=weights=random "--worker-option=--model-option=slots=$sessions")
options+=("--worker-option=--model-option=kv=$kv")
duplex-es up --model $model --port 8600 --gateways 4 --slots "$sessions" "${options[@]}" >"$out/up-$name.log" 2>&1 &
up=$!
trap 'kill -INT $up 2>/dev/null || true; wait $up || true' EXIT
for _ in $(seq 180); do
    grep -q "ready: connect" "$out/up-$name.log" && break
    kill -0 $up || { tail -40 "$out/up-$name.log"; exit 1; }
    sleep 1
done

pids=()
for n in $(seq $callers); do
    # shellcheck disable=SC2086  # a list of URLs on purpose
    duplex-es bench $urls --model $model --continuous --rate-hz 24000 --sessions $((sessions / callers)) \
        --duration-s "$seconds" --ramp-s 8 --quiet --json --out "$out/callers-$name-$n.json" >/dev/null &
    pids+=($!)
done
for pid in "${pids[@]}"; do
    wait "$pid" || echo "callers of process $pid were not all served"
done
kill -INT $up
wait $up || true
trap - EXIT
grep -h "ticks" "$out/up-$name.log" | tail -1
