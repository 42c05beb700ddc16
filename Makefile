# Verbs of the project. `make` alone makes a cluster on this machine.
BUILD   := .build
VERSION ?= 1.37.0-dev
LDFLAGS := -s -w -X main.version=$(VERSION)
CLUSTER ?= demo.k8s.local
GOLANGCI_LINT ?= go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# A version of Kubernetes; empty is the one that kops recommends for new clusters.
KUBERNETES_VERSION ?=
# A cloud whose clusters the programs are for besides: aws, gce or hetzner.
CLOUD ?=
# A pod network whose agents the programs are besides: cilium, flannel or kube-router.
NETWORK ?=
# Add-ons, separated by commas, whose programs are built besides, such as metrics-server,cert-manager.
ADDONS ?=
PROGRAMS = cd tools/kubernetes && go run . $(CLOUD:%=-cloud %) $(NETWORK:%=-network %) $(ADDONS:%=-addons %) $(or $(KUBERNETES_VERSION),$$($(CURDIR)/$(BUILD)/kops bundle version))

# Clusters on this host: 1, or whole with those tests that take too long for each change,
# for which Kubernetes 1.35.4 has to be built as well.
KOPS_E2E ?= 1
E2E       = KOPS_E2E=$(KOPS_E2E) tools/try go test -vet=off -count=1

# With KOPS_CPU, the name of a file, the CPU time of each test is measured.
MEASURE = $(if $(KOPS_CPU),-exec '"$(CURDIR)/$(BUILD)/cpu"')

# Architectures of machines in a cloud, and kops' own programs for them.
ARCHES ?= amd64,arm64
comma  := ,
OWN    := nodeup kops-controller dns-controller etcd-manager channels kube-apiserver-healthcheck go-runner

# All is compiled alike, for programs and for their tests, so that each package is compiled once:
# without C, the same whatever folder and commit the source is in, and without what only debuggers want.
# grpcnotrace leaves out pages of gRPC for debugging: their templates call methods by name, for which
# the linker would keep every method, and double the size of kops.
export CGO_ENABLED := 0
export GOFLAGS     := $(GOFLAGS) -trimpath -buildvcs=false -gcflags=all=-dwarf=false -tags=grpcnotrace

# Emulators that tools/install brings.
export PATH := $(PATH):$(CURDIR)/$(BUILD)/moto/bin:$(CURDIR)/$(BUILD)/azurite/node_modules/.bin

# Long tests take turns, by the number of commits. TURN=all runs everything, TURN=N another share.
export KOPS_TURN := $(or $(TURN),$(shell tools/turn))
# Two clouds are rehearsed: first those that the change touches.
export KOPS_TOUCHED := $(shell tools/touched)

.PHONY: quickstart root bundle rehearsal-bundle programs demo archive release release-test build servers test e2e lint vulncheck bench clean e2e-clouds
quickstart: root bundle ## a real cluster on this machine; as root. `kops delete cluster` ends it
	if $(BUILD)/kops get cluster $(CLUSTER) >/dev/null 2>&1; then $(BUILD)/kops update cluster $(CLUSTER) --yes --admin; \
	else $(BUILD)/kops create cluster --cloud local $(KUBERNETES_VERSION:%=--kubernetes-version %) $(CLUSTER) --yes; fi
	$(BUILD)/kops validate cluster $(CLUSTER) --wait 10m --interval 1s
	@echo
	@echo 'The cluster is ready. Look at it with: kubectl get nodes (this version of kubectl is $(BUILD)/kubectl)'
	@echo 'Delete it with: $(BUILD)/kops delete cluster $(CLUSTER) --yes'

root: # before anything takes long
	@[ "$$(uname -s)" = Linux ] || { echo "make: machines on this host need Linux, and this is $$(uname -s); run it on a Linux host, or in a virtual machine with Linux" >&2; exit 1; }
	@[ "$$(id -u)" = 0 ] || { echo 'make: machines on this host need root; run: sudo env "PATH=$$PATH" make $(MAKECMDGOALS)' >&2; exit 1; }

bundle: build ## everything that machines of this host fetch; what cannot be downloaded is built here, once; NETWORK=cilium: also that pod network; ADDONS=metrics-server,cert-manager: also these add-ons
	tools/install
	$(BUILD)/kops bundle create --kubernetes-version=$(KUBERNETES_VERSION) --networking=$(NETWORK) --addons=$(ADDONS) || { \
	  echo 'make: what cannot be downloaded is built here, once; this takes about 20 minutes on two cores' >&2; \
	  ($(PROGRAMS)) && $(BUILD)/kops bundle create --kubernetes-version=$(KUBERNETES_VERSION) --networking=$(NETWORK) --addons=$(ADDONS); }
	$(BUILD)/kops bundle extract $(KUBERNETES_VERSION:%=v%/bin/linux/$(shell go env GOARCH)/)kubectl --to $(BUILD)/kubectl

