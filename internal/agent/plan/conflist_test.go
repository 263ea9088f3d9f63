package plan_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// TestChainedPluginsStay has other programs edit the network configuration of own mode, as service meshes do.
func TestChainedPluginsStay(t *testing.T) {
	in := plan.OwnNetworkInput{Node: "n1", Nodes: []corev1.Node{nodeWith("n1", []string{"10.1.1.0/24"})}, Options: plan.PluginOptions{MaxRetain: time.Hour}}
	plain := plan.OwnNetwork(in).Conflist
	var conf map[string]any
	if err := json.Unmarshal(plain, &conf); err != nil {
		t.Fatal(err)
	}
	edit := func(change func(plugins []any) []any) []byte {
		edited := map[string]any{"name": conf["name"], "cniVersion": conf["cniVersion"], "plugins": change(append([]any{}, conf["plugins"].([]any)...))}
		data, err := json.Marshal(edited)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	mesh := map[string]any{"type": "istio-cni", "kubernetes": map[string]any{"cni_bin_dir": "/opt/cni/bin"}, "limit": 0.5}
	whole := []any{decoded(t, []byte(istioEntry)), decoded(t, []byte(linkerdEntry))}
	both := edit(func(p []any) []any { return append(p, whole...) })
	appended := edit(func(p []any) []any { return append(p, mesh) })
	for name, tc := range map[string]struct {
		current []byte
		types   string
		as      []byte // what the file must hold, byte by byte; nil for anything
	}{
		"none yet":                        {current: nil, types: "ptp portmap", as: plain},
		"a plugin behind ours":            {current: appended, types: "ptp portmap istio-cni", as: appended},
		"as two meshes write it":          {current: both, types: "ptp portmap istio-cni linkerd-cni", as: both},
		"two meshes, ours were changed":   {current: []byte(strings.Replace(string(both), "10.1.1.0", "10.1.9.0", 1)), types: "ptp portmap istio-cni linkerd-cni"},
		"in front of ours":                {current: edit(func(p []any) []any { return append([]any{mesh}, p...) }), types: "ptp portmap istio-cni"},
		"ours were removed":               {current: edit(func([]any) []any { return []any{mesh} }), types: "ptp portmap istio-cni"},
		"ours were changed":               {current: []byte(strings.Replace(string(appended), "10.1.1.0", "10.1.9.0", 1)), types: "ptp portmap istio-cni"},
		"the plugin was removed":          {current: edit(func(p []any) []any { return p }), types: "ptp portmap", as: edit(func(p []any) []any { return p })},
		"another network":                 {current: []byte(hostLocalConf), types: "ptp portmap", as: plain},
		"half a file":                     {current: appended[:len(appended)/2], types: "ptp portmap", as: plain},
		"no object":                       {current: []byte(`[]`), types: "ptp portmap", as: plain},
		"plugins that are none":           {current: edit(func(p []any) []any { return append(p, "istio-cni", map[string]any{"type": 7}, nil) }), types: "ptp portmap", as: plain},
		"the configuration of one plugin": {current: []byte(`{"name": "limpet", "type": "ptp"}`), types: "ptp portmap", as: plain},
	} {
		t.Run(name, func(t *testing.T) {
			in.Current = tc.current
			d := plan.OwnNetwork(in)
			var got struct{ Plugins []struct{ Type string } }
			if err := json.Unmarshal(d.Conflist, &got); err != nil {
				t.Fatal(err)
			}
			var types []string
			for _, p := range got.Plugins {
				types = append(types, p.Type)
			}
			if diff := cmp.Diff(tc.types, strings.Join(types, " ")); diff != "" || !strings.Contains(string(d.Conflist), "10.1.1.0/24") {
				t.Errorf("plugins (-want +got):\n%s\n%s", diff, d.Conflist)
			}
			if tc.as != nil && string(tc.as) != string(d.Conflist) {
				t.Errorf("writes %s, want %s", d.Conflist, tc.as)
			}
			in.Current = d.Conflist
			if again := plan.OwnNetwork(in); string(again.Conflist) != string(d.Conflist) {
				t.Errorf("the next round writes %s after %s", again.Conflist, d.Conflist)
			}
		})
	}
}

// istioEntry and linkerdEntry are what the installers of these meshes append to the plugins of a network. That of Istio
// has the empty sections of a configuration of CNI.
const (
	istioEntry = `{"ambient_enabled": true, "cni_agent_run_dir": "/var/run/istio-cni", "dns": {}, "enablement_selectors": [], "exclude_namespaces": ["kube-system"],
		"ipam": {}, "name": "istio-cni", "native_nftables": false, "plugin_log_level": "info", "pod_namespace": "istio-system", "type": "istio-cni"}`
	linkerdEntry = `{"name": "linkerd-cni", "type": "linkerd-cni", "log_level": "info", "policy": {"type": "k8s", "k8s_auth_token": "__SERVICEACCOUNT_TOKEN__"},
		"kubernetes": {"kubeconfig": "/etc/cni/net.d/ZZZ-linkerd-cni-kubeconfig"}, "linkerd": {"incoming-proxy-port": 4143, "use-wait-flag": false}}`
)

const hostLocalConf = `{"name": "other", "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}]}`

// TestDelegatingConfigurations has configurations in front of ours that delegate to others.
func TestDelegatingConfigurations(t *testing.T) {
	copied := `{"type": "ptp", "ipam": {"type": "limpet-ipam"}}`
	for name, tc := range map[string]struct{ data, behind, foreign string }{
		"multus with a copy of ours":                    {data: `{"name": "multus-cni-network", "type": "multus-shim", "delegates": [{"name": "limpet", "plugins": [` + copied + `]}]}`},
		"multus that names a file":                      {data: `{"name": "m", "type": "multus", "clusterNetwork": "/etc/cni/net.d/10-limpet.conflist"}`},
		"multus in a list":                              {data: `{"name": "m", "plugins": [{"type": "multus", "delegates": [` + copied + `]}]}`},
		"multus with a copy of another":                 {data: `{"name": "m", "type": "multus", "delegates": [{"type": "flannel"}]}`, foreign: "00-multus.conf"},
		"multus in front of another":                    {data: `{"name": "m", "type": "multus", "clusterNetwork": "other"}`, behind: "05-other.conf", foreign: "05-other.conf"},
		"multus without ours, ours behind":              {data: `{"name": "m", "type": "multus"}`, behind: "20-other.conf"},
		"a copy of ours with a mesh, as Istio keeps it": {data: `{"name": "limpet", "plugins": [` + copied + `, ` + istioEntry + `]}`},
		"another network with the IPAM plugin":          {data: `{"name": "m", "plugins": [` + copied + `]}`, foreign: "00-multus.conf"},
		"no JSON":                                       {data: `{`, foreign: "00-multus.conf"},
	} {
		t.Run(name, func(t *testing.T) {
			in := plan.OwnNetworkInput{Node: "n1", Nodes: []corev1.Node{nodeWith("n1", []string{"10.1.1.0/24"})}, Configs: []plan.ConfigFile{{Name: "00-multus.conf", Data: []byte(tc.data)}}}
			if tc.behind != "" {
				in.Configs = append(in.Configs, files(tc.behind)...)
			}
			if d := plan.OwnNetwork(in); d.Foreign != tc.foreign || (d.Conflist != nil) != (tc.foreign == "") || (len(d.Routes) > 0) != (tc.foreign == "") {
				t.Errorf("foreign %q, %d routes, network configuration %s; want %q", d.Foreign, len(d.Routes), d.Conflist, tc.foreign)
			}
		})
	}
}
