# Two targets matter to a newcomer: `make demo` and `make test`. `make help` lists the rest.
SHELL    := /bin/bash -eo pipefail
export GO ?= go
export LIMPET_PROGRAMS := $(CURDIR)/bin/assets
MODULES  := . test/autoscalers test/certmanager test/cluster test/console test/e2e test/bench/rebuild release release/chart
TIDY     := $(MODULES) tools tools/score tools/vuln $(dir $(wildcard test/plugin/*/go.mod))
TOOL     := $(GO) tool -modfile=$(CURDIR)/tools/go.mod
CLUSTER  := $(CURDIR)/bin/limpet-cluster
BINARIES := bin/limpet-ipam bin/limpet-agent bin/limpet-controller bin/kubectl-limpet
VERSION  ?= $(shell git describe --always --dirty --tags 2>/dev/null)
# All is compiled in one way: what a build has compiled, no demo, test or benchmark compiles again.
# grpcnotrace leaves out a package of gRPC with which the linker keeps all methods: the agent would be a third larger.
export CGO_ENABLED := 0
export GOFLAGS     := $(GOFLAGS) -trimpath -buildvcs=false -tags=grpcnotrace
BUILD     = $(GO) build -ldflags "-s -w -X $(1).release=$(VERSION)"
VERSIONED = $(call BUILD,github.com/limpet-io/limpet/internal/version)

# These packages without inlining: the plugin waits for the kernel and the disk, and its file is 100 kB smaller.
PLUGIN    = $(foreach p,github.com/limpet-io/limpet/... github.com/containernetworking/... log log/slog flag net encoding/json,-gcflags=$(p)=-l)

.DEFAULT_GOAL := help
.PHONY: pictures numbers chaos demo-federation chart release reference licences score sbom reproducible vulncheck help demo test test-all test-unit test-e2e test-versions test-upgrade test-cert-manager test-fresh build images bench bench-plugin bench-controller bench-budgets bench-spread bench-rebuild bench-scale generate fmt lint verify cluster-up cluster-down clean harness assets root

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

demo: root build ## Rebuild pods in every ordinary way on a real three-node cluster; ends in "kept N/N"
	cd test/e2e && $(GO) run ./cmd/demo $(DEMO_FLAGS)

demo-federation: assets ## Run budgets over namespaces, clusters and rings, and draw at each step which pods may go
	$(GO) test ./cmd/controller -run TestBudgetsOver -count=1 -v | sed -n 's/^ *federation[a-z]*_test.go:[0-9]*: //p; /^ *--- /p'

chaos: root build ## Disturb clusters at random for 15 minutes each, with three seeds; writes docs/operate/runs/chaos.md
	cd test/e2e && $(GO) run ./cmd/chaos -seeds 3 -out docs/operate/runs/chaos.md $(CHAOS_FLAGS)

test: root build assets ## Run the tests that a change needs: tables, the plugin as a process, real API servers, a three-node cluster
	test/run.sh test

test-all: root build assets ## Run all tests, with what is rare and long, and the race detector; ends with the minutes of each part
	test/run.sh all

test-unit: build assets ## Run those of make test that need no three-node cluster; what fails fast comes first
	test/run.sh unit

test-e2e: build ## Run those of make test that need a three-node cluster
	test/run.sh e2e

test-versions: build ## Run the tests with API servers against Kubernetes 1.30, 1.32, 1.34 and 1.37; MINORS="1.30" takes one
	test/run.sh versions

test-upgrade: root build ## Upgrade from an earlier commit (FROM=COMMIT) and back, in every order; writes docs/operate/runs/upgrade.md
	cd test/e2e && $(GO) run ./cmd/upgrade -from "$(FROM)" -out docs/operate/runs/upgrade.md $(UPGRADE_FLAGS)

test-fresh: assets ## Check that the built components and Go's caches are all that tests need
	test/programs/fresh.sh

test-cert-manager: assets ## Run the controllers of cert-manager with deploy/cert-manager
	cd test/certmanager && $(GO) test -count=1 ./...

pictures: ## Take the pictures of `kubectl limpet ui` in docs/operate/pictures, in a real browser
	cd test/console && $(GO) run ./cmd/pictures -dir $(CURDIR)/docs/operate/pictures

bench: bench-plugin

bench-plugin: assets ## Measure limpet-ipam beside upstream host-local; writes docs/operate/runs/plugin.md
	$(GO) run ./test/bench/plugin -upstream $(LIMPET_PROGRAMS) -out docs/operate/runs/plugin.md $(BENCH_FLAGS)

bench-controller: build assets ## Measure the controller with 100 nodes and 10 000 pods; writes docs/operate/runs/controller.md
	$(GO) run ./test/bench/controller -assets $(LIMPET_PROGRAMS) -out docs/operate/runs/controller.md $(BENCH_FLAGS)

bench-budgets: build assets ## Measure how fast budgets judge, beside PodDisruptionBudgets; writes docs/operate/runs/budgets.md
	$(GO) run ./test/bench/controller -budgets -assets $(LIMPET_PROGRAMS) -out docs/operate/runs/budgets.md $(BENCH_FLAGS)

bench-spread: build assets ## Measure how fast spreads place pods, and that two replicas overfill none; writes docs/operate/runs/spread.md
	$(GO) run ./test/bench/controller -spreads -assets $(LIMPET_PROGRAMS) -out docs/operate/runs/spread.md $(BENCH_FLAGS)

bench-scale: build assets ## Measure 5 000 nodes and 150 000 pods, scene by scene; writes docs/operate/runs/scale.md and .json
	$(GO) run ./test/bench/scale -assets $(LIMPET_PROGRAMS) -out docs/operate/runs/scale.md $(BENCH_FLAGS)

bench-rebuild: root build ## Measure how long clients get no answer during rebuilds, with Limpet and without; writes docs/operate/runs/rebuild.md
	cd test/bench/rebuild && $(GO) run . $(BENCH_FLAGS)

build: harness ## Build the product and the cluster harness into bin/
	$(VERSIONED) $(PLUGIN) -o bin/limpet-ipam ./cmd/ipam-plugin
	$(VERSIONED) -o bin/limpet-agent ./cmd/node-agent
	$(VERSIONED) -o bin/limpet-controller ./cmd/controller
	$(VERSIONED) -o bin/kubectl-limpet ./cmd/kubectl-limpet

# The directory is made again each time. Old contents are not used.
assets: harness
	@$(CLUSTER) build >/dev/null
	@$(CLUSTER) assets --dir $(LIMPET_PROGRAMS) $$(sed 's/#.*//' test/programs/programs.txt) >/dev/null

root:
	@test $$(id -u) = 0 || { echo "root is needed: nodes are made of namespaces, mounts and cgroups" >&2; exit 1; }

harness:
	@command -v $(GO) >/dev/null || { echo "Go is missing: install Go $$(sed -n 's/^go //p' go.mod) or newer from https://go.dev/dl" >&2; exit 1; }
	cd test/cluster && $(call BUILD,main) -o $(CURDIR)/bin/ ./cmd/limpet-cluster ./cmd/echoserver
	cp bin/echoserver bin/pause

images: build ## Write both images as one archive, bin/images.tar
	$(CLUSTER) images --out bin/images.tar \
	  limpet-io/limpet-agent:dev=bin/limpet-agent,bin/limpet-ipam limpet-io/limpet-controller:dev=bin/limpet-controller,bin/kubectl-limpet

chart: ## Write the Helm chart into bin/chart/limpet
	cd release/chart && $(GO) run ./cmd/limpet-chart --deploy $(CURDIR)/deploy --version $(VERSION) --dir $(CURDIR)/bin/chart/limpet

cluster-up: root build ## Start a three-node cluster with Limpet for your own experiments: kubeconfig, bin/kubectl
	cd test/e2e && $(GO) run ./cmd/demo --install-only --name limpet --kubectl $(CURDIR)/bin/kubectl --kubeconfig $(CURDIR)/kubeconfig

cluster-down: root ## Stop the cluster of cluster-up; ALL=1 also those that an interrupted demo, test or benchmark left
	@test -x $(CLUSTER) || $(MAKE) --no-print-directory harness
	for name in limpet $(if $(ALL),demo e2e bench chart chaos upgrade flannel multus offline crio segment newcomer); do $(CLUSTER) down --name $$name; done
	rm -f kubeconfig bin/kubectl

generate: ## Regenerate deepcopy functions and CRDs
	$(GO) generate ./...

fmt: ## Format the code
	for m in $(MODULES); do (cd $$m && $(TOOL) golangci-lint fmt -c $(CURDIR)/.golangci.yml); done

lint: ## Lint every module
	for m in $(MODULES); do (cd $$m && $(TOOL) golangci-lint run -c $(CURDIR)/.golangci.yml ./...); done

reference: build ## Write docs/operate/reference.md from the source and the help texts
	cd tools && $(GO) run ./reference -root .. -out ../docs/operate/reference.md

verify: generate reference lint licences score sbom ## Check that generated code is fresh, code formatted and linted, modules tidy, files short, words plain
	git diff --exit-code -- deploy/crds deploy/node-network docs/operate/reference.md 'pkg/api/**/zz_generated*'
	for m in $(TIDY); do (cd $$m && $(GO) mod tidy -diff); done
	! git ls-files '*.go' | grep -vE 'zz_generated|_test\.go$$' | xargs wc -l | awk '$$2 != "total" && $$1 > 400' | grep .
	$(GO) test ./test/docs ./test/words
	tools/numbers.sh

numbers: ## Print how large the project is: lines, words, exported names, binaries
	tools/numbers.sh

licences: build ## Check the licences of all modules in the binaries
	cd release && $(GO) run ./cmd/limpet-release licences $(BINARIES:%=../%)

score: assets ## Check the manifests with kube-score; deploy/exceptions.txt explains what stays
	bin/assets/kubectl kustomize deploy/default | tools/score/score.sh deploy/exceptions.txt

sbom: images ## Write what a release says of itself into bin/release/: bills of materials (SPDX), provenance (SLSA), checksums
	rm -rf bin/release && mkdir -p bin/release
	cd release && $(GO) build -o $(CURDIR)/bin/limpet-release ./cmd/limpet-release
	bin/limpet-release sbom --dir bin/release $(BINARIES) bin/images.tar
	bin/limpet-release provenance --out bin/release/provenance.intoto.json $(BINARIES) bin/images.tar
	cd bin && sha256sum $(BINARIES:bin/%=%) images.tar release/*.json >release/SHA256SUMS

# Where the plugin of kubectl is released for, beside the architectures of the nodes.
PLUGIN_PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
release: harness ## Write a release into bin/dist: binaries, images (REGISTRY=…), chart, manifests, bills of materials, checksums
	$(CLUSTER) assets --dir $(CURDIR)/bin/release-programs kubectl >/dev/null # needs no root, as the target assets does
	VERSION=$(VERSION) LIMPET_PROGRAMS=$(CURDIR)/bin/release-programs REGISTRY=$(or $(REGISTRY),limpet-io) ARCHITECTURES='$(or $(ARCHITECTURES),amd64 arm64)' PLUGIN_PLATFORMS='$(PLUGIN_PLATFORMS)' \
	  PLUGIN_FLAGS='$(PLUGIN)' release/release.sh bin/dist

release-dry-run: release ## The same, and print what publishing it would push, sign and attest
	VERSION=$(VERSION) REGISTRY=$(or $(REGISTRY),limpet-io) DRY_RUN=1 release/publish.sh bin/dist

reproducible: ## Build all binaries (or PACKAGES) in another directory with an empty cache, and compare them with a build from here
	PLUGIN_FLAGS='$(PLUGIN)' release/reproducible.sh $(or $(PACKAGES),./cmd/ipam-plugin ./cmd/node-agent ./cmd/controller ./cmd/kubectl-limpet)

vulncheck: build ## Look for known vulnerabilities in the binaries; needs the Go vulnerability database (network)
	for b in $(BINARIES); do $(GO) tool -modfile=$(CURDIR)/tools/vuln/go.mod govulncheck -mode=binary $$b; done

clean: ## Remove what was built here (the cache outside the repository stays)
	rm -rf bin kubeconfig
