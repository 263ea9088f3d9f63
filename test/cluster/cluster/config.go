// Package cluster runs a real three-node Kubernetes on one machine: etcd, API
// server, controller manager and scheduler in a network namespace of their own,
// and nodes with a kubelet, containerd and kube-proxy each in their own network,
// mount, PID, UTS, IPC and cgroup namespaces.
//
// Nothing of the machine itself is changed. All that a cluster makes has a place
// that is known from its name alone, so Down cleans up after an Up that was killed
// half-way just as well.
package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// Config says what to start. The zero value of every field has a meaning.
type Config struct {
	// Name keeps clusters apart; "limpet" when empty.
	Name string
	// Nodes is the number of nodes; 3 when 0.
	Nodes int
	// Cache holds what is built, see DefaultCache.
	Cache string
	// Images are archives that every node imports before its kubelet starts.
	Images []string
	// Self is the limpet-cluster binary, which the nodes' first processes run; this
	// program's own when empty.
	Self string
	// Progress is told what goes on; nothing when nil.
	Progress func(format string, args ...any)
}

const (
	domain      = "cluster.local"
	serviceCIDR = "10.96.0.0/16,fd00:10:96::/112"
	podCIDR     = "10.244.0.0/16,fd00:10:244::/56"
	controlIP4  = "172.30.0.1"
	controlIP6  = "fd00:30::1"
	apiPort     = "6443"
	clusterDNS  = "10.96.0.10"
)

// DefaultCache returns the directory that keeps what is built between clusters.
func DefaultCache() (string, error) {
	if dir := os.Getenv("LIMPET_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache directory (set LIMPET_CACHE): %w", err)
	}
	return filepath.Join(dir, "limpet"), nil
}

func (c *Config) complete() error {
	if c.Name == "" {
		c.Name = "limpet"
	}
	if len(c.Name) > 8 {
		return fmt.Errorf("cluster name %q is longer than 8 characters, and interface names are made of it", c.Name)
	}
	if c.Nodes == 0 {
		c.Nodes = 3
	}
	if c.Nodes < 0 || c.Nodes > 9 {
		return fmt.Errorf("%d nodes: from 1 to 9 are possible", c.Nodes)
	}
	if c.Progress == nil {
		c.Progress = func(string, ...any) {}
	}
	var err error
	if c.Self == "" {
		if c.Self, err = os.Executable(); err != nil {
			return fmt.Errorf("find own binary: %w", err)
		}
	}
	if c.Cache == "" {
		c.Cache, err = DefaultCache()
	}
	return err
}

// The places of a cluster, all known from its name.
func stateDir(name string) string { return "/run/limpet-cluster/" + name }
func dataDir(name string) string  { return "/var/lib/limpet-cluster/" + name }
func cgroupName(name string) string {
	return "limpet-cluster-" + name
}
func controlNetNS(name string) string { return "limpet-" + name + "-control" }
func nodeNetNS(name, node string) string {
	return "limpet-" + name + "-" + node
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }
func nodeIP4(i int) string  { return fmt.Sprintf("172.30.0.1%d", i) }
func nodeIP6(i int) string  { return fmt.Sprintf("fd00:30::1%d", i) }
