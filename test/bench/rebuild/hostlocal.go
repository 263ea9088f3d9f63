package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

const (
	confDir = "etc/cni/net.d"
	// hostLocalDir is the directory of host-local's files; it holds nothing of Limpet's.
	hostLocalDir = "/var/lib/cni/bench"
	// hostLocalConf is a name that the runtime reads before Limpet's configuration.
	hostLocalConf = "00-plain.conflist"
)

// useHostLocal installs a second network configuration on every node: the node's own, with
// host-local in place of limpet-ipam.
func useHostLocal(ctx context.Context, b *bed.Bed) error {
	for _, node := range b.Cluster.Nodes() {
		disk := b.Cluster.Disk(node)
		ours, err := os.ReadFile(filepath.Join(disk, confDir, "10-limpet.conflist"))
		if err != nil {
			return fmt.Errorf("read network configuration: %w", err)
		}
		conflist, err := replaceIPAM(ours)
		if err != nil {
			return fmt.Errorf("network configuration of %s: %w", node, err)
		}
		temporary := filepath.Join(disk, confDir, "plain.tmp") // containerd notices only renames within the directory
		if err := os.WriteFile(temporary, conflist, 0o600); err != nil {
			return fmt.Errorf("write network configuration: %w", err)
		}
		if err := os.Rename(temporary, filepath.Join(disk, confDir, hostLocalConf)); err != nil {
			return fmt.Errorf("write network configuration: %w", err)
		}
	}
	return ctx.Err()
}

// useLimpet removes the configuration that useHostLocal has installed.
func useLimpet(_ context.Context, b *bed.Bed) error {
	var all error
	for _, node := range b.Cluster.Nodes() {
		err := os.Remove(filepath.Join(b.Cluster.Disk(node), confDir, hostLocalConf))
		if !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// replaceIPAM replaces limpet-ipam by host-local. The range begins behind all addresses that
// limpet-ipam has given out.
func replaceIPAM(conflist []byte) ([]byte, error) {
	var conf map[string]any
	if err := json.Unmarshal(conflist, &conf); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	ipam := conf["plugins"].([]any)[0].(map[string]any)["ipam"].(map[string]any)
	ipam["type"], ipam["dataDir"] = "host-local", hostLocalDir
	for _, set := range ipam["ranges"].([]any) {
		r := set.([]any)[0].(map[string]any)
		subnet, err := netip.ParsePrefix(r["subnet"].(string))
		if err != nil {
			return nil, fmt.Errorf("subnet: %w", err)
		}
		start := subnet.Addr().AsSlice()
		start[len(start)-1] = 100
		first, _ := netip.AddrFromSlice(start)
		r["rangeStart"] = first.String()
	}
	conf["name"] = "plain"
	return json.MarshalIndent(conf, "", "  ")
}

// fromHostLocal reports whether a pod has its addresses from host-local.
func fromHostLocal(b *bed.Bed, pod life) bool {
	_, err := os.Stat(filepath.Join(b.Cluster.Disk(pod.node), hostLocalDir, "plain", pod.ip))
	return err == nil
}
