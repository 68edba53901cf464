#!/bin/sh
# Builds the image where there is neither a container daemon nor a registry, and tries it; as root on Debian with buildah
# and mmdebstrap. Elsewhere `docker build .` does the same on the official Python image.
#
#   deploy/build-image.sh [ARCHIVE]     ARCHIVE: also write the image to this file, for `docker load` or `skopeo copy`
#
# The base is a stand-in: Debian 12 with its own Python 3.11, under the name that the Dockerfile asks for. The machine's
# certificate authorities are trusted while building, and are not kept in the image.
set -eu
cd "$(dirname "$0")/.."

base=docker.io/library/python:3.11-slim
image=localhost/pin-calendar:dev
archive=${1:-}
certificates=/etc/ssl/certs/ca-certificates.crt
port=${PORT:-18000}

for program in buildah mmdebstrap; do
    command -v $program >/dev/null || { echo "$program is missing: apt-get install buildah mmdebstrap" >&2; exit 2; }
done
work=$(mktemp -d)
clean() {
    # The layers stay mounted until their containers go; a mounted store can't be removed.
    buildah --root "$work/store" --runroot "$work/run" rm --all >/dev/null 2>&1 || true
    umount "$work/store/overlay" 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM
build() { subcommand=$1; shift; buildah --root "$work/store" --runroot "$work/run" "$subcommand" "$@"; }
step() { printf '\n=== %s\n' "$*"; }

step base: Debian 12 with Python 3.11
mmdebstrap --quiet --variant=minbase --mode=root \
    --include=python3,python3-venv,python3-pip,ca-certificates,tzdata,netbase \
    --customize-hook='ln -sf python3 "$1/usr/bin/python"; rm -f "$1/usr/lib/python3.11/EXTERNALLY-MANAGED"' \
    bookworm "$work/base.tar"
container=$(build from scratch)
build add --quiet "$container" "$work/base.tar" / >/dev/null
build config --cmd python3 "$container"
build commit --quiet --rm "$container" "$base" >/dev/null
rm "$work/base.tar"

step image: Dockerfile
if [ -r "$certificates" ]; then
    set -- --volume "$certificates:$certificates:ro" --build-arg "SSL_CERT_FILE=$certificates"
else
    set --
fi
build bud --format docker --isolation chroot --pull-never --network host "$@" --tag "$image" .

step check --deploy, and the health of the web, as the image\'s own user
container=$(build from --pull-never "$image")
# Nothing listens at these addresses: neither check nor liveness may need the servers.
build run --isolation chroot --network host \
    --env PIN_ENVIRONMENT=production --env "SECRET_KEY=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" \
    --env DATABASE_URL=postgresql://nobody@127.0.0.1:9/none --env KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:9 \
    --env JWT_JWKS_URL=https://identity.example/jwks --env ALLOWED_HOSTS=calendar.example \
    --env SHOWCASE_URL=https://pin.example/showcase \
    --env "PIN_HEALTH_PORT=$port" "$container" -- sh -euc '
        id
        test "$(id -u):$(id -g)" = 10001:10001
        test ! -w /app && test ! -w /venv
        deploy/entrypoint check --deploy --fail-level WARNING
        for command in ensure_topics ensure_groups run_appointment_timeout run_reminder_dispatch run_outbox_relay \
            run_notifications run_crm_sync; do
            deploy/entrypoint $command --help >/dev/null
        done
        deploy/entrypoint gunicorn --config deploy/gunicorn.conf.py --bind "127.0.0.1:$PIN_HEALTH_PORT" config.wsgi &
        web=$!
        tries=0
        until python deploy/healthcheck.py; do
            kill -0 $web
            tries=$((tries + 1))
            test $tries -lt 60
            sleep 0.5
        done
        echo "the web answers /livez"
        kill -TERM $web
        wait $web
        echo "and ends with 0 on SIGTERM"
    '
build rm "$container" >/dev/null

if [ -n "$archive" ]; then
    step archive: "$archive"
    build push "$image" "docker-archive:$archive:$image"
fi
step "built and tried: $image"
build images --format '{{.Name}}:{{.Tag}} {{.Size}}'
