package build

import (
	"slices"
	"strings"
	"time"
)

// component is a build module and how it is compiled.
type component struct {
	name    string
	version string
	ldflags string
	tags    string
	// rename gives binaries the names that they are known by.
	rename map[string]string
	// programs are all the binaries, under their final names.
	programs []string
	// usual is how long a first build takes, with its downloads, on two cores.
	usual time.Duration
	// main is the package main of the module itself, if it is one of the programs.
	main *rootMain
	// onDemand is set where only some tests and benchmarks need the component: a cluster starts without it.
	onDemand bool
}

const (
	kubernetesVersion = "v1.36.3"
	etcdVersion       = "v3.7.3"
	containerdVersion = "v2.4.2"
	cniVersion        = "v1.9.1"
	coreDNSVersion    = "v1.14.2" // as kubeadm deploys it
	flannelVersion    = "v0.28.10"
	// flannelPluginVersion is the last one of the CNI plugins with the plugin of flannel. The module that
	// has it today is on no proxy.
	flannelPluginVersion = "v0.9.1"
	multusVersion        = "v4.2.3"
)

// components lists the slowest first, so that its progress is what one sees.
var components = []component{
	{
		name: "kubernetes", version: kubernetesVersion, ldflags: "-s -w" + kubernetesStamp(), usual: 400 * time.Second,
		programs: []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet"},
	},
	{
		name: "containerd", version: containerdVersion, tags: "no_btrfs no_zfs no_devmapper",
		ldflags: "-s -w -X github.com/containerd/containerd/v2/version.Version=" + containerdVersion +
			" -X github.com/containerd/containerd/v2/version.Package=github.com/containerd/containerd/v2",
		programs: []string{"containerd", "containerd-shim-runc-v2", "ctr"}, usual: 95 * time.Second,
	},
	{
		name: "flannel", version: flannelVersion, ldflags: "-s -w -X github.com/flannel-io/flannel/pkg/version.Version=" + flannelVersion,
		rename: map[string]string{"install_conf": "install-conf"}, programs: []string{"flanneld", "install-conf"}, usual: 75 * time.Second,
		main: &rootMain{module: "github.com/flannel-io/flannel", without: []string{
			"github.com/flannel-io/flannel/pkg/backend/tencentvpc", // it needs a module that is on no proxy
			"github.com/flannel-io/flannel/pkg/backend/udp",        // it needs a C compiler
		}},
		onDemand: true,
	},
	{
		name: "coredns", version: coreDNSVersion, ldflags: "-s -w", programs: []string{"coredns"}, usual: 75 * time.Second,
		main: &rootMain{text: coreDNSMain}, onDemand: true,
	},
	{
		name: "etcd", version: etcdVersion, ldflags: "-s -w", rename: map[string]string{"server": "etcd"},
		programs: []string{"etcd"}, usual: 30 * time.Second,
	},
	{
		name: "cni", version: cniVersion,
		ldflags:  "-s -w -X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=" + cniVersion,
		programs: []string{"bridge", "host-local", "ipvlan", "loopback", "macvlan", "portmap", "ptp"}, usual: 10 * time.Second,
	},
	{
		name: "flannelplugin", version: flannelPluginVersion,
		ldflags:  "-s -w -X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=" + flannelPluginVersion,
		programs: []string{"flannel"}, usual: 5 * time.Second, onDemand: true,
	},
	{
		name: "multus", version: multusVersion, ldflags: "-s -w -X gopkg.in/k8snetworkplumbingwg/multus-cni.v4/pkg/multus.version=" + multusVersion,
		rename: map[string]string{"thin_entrypoint": "thin-entrypoint"}, programs: []string{"multus", "thin-entrypoint"}, usual: 40 * time.Second, onDemand: true,
	},
}

// needed returns the components that every cluster needs, and those that are named as well.
func needed(more ...string) []component {
	return slices.DeleteFunc(slices.Clone(components), func(c component) bool { return c.onDemand && !slices.Contains(more, c.name) })
}

// kubernetesStamp sets the version that the API server and the nodes report; the
// module itself carries none.
func kubernetesStamp() string {
	minor := strings.Split(kubernetesVersion, ".")[1]
	var flags strings.Builder
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, kv := range []string{
			"gitVersion=" + kubernetesVersion, "gitMajor=1", "gitMinor=" + minor, "gitTreeState=clean",
			"gitCommit=0000000000000000000000000000000000000000", "buildDate=2026-01-01T00:00:00Z",
		} {
			flags.WriteString(" -X " + pkg + "." + kv)
		}
	}
	return flags.String()
}

// ComponentVersions returns the name and the version of each component, in the order of components.
func ComponentVersions() []string {
	var all []string
	for _, c := range components {
		all = append(all, c.name+" "+c.version)
	}
	return all
}
