package testenv

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// nodeNetworkSince is the minor version of Kubernetes that deploy/node-network needs: its rules compare networks.
const nodeNetworkSince = 31

// afterStart notes the minor version of the API server, and installs what not every version takes.
func (e *Env) afterStart(root string) error {
	asks, err := discovery.NewDiscoveryClientForConfig(e.Config)
	if err != nil {
		return fmt.Errorf("make discovery client: %w", err)
	}
	version, err := asks.ServerVersion()
	if err != nil {
		return fmt.Errorf("ask API server for its version: %w", err)
	}
	if e.minor, err = strconv.Atoi(strings.TrimRight(version.Minor, "+")); err != nil || !e.HasNodeNetworks() {
		return err
	}
	_, err = envtest.InstallCRDs(e.Config, envtest.CRDInstallOptions{Paths: []string{filepath.Join(root, "deploy", "node-network")}, ErrorIfPathMissing: true})
	return err
}

// HasNodeNetworks reports whether the API server takes deploy/node-network.
func (e *Env) HasNodeNetworks() bool { return e.minor >= nodeNetworkSince }

// earlierPrefix begins the names of the directories in which make test-versions keeps the programs of earlier Kubernetes.
const earlierPrefix = "kubernetes-"

// Since skips a test against an earlier Kubernetes (make test-versions) that lacks what the test is about, and 1.minor
// has. Against the one of make test nothing is skipped: there it is a failure.
func (e *Env) Since(t testing.TB, minor int, what string) {
	t.Helper()
	switch {
	case e.minor >= minor:
	case !strings.HasPrefix(filepath.Base(e.server.BinaryAssetsDirectory), earlierPrefix):
		t.Fatalf("the API server in %s is of Kubernetes 1.%d, which has no %s", e.server.BinaryAssetsDirectory, e.minor, what)
	default:
		t.Skipf("Kubernetes 1.%d has no %s, which 1.%d has; make test runs this test", e.minor, what, minor)
	}
}
