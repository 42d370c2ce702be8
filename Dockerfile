# syntax=docker/dockerfile:1.18
# Every service's image, one target each: ingress, processor, reconciler,
# simulator, and catchwater (the operator's commands, and migrations).
#
#   docker build --target ingress --build-arg VERSION=1.2.3 -t catchwater/ingress:1.2.3 .
#
# An image holds one static binary and the certificates of public authorities: no
# shell, no package manager, nothing that needs a writable file system. The same
# source gives the same binaries, wherever it is built.

FROM golang:1.26.8-bookworm AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
ARG VERSION=devel
COPY . .
# What a binary is made of stays readable in it (go version -m), for those who
# make bills of materials; only symbols and debugging information are left out.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go build -trimpath -ldflags "-s -w -buildid= -X github.com/catchwater/catchwater/pkg/service.version=${VERSION}" -o out/ \
    ./services/ingress/cmd/ingress ./services/processor/cmd/processor ./services/reconciler/cmd/reconciler \
    ./services/simulator/cmd/simulator ./services/catchwater/cmd/catchwater

FROM scratch AS base
ARG VERSION=devel
LABEL org.opencontainers.image.title="Catchwater" \
      org.opencontainers.image.description="A durable receiver for webhooks" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
USER 65532:65532
WORKDIR /

FROM base AS ingress
COPY --from=build /src/out/ingress /ingress
EXPOSE 8080 8180
ENTRYPOINT ["/ingress"]

FROM base AS processor
COPY --from=build /src/out/processor /processor
EXPOSE 8182
ENTRYPOINT ["/processor"]

FROM base AS reconciler
COPY --from=build /src/out/reconciler /reconciler
EXPOSE 8183
ENTRYPOINT ["/reconciler"]

FROM base AS simulator
COPY --from=build /src/out/simulator /simulator
EXPOSE 8090 8190
ENTRYPOINT ["/simulator"]

FROM base AS catchwater
COPY --from=build /src/out/catchwater /catchwater
ENTRYPOINT ["/catchwater"]
