# VOLT with its loops compiled ahead, so that no container compiles them again.
#
#     docker build -t volt .
#     docker run --rm -v "$PWD:/work" volt search corpus.txt
#
# With --user, loops are compiled again: VOLT loads compiled code only from folders that no other user can change.
FROM python:3.12-slim
COPY pyproject.toml README.md LICENSE /source/
COPY volt /source/volt
COPY cli /source/cli
RUN pip install --no-cache-dir '/source[interop,remote]' && rm -rf /source
ENV NUMBA_CACHE_DIR=/var/cache/volt
RUN volt warmup
WORKDIR /work
ENTRYPOINT ["volt"]
