#!/usr/bin/env bash
# The whole service on one machine with a GPU: gateways, log, worker, and callers at the pace of speech.
# Usage: ci/gpu_service.sh OUT SESSIONS KV SECONDS [OPTION=VALUE...]. The programs of this project must be on the PATH.
# With KILL_AFTER_S the engine's process is killed that long after the callers began.
set -euo pipefail

out=$1 sessions=$2 kv=$3 seconds=$4
callers=4 # processes; one would be a load of its own
model=nvidia/personaplex-7b-v1
name=$kv-$sessions${KILL_AFTER_S:+-killed}
urls=$(for n in 0 1 2 3; do echo "ws://127.0.0.1:$((8600 + n))"; done)

options=(--worker-option=--model-option=weights=random "--worker-option=--model-option=slots=$sessions")
options+=("--worker-option=--model-option=kv=$kv")
for option in "${@:5}"; do
    options+=("--worker-option=--model-option=$option")
done
duplex-es up --model $model --port 8600 --gateways 4 --slots "$sessions" "${options[@]}" >"$out/up-$name.log" 2>&1 &
up=$!
trap 'kill -INT $up 2>/dev/null || true; wait $up || true' EXIT
for _ in $(seq 180); do
    grep -q "ready: connect" "$out/up-$name.log" && break
    kill -0 $up || { tail -40 "$out/up-$name.log"; exit 1; }
    sleep 1
done

call() { # number seconds
    # shellcheck disable=SC2086  # a list of URLs on purpose
    duplex-es bench $urls --model $model --continuous --rate-hz 24000 --sessions $((sessions / callers)) \
        --duration-s "$2" --ramp-s 8 --quiet --json --out "$out/callers-$name-$1.json" >/dev/null
}

pids=()
for n in $(seq 2 $callers); do
    call "$n" "$seconds" &
    pids+=($!)
done
# A quarter of the callers hangs up in the middle, and as many others call.
{ call 1 $((seconds / 2 - 8)); sleep 1; call 1-later $((seconds / 2 - 8)); } &
pids+=($!)
if [ -n "${KILL_AFTER_S:-}" ]; then
    sleep "$KILL_AFTER_S"
    date +'engine killed %T.%3N' | tee -a "$out/up-$name.log"
    pgrep -f workers.engine.child | head -1 | xargs kill -9
fi
for pid in "${pids[@]}"; do
    wait "$pid" || echo "callers of process $pid were not all served"
done
kill -INT $up
wait $up || true
trap - EXIT
grep -h "ticks" "$out/up-$name.log" | tail -1
