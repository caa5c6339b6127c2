#!/bin/sh
# A stand-in for python:3.11-slim-bookworm where no registry can be reached: base.sh FILE.tar
# Debian's own packages, without manuals and translations; python3 is /usr/bin/python3 there, so the Dockerfiles name no path.
# Needs root (or a mapped user) and mmdebstrap. Repeatable with SOURCE_DATE_EPOCH and a snapshot as mirror.
set -eu
out=${1:?usage: base.sh FILE.tar}
suite=${SUITE:-bookworm}
hooks=/usr/share/mmdebstrap/hooks
leave_out=''
for path in /usr/share/man /usr/share/info /usr/share/locale /usr/share/i18n /usr/share/doc; do
    leave_out="$leave_out --dpkgopt=path-exclude=$path/*"
done
# shellcheck disable=SC2086  # a list of words on purpose
exec mmdebstrap --variant=minbase --hook-dir="$hooks/merged-usr" $leave_out \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --include=usr-is-merged,ca-certificates,python3,python3-venv \
    "$suite" "$out" ${MIRROR:+"$MIRROR"}
