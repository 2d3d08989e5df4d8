# perdure's server. Build: docker build --tag perdure .    Run: see compose.yaml
#
# The weights of the embedder come with the image, so that nothing is fetched when it runs.

FROM python:3.12-slim AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/perdure
ENV PATH=/opt/perdure/bin:$PATH
WORKDIR /source
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY src src
COPY examples examples
COPY packages packages
RUN pip install ".[minilm,server,fast,metrics,yaml,mcp,pgvector,postgres,neo4j]" ./packages/minilm

FROM python:3.12-slim

RUN useradd --uid 10001 --create-home perdure && install --directory --owner perdure /data
COPY --from=build /opt/perdure /opt/perdure
ENV PATH=/opt/perdure/bin:$PATH PYTHONUNBUFFERED=1
USER perdure
VOLUME /data
EXPOSE 8100
# SIGTERM ends the server when what is under way is finished.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8100/readyz', timeout=4)"]
ENTRYPOINT ["perdure", "--path", "/data"]
# No address but loopback starts without a key: make one first (compose.yaml says how).
CMD ["serve", "--host", "0.0.0.0"]
