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
	"regexp"
)

// Config says what to start. The zero value of every field has a meaning.
type Config struct {
	// Name keeps clusters apart: up to 8 lower-case letters and digits; "limpet" when
	// empty.
	Name string
	// Nodes is the number of nodes; 3 when 0.
	Nodes int
	// CRIO are the nodes that run CRI-O in the place of containerd.
	CRIO []string
	// Cache holds what is built, see DefaultCache.
	Cache string
	// Images are archives that every node imports before its kubelet starts.
	Images []string
	// AuditPolicy is an audit policy for the API server, which then writes AuditLog; no log is
	// written when empty.
	AuditPolicy string
	// CNIDisk is the size of a file system of its own for each node's /var/lib/cni, such as 16m, so that tests can fill
	// it; part of the node's disk when empty.
	CNIDisk string
	// IPv4Only leaves IPv6 out, as is done anyway where the kernel has none.
	IPv4Only bool
	// DNS starts CoreDNS, see DNSServer.
	DNS bool
	// Self is the limpet-cluster binary, which the nodes' first processes run; this
	// program's own when empty.
	Self string
	// Progress is told what goes on; nothing when nil.
	Progress func(format string, args ...any)
}

const (
	domain       = "cluster.local"
	serviceCIDR4 = "10.96.0.0/16"
	serviceCIDR6 = "fd00:10:96::/112"
	podCIDR4     = "10.244.0.0/16"
	podCIDR6     = "fd00:10:244::/56"
	controlIP4   = "172.30.0.1"
	controlIP6   = "fd00:30::1"
	apiPort      = "6443"
	clusterDNS   = "10.96.0.10"
)

// names: what a cluster makes is named after it, and found by that name when it is
// removed, so no name may contain or begin another's.
var names = regexp.MustCompile(`^[a-z0-9]+$`)

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
	var err error
	if c.Name, err = properName(c.Name); err != nil {
		return err
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
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		c.IPv4Only = true
	}
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

func properName(name string) (string, error) {
	if name == "" {
		return "limpet", nil
	}
	if len(name) > 8 {
		return "", fmt.Errorf("cluster name %q is longer than 8 characters", name)
	}
	if !names.MatchString(name) {
		return "", fmt.Errorf("cluster name %q: only lower-case letters and digits are possible", name)
	}
	return name, nil
}

// families joins what there is for both IP families, IPv4 first.
func (c Config) families(ip4, ip6 string) string {
	if c.IPv4Only {
		return ip4
	}
	return ip4 + "," + ip6
}

// The places of a cluster, all known from its name.
func stateDir(name string) string { return "/run/limpet-cluster/" + name }
func dataDir(name string) string  { return "/var/lib/limpet-cluster/" + name }
func cgroupName(name string) string {
	return "limpet-cluster-" + name
}

func controlNetNS(name string) string    { return "limpet-" + name + "-control" }
func nodeNetNS(name, node string) string { return "limpet-" + name + "-" + node }

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }
func nodeIP4(i int) string  { return fmt.Sprintf("172.30.0.1%d", i) }
func nodeIP6(i int) string  { return fmt.Sprintf("fd00:30::1%d", i) }
