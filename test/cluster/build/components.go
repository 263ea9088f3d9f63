package build

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// component is a build module and how it is compiled.
type component struct {
	name    string
	version string
	// module is the name of the files of its build module, where it is not that of the component.
	module  string
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
	// c is one of the programs that is written in C, if there is one.
	c *cProgram
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
	crioVersion          = "v1.34.0" // the newest of which all modules are on the proxy
)

// KubernetesVar is the environment variable that names another minor version of Kubernetes, such as 1.30.
const KubernetesVar = "LIMPET_KUBERNETES"

// others are the other versions of Kubernetes that can be built, by their minor version: the oldest that Limpet supports, some
// between, and the newest. Of each minor this is the last patch of which all modules are on the proxy.
var others = map[string]string{"1.30": "v1.30.14", "1.32": "v1.32.2", "1.34": "v1.34.4", "1.37": "v1.37.2"}

// components lists the slowest first, so that its progress is what one sees.
var components = []component{
	kubernetes(kubernetesVersion, ""),
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
	{
		name: "crio", version: crioVersion, ldflags: "-s -w", tags: "containers_image_openpgp containers_image_ostree_stub exclude_graphdriver_btrfs",
		programs: []string{"crio", "pinns"}, usual: 90 * time.Second, onDemand: true,
		c: &cProgram{name: "pinns", module: "github.com/cri-o/cri-o", dir: "pinns/src"},
	},
}

// kubernetes is one version of Kubernetes.
func kubernetes(version, module string) component {
	return component{
		name: "kubernetes", version: version, module: module, ldflags: "-s -w" + kubernetesStamp(version), usual: 400 * time.Second,
		programs: []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet"},
	}
}

// file returns the name of the files of a component's build module.
func (c component) file() string { return cmp.Or(c.module, c.name) }

// needed returns the components that every cluster needs, and those that are named as well, with the named minor version of
// Kubernetes; the usual one without a name.
func needed(minor string, more ...string) ([]component, error) {
	all := slices.DeleteFunc(slices.Clone(components), func(c component) bool { return c.onDemand && !slices.Contains(more, c.name) })
	if minor == "" || strings.HasPrefix(kubernetesVersion, "v"+minor+".") {
		return all, nil
	}
	version, known := others[minor]
	if !known {
		return nil, fmt.Errorf("%s is %q; %s, or nothing for %s, can be built", KubernetesVar, minor, strings.Join(slices.Sorted(maps.Keys(others)), ", "), kubernetesVersion)
	}
	all[slices.IndexFunc(all, func(c component) bool { return c.name == "kubernetes" })] = kubernetes(version, moduleOf(minor))
	return all, nil
}

// moduleOf returns the name of the build module of another version of Kubernetes.
func moduleOf(minor string) string { return "kubernetes" + strings.ReplaceAll(minor, ".", "") }

// kubernetesStamp sets the version that the API server and the nodes report; the
// module itself carries none.
func kubernetesStamp(version string) string {
	minor := strings.Split(version, ".")[1]
	var flags strings.Builder
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, kv := range []string{
			"gitVersion=" + version, "gitMajor=1", "gitMinor=" + minor, "gitTreeState=clean",
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
	for _, minor := range slices.Sorted(maps.Keys(others)) {
		all = append(all, fmt.Sprintf("kubernetes %s with %s=%s", others[minor], KubernetesVar, minor))
	}
	return all
}
