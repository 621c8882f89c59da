# PackFinderz (examples/packfinderz): all its programs, of which outbox-publisher runs unless another is named.
#   docker build -t packfinderz . && docker run --env-file packfinderz.env packfinderz [bin/api|bin/compliance-consumer|bin/outbox-cleanup|bin/migrate up]
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends build-essential cmake
WORKDIR /source
COPY . .
RUN cargo build --release --locked -p example-packfinderz --bins && \
    cd target/release && install -D -t /programs api check-processed compliance-consumer migrate outbox-cleanup outbox-publisher

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* && \
    useradd --system packfinderz
WORKDIR /app
COPY --from=build /programs bin
USER packfinderz
# Within a container the default, 127.0.0.1, reaches nobody.
ENV PACKFINDERZ_API_LISTEN=0.0.0.0:8080 PACKFINDERZ_HEALTH_LISTEN=0.0.0.0:8081
EXPOSE 8080 8081
CMD ["bin/outbox-publisher"]
