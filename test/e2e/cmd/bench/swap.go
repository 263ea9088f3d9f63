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

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

const (
	confDir = "etc/cni/net.d"
	// plainDir is where host-local keeps its files, so that it finds nothing of ours.
	plainDir = "/var/lib/cni/bench"
)

// swap gives every node the network configuration that it has, with host-local in the
// place of limpet-ipam, under a name that the runtime prefers.
func swap(ctx context.Context, b *bed.Bed) error {
	for _, node := range b.Cluster.Nodes() {
		disk := b.Cluster.Disk(node)
		ours, err := os.ReadFile(filepath.Join(disk, confDir, "10-limpet.conflist"))
		if err != nil {
			return fmt.Errorf("read network configuration: %w", err)
		}
		theirs, err := withHostLocal(ours)
		if err != nil {
			return fmt.Errorf("network configuration of %s: %w", node, err)
		}
		temporary := filepath.Join(disk, confDir, "plain.tmp") // containerd does not see what comes from outside
		if err := os.WriteFile(temporary, theirs, 0o600); err != nil {
			return fmt.Errorf("write network configuration: %w", err)
		}
		if err := os.Rename(temporary, filepath.Join(disk, confDir, "00-plain.conflist")); err != nil {
			return fmt.Errorf("write network configuration: %w", err)
		}
	}
	return ctx.Err()
}

func swapBack(_ context.Context, b *bed.Bed) error {
	var all error
	for _, node := range b.Cluster.Nodes() {
		err := os.Remove(filepath.Join(b.Cluster.Disk(node), confDir, "00-plain.conflist"))
		if !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// withHostLocal replaces the IPAM plugin. Its addresses begin well behind those that
// Limpet has given out in the same ranges.
func withHostLocal(conflist []byte) ([]byte, error) {
	var conf map[string]any
	if err := json.Unmarshal(conflist, &conf); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	ipam := conf["plugins"].([]any)[0].(map[string]any)["ipam"].(map[string]any)
	ipam["type"], ipam["dataDir"] = "host-local", plainDir
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

// fromHostLocal tells whether a pod has its addresses from host-local.
func fromHostLocal(b *bed.Bed, pod *corev1.Pod) bool {
	_, err := os.Stat(filepath.Join(b.Cluster.Disk(pod.Spec.NodeName), plainDir, "plain", pod.Status.PodIP))
	return err == nil
}