rehearsal-bundle: root bundle archive ## what clusters fetch in a rehearsal of CLOUD, without the internet: built here, with placeholders for images that cannot be built
	KOPS_E2E=1 tools/try go test -vet=off -count=1 -timeout 60m ./e2e/rehearsal -run '^TestBundle$$' -args -cloud $(or $(CLOUD),aws) -network $(or $(NETWORK),cilium)

programs: build ## build the programs of a cluster from source, once; CLOUD=aws, gce or hetzner: also those of clusters there; NETWORK=cilium, flannel or kube-router: also its agents; ADDONS=metrics-server: also that add-on
	$(PROGRAMS)

demo: build ## describe a cluster, and write it as Terraform; this needs neither a cloud nor an account
	rm -rf $(BUILD)/demo
	KOPS_STATE_STORE=file://$(CURDIR)/$(BUILD)/demo/state $(BUILD)/kops create cluster demo.example.com \
		--cloud aws --zones us-test-1a,us-test-1b,us-test-1c --control-plane-count 3 --networking calico \
		--set spec.configBase=s3://my-state-store/demo.example.com --facts testdata/facts/goldens.yaml --target terraform --out $(BUILD)/demo/terraform
	KOPS_STATE_STORE=file://$(CURDIR)/$(BUILD)/demo/state $(BUILD)/kops get all --name demo.example.com

build: ## kops, with kops-rehearse and its own programs for machines, stripped, in .build; the same source always gives the same programs, whatever the commit or the folder
	go build -ldflags '$(LDFLAGS)' -o $(BUILD)/ ./cmd/...

archive: build ## kops' own programs for machines in a cloud; `kops update cluster` copies them to the cluster's store
	for arch in $(subst $(comma), ,$(ARCHES)); do GOOS=linux GOARCH=$$arch go build -ldflags '$(LDFLAGS)' -o $(BUILD)/linux-$$arch/ $(OWN:%=./cmd/%) || exit 1; done
	$(BUILD)/kops bundle programs --arch $(ARCHES)

release: ## archives, deb, rpm, container image, Homebrew formula (needs RELEASES=URL), list of linked modules, and digests, in .build/release; the same source always gives the same files
	VERSION='$(VERSION)' ARCHES='$(ARCHES)' TARGETS='$(TARGETS)' RELEASES='$(RELEASES)' tools/release

release-test: ## install what `make release` has written, into folders; needs root
	KOPS_RELEASE=$(CURDIR)/$(BUILD)/release VERSION='$(VERSION)' RELEASES='$(RELEASES)' go test -vet=off -count=1 -v ./e2e/release

servers: ## build the object storage servers for tests, once, outside the tests' time limits
	go test -count=1 -timeout 30m -run 'Versity|MissingBucket' ./internal/store/s3 ./internal/store/gs

test: build ## run every test; installs and builds what they need, once, and reports what it skips
	tools/install tests
	$(PROGRAMS)
	go vet ./...
	go build -o $(BUILD)/cpu ./tools/cpu
	go test -vet=off -timeout 30m $(MEASURE) ./...

e2e: root bundle ## whole clusters on this host, made and broken; as root, on a quiet machine; about 25 minutes
	tools/try go test -vet=off -p 1 -timeout 30m $(MEASURE) ./internal/platform/local/... # known already where `make test` ran as root
	$(E2E) ./cmd/etcd-manager
	$(E2E) ./e2e/node
	$(E2E) -timeout 60m ./e2e/local
	$(E2E) -timeout 30m ./e2e/metal

e2e-clouds: root bundle ## the README's chapter on clusters in a cloud, on clouds as they are played on this host; as root, on a quiet machine
	$(E2E) -timeout 40m -v ./e2e/rehearsal

lint: ## gofmt, vet and the linters of .golangci.yml
	test -z "$$(gofmt -l .)"
	go vet ./...
	$(GOLANGCI_LINT) run

vulncheck: ## known vulnerabilities of what the programs call; says loudly when their database cannot be reached
	tools/vulncheck

bench: ## requests, wall time, memory and size
	go test -run '^$$' -bench . -benchtime 1x ./...

clean:
	rm -rf $(BUILD)
