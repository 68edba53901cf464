# One image for every role: web by default, `docker run IMAGE run_outbox_relay` and the like for the others.
# The base needs glibc (confluent-kafka has no musl wheel).
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
# Certificate authorities to trust while building, where a network has its own; the file is mounted, not kept.
ARG SSL_CERT_FILE
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 UV_NO_CACHE=1 UV_LINK_MODE=copy
WORKDIR /app
COPY requirements-uv.lock requirements.lock ./
RUN python -m venv --without-pip /venv \
    && pip install --require-hashes --requirement requirements-uv.lock \
    && uv pip sync --python /venv/bin/python --require-hashes --compile-bytecode requirements.lock \
    && rm requirements-uv.lock requirements.lock
# .dockerignore lets only the packages of the image through.
COPY . .
# The settings want servers to be named; collecting files connects to none.
RUN DATABASE_URL=postgresql://none@localhost/none KAFKA_BOOTSTRAP_SERVERS=localhost:9092 \
        /venv/bin/python manage.py collectstatic --no-input \
    && /venv/bin/python -m compileall -q .

FROM ${PYTHON_IMAGE}
RUN groupadd --system --gid 10001 pin \
    && useradd --system --uid 10001 --gid pin --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin pin
COPY --from=build /venv /venv
COPY --from=build /app /app
WORKDIR /app
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    METRICS_HOST=0.0.0.0 \
    PIN_HEALTH_PORT=8000
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
# A worker sets PIN_HEALTH_PORT to its --metrics-port.
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s --retries=3 CMD ["python", "deploy/healthcheck.py"]
ENTRYPOINT ["deploy/entrypoint"]
CMD ["gunicorn", "--config", "deploy/gunicorn.conf.py", "config.wsgi"]
