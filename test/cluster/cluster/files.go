package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/limpet-io/limpet/test/cluster/build"
	"github.com/limpet-io/limpet/test/cluster/nodeinit"
)

// containerdConfig: restrict_oom_score_adj lets containers start where the machine
// withholds CAP_SYS_RESOURCE.
const containerdConfig = `version = 4
root = '/var/lib/containerd'
state = '/run/containerd'

[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = 'limpet.test/pause:1'

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = 'runc'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['/opt/cni/bin']
    conf_dir = '/etc/cni/net.d'
    max_conf_num = 1

[plugins.'io.containerd.nri.v1.nri']
  disable = true
`

// kubeletConfig: eviction and image collection are off, because the disk they would
// watch is the machine's.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: /etc/kubernetes/pki/kubelet.crt
tlsPrivateKeyFile: /etc/kubernetes/pki/kubelet.key
clusterDNS: [` + clusterDNS + `]
clusterDomain: ` + domain + `
resolvConf: ""
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusReportFrequency: 10s
staticPodPath: /etc/kubernetes/manifests
maxPods: 110
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: /etc/kubernetes/kube-proxy.kubeconfig}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

// proxyGates opens the gate of the mode nftables where it is closed by default.
func proxyGates() string {
	if os.Getenv(build.KubernetesVar) == "1.30" {
		return "featureGates: {NFTablesProxyMode: true}\n"
	}
	return ""
}

// borrowed are files and directories of the machine's /etc that programs on a node
// look for.
var borrowed = []string{"passwd", "group", "nsswitch.conf", "ssl", "ca-certificates", "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "protocols", "services"}

// layDisk makes a node's disk: what a distribution's packages and a person who
// joins the node to a cluster would have put there.
func (c *Cluster) layDisk(i int, cniDir string) error {
	name := nodeName(i)
	disk := c.disk(name)
	for _, d := range []string{
		"root", "etc/cni/net.d", "etc/containerd", "etc/crio", "etc/containers", "etc/kubernetes/pki", "etc/kubernetes/manifests", "opt/cni/bin",
		"var/log", "var/tmp", "var/cache", "var/lib/kubelet", "var/lib/containerd", "var/lib/cni",
	} {
		if err := os.MkdirAll(filepath.Join(disk, d), 0o755); err != nil {
			return fmt.Errorf("make disk: %w", err)
		}
	}
	etc := filepath.Join(disk, "etc")
	for _, b := range borrowed {
		if err := copyTree(filepath.Join("/etc", b), filepath.Join(etc, b)); err != nil {
			return err
		}
	}
	if err := copyTree(cniDir, filepath.Join(disk, "opt/cni/bin")); err != nil {
		return err
	}
	files := map[string]string{
		"hostname": name + "\n", "resolv.conf": "", "machine-id": fmt.Sprintf("%032x\n", i),
		"hosts":                      "127.0.0.1 localhost\n::1 localhost\n" + nodeIP4(i) + " " + name + "\n",
		"containerd/config.toml":     containerdConfig,
		"crio/crio.conf":             crioConfig,
		"crio/runc":                  runcScript,
		"containers/policy.json":     crioPolicy,
		"containers/registries.conf": crioRegistries,
		"kubernetes/kubelet.yaml":    kubeletConfig + "containerRuntimeEndpoint: unix://" + nodeinit.Socket(c.runtime(name)) + "\n",
		"kubernetes/kube-proxy.yaml": proxyConfig + proxyGates() + "hostnameOverride: " + name + "\nclusterCIDR: " + c.config.families(podCIDR4, podCIDR6) + "\n",
	}
	for f, text := range files {
		if err := os.WriteFile(filepath.Join(etc, f), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write disk: %w", err)
		}
	}
	if err := os.Chmod(filepath.Join(etc, "crio/runc"), 0o755); err != nil {
		return fmt.Errorf("write disk: %w", err)
	}
	if err := os.Symlink("/run", filepath.Join(disk, "var/run")); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write disk: %w", err)
	}
	return c.keys.node(i, filepath.Join(etc, "kubernetes"))
}

// copyTree copies a file or directory that exists, links as links.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
		target := to + strings.TrimPrefix(path, from)
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o755)
		case e.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case e.Type().IsRegular():
			return copyFile(path, target)
		}
		return nil
	})
}

func copyFile(from, to string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy file: %w", err)
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return fmt.Errorf("copy file: %w", err)
	}
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return fmt.Errorf("copy file: %w", err)
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
