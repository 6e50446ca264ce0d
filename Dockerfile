# ragrounds without extras, as a user without rights. `docker build -t ragrounds . && docker run --network none ragrounds`
FROM python:3.13 AS build
COPY . /src
RUN python -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --require-hashes -r /src/constraints/default.txt \
 && /venv/bin/pip install --no-cache-dir --no-deps /src

FROM python:3.13-slim
RUN useradd --uid 1000 --home-dir /srv/ragrounds --create-home ragrounds && install -d -o ragrounds -g ragrounds /srv/ragrounds/store
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH RAGROUNDS_HOME=/srv/ragrounds/store
USER ragrounds
WORKDIR /srv/ragrounds
VOLUME /srv/ragrounds/store
ENTRYPOINT ["ragrounds"]
CMD ["run"]
