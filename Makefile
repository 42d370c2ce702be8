# Every target works on a fresh machine with Go, make, and Postgres binaries (or
# a network to get them from). `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

MODULES := pkg proto services/ingress services/processor services/reconciler services/simulator services/catchwater test
# Outside the workspace, so that what it needs has no say in what services link.
OUTSIDE := deploy/test deploy/monitoring docs/examples
SERVICES := ingress processor reconciler simulator catchwater
export CGO_ENABLED ?= 0

.PHONY: help build up test test-unit test-system test-tracing test-deploy test-monitoring test-apiserver lint bench generate tidy clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

build: ## build every program into bin/
	@mkdir -p bin
	go build -trimpath -o bin/ $(foreach s,$(SERVICES),./services/$(s)/cmd/$(s))

up: ## build and run everything on this machine; Ctrl-C stops it
	@mkdir -p bin
	go build -trimpath -o bin/ ./services/catchwater/cmd/catchwater
	@exec bin/catchwater up $(ARGS)

test: test-unit test-system test-deploy test-monitoring ## run all tests

# Packages are tested with the race detector, which needs cgo and a C compiler;
# the whole-system tests run the programs as they are shipped.
test-unit:
	CGO_ENABLED=1 go test -race -timeout 10m ./pkg/... $(foreach s,$(SERVICES),./services/$(s)/...)

test-system:
	go test -timeout 15m -parallel 4 ./test ./test/harness ./test/bench

# Not part of test: Jaeger, which is built for it, takes minutes.
test-tracing: bin/jaeger ## test the traces with a real Jaeger
	JAEGER=$(CURDIR)/bin/jaeger go test -timeout 10m -parallel 2 ./test/tracing

# What containers are built from and run with, without a container engine. The
# files are outside the module, so that go test would not see them change.
test-deploy:
	cd deploy/test && GOWORK=off go test -count=1 -timeout 20m ./...

# Rules, dashboard, runbook and the reference of metrics, by Prometheus itself over
# what running services expose.
test-monitoring:
	cd deploy/monitoring && GOWORK=off go test -count=1 -timeout 10m ./...

test-apiserver: bin/kubernetes/kube-apiserver bin/kubernetes/etcd ## apply the chart to a real Kubernetes API server, dry (minutes to build it)
	cd deploy/test && GOWORK=off go test -count=1 -timeout 10m -tags apiserver -run ServerSideDryRun .

lint: bin/golangci-lint bin/buf bin/protoc-gen-go build ## check style, layers, generated code, and what the ingress links
	@for m in $(MODULES); do (cd $$m && echo "lint $$m" && $(CURDIR)/bin/golangci-lint run -c $(CURDIR)/.golangci.yml ./...); done
	@for m in $(OUTSIDE); do (cd $$m && echo "lint $$m" && GOWORK=off $(CURDIR)/bin/golangci-lint run --build-tags apiserver -c $(CURDIR)/.golangci.yml ./...); done
	@for m in $(MODULES) $(OUTSIDE); do (cd $$m && echo "tidy $$m" && GOWORK=off go mod tidy -diff && GOWORK=off go build -o /dev/null ./...); done
	.ci/generated
	.ci/ingress-links bin/ingress

bench: ## measure: accepted deliveries, processor rows, time to an answer (minutes)
	go run ./test/bench

generate: bin/buf bin/protoc-gen-go ## generate the broker's messages from proto/
	cd proto && PATH=$(CURDIR)/bin:$$PATH buf lint && PATH=$(CURDIR)/bin:$$PATH buf generate

bin/kubernetes/kube-apiserver: tools/kubernetes/go.mod
	cd tools/kubernetes && GOWORK=off go build -o $(CURDIR)/$@ k8s.io/kubernetes/cmd/kube-apiserver

bin/kubernetes/etcd: tools/kubernetes/go.mod
	cd tools/kubernetes && GOWORK=off go build -o $(CURDIR)/$@ go.etcd.io/etcd/server/v3

bin/golangci-lint: tools/golangci/go.mod
	cd tools/golangci && GOWORK=off go build -o $(CURDIR)/bin/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/buf: tools/buf/go.mod
	cd tools/buf && GOWORK=off go build -o $(CURDIR)/bin/ github.com/bufbuild/buf/cmd/buf

bin/protoc-gen-go: proto/go.mod
	cd proto && GOWORK=off go build -o $(CURDIR)/bin/ google.golang.org/protobuf/cmd/protoc-gen-go

bin/jaeger: tools/jaeger/go.mod
	cd tools/jaeger && GOWORK=off go build -o $(CURDIR)/bin/ github.com/jaegertracing/jaeger/cmd/jaeger

tidy: ## tidy every module
	@for m in $(MODULES) $(OUTSIDE) tools/golangci tools/buf tools/jaeger tools/kubernetes; do (cd $$m && GOWORK=off go mod tidy); done

clean: ## remove what was built; data/ stays
	rm -rf bin
