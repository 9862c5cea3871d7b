# The server alone, with the example configuration:
#   docker build -t headrace .
#   docker run --rm -p 127.0.0.1:5000:5000 headrace
# With yours: -v /path/to/Public:/app/Public. With Ollama and Open WebUI: compose.yml. Told in docs/install.md.
FROM python:3.13-slim

ARG HEADRACE_VERSION=unreleased
LABEL org.opencontainers.image.title="Headrace" \
    org.opencontainers.image.version="${HEADRACE_VERSION}" \
    org.opencontainers.image.licenses="MIT"

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
WORKDIR /app
COPY setup.cfg pyproject.toml README.md LICENSE server.py ./
COPY deploy/wheel_contents.py deploy/
COPY Middleware Middleware
RUN pip install --no-cache-dir -e ".[redis]"
COPY Public Public
COPY docs docs
RUN mkdir -p Public/DiscussionIds Public/SqlLiteDBs Public/logs && chown -R 1000:1000 Public
USER 1000:1000

EXPOSE 5000
HEALTHCHECK --interval=30s --start-period=10s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5000/health', timeout=5)"]
ENTRYPOINT ["python", "server.py", "--listen", "0.0.0.0", "--port", "5000"]
