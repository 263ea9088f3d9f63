package chart_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChartInstallsWhatKustomizeDoes compares both object by object, with default values and with each option.
func TestChartInstallsWhatKustomizeDoes(t *testing.T) {
	base := kustomized(t, "default")
	own, given, manager := kustomized(t, "own-network"), kustomized(t, "given-certificate"), kustomized(t, "cert-manager")
	without := func(dir string) map[string]string {
		rest := maps.Clone(base)
		for id := range kustomized(t, dir) {
			if _, there := rest[id]; !there {
				t.Errorf("deploy/%s has %s, deploy/default does not", dir, id)
			}
			delete(rest, id)
		}
		return rest
	}
	network := kustomized(t, "default", "network-policy")
	const policy = "networkpolicy_limpet-system_limpet-controller"
	network[policy] = strings.Replace(network[policy], "the-network-of-the-API-servers", "10.0.0.0/28", 1)
	all := kustomized(t, "default", "pods-from-kubelet", "mutating-policy", "break-glass", "alerts")
	cases := map[string]struct {
		values string
		want   map[string]string
	}{
		"default":         {"", base},
		"own network":     {"network: {mode: own}", own},
		"adopted network": {"network: {mode: adopt}", kustomized(t, "adopt-network")},
		"shared network":  {"network: {mode: shared}", kustomized(t, "shared-network")},
		"below flannel":   {"network: {mode: flannel}", kustomized(t, "flannel")},
		"settings of nodes": {
			"network: {mode: own, settings: true}", kustomized(t, "own-network", "node-network"),
		},
		"monitoring": {"monitoring: {enabled: true}", kustomized(t, "default", "monitoring")},
		"both of monitoring": {
			"monitoring: {enabled: true}\nalerts: {enabled: true}", kustomized(t, "default", "monitoring"),
		},
		"pods from kubelet":   {"pods: {source: kubelet}", kustomized(t, "default", "pods-from-kubelet")},
		"pods from runtime":   {"pods: {source: runtime}", kustomized(t, "default", "pods-from-runtime")},
		"given certificate":   {"certificate: {source: given}", given},
		"cert-manager":        {"certificate: {source: cert-manager}", manager},
		"quota of priorities": {"priorityQuota: {enabled: true}", kustomized(t, "default", "priority-quota")},
		"mutating policy":     {"mutatingPolicy: {enabled: true}", kustomized(t, "default", "mutating-policy")},
		"network policy":      {"networkPolicy: {enabled: true, apiServers: [10.0.0.0/28]}", network},
		"break glass":         {"breakGlass: {enabled: true}", kustomized(t, "default", "break-glass")},
		"kept nodes":          {"keepNodes: {enabled: true}", kustomized(t, "default", "keep-nodes")},
		"alerts":              {"alerts: {enabled: true}", kustomized(t, "default", "alerts")},
		"no flow control":     {"flowControl: {enabled: false}", without("flow-control")},
		"no CRDs":             {"crds: {install: false}", without("crds")},

		"all components":                 {"pods: {source: kubelet}\nmutatingPolicy: {enabled: true}\nbreakGlass: {enabled: true}\nalerts: {enabled: true}", all},
		"own network, given certificate": {"network: {mode: own}\ncertificate: {source: given}", both(base, own, given)},
		"own network, cert-manager":      {"network: {mode: own}\ncertificate: {source: cert-manager}", both(base, own, manager)},
		"own network, pods from runtime": {
			"network: {mode: own}\npods: {source: runtime}\nmutatingPolicy: {enabled: true}",
			kustomized(t, "own-network", "pods-from-runtime", "mutating-policy"),
		},
		"cert-manager, all components": {
			"certificate: {source: cert-manager}\nmutatingPolicy: {enabled: true}\nbreakGlass: {enabled: true}",
			kustomized(t, "cert-manager", "mutating-policy", "break-glass"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { same(t, tc.want, template(t, tc.values)) })
	}
}

// same compares objects by their fields. The policy that keeps CRDs and the labels of a release are what Helm alone needs.
func same(t *testing.T, want, got map[string]string) {
	t.Helper()
	delete(got, helmTest)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("objects (-kustomize +helm):\n%s", diff)
	}
	for id, text := range want {
		w, g := parse(t, text), parse(t, got[id])
		unlabelled(w["metadata"])
		unlabelled(g["metadata"])
		if spec, _ := g["spec"].(map[string]any); spec["template"] != nil {
			unlabelled(spec["template"].(map[string]any)["metadata"])
		}
		if w["kind"] == "CustomResourceDefinition" {
			annotations, _ := g["metadata"].(map[string]any)["annotations"].(map[string]any)
			if annotations["helm.sh/resource-policy"] != "keep" {
				t.Errorf("%s: Helm would delete it with the release", id)
			}
			delete(annotations, "helm.sh/resource-policy")
		}
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("%s (-kustomize +helm):\n%s", id, diff)
		}
	}
}

// unlabelled takes the labels of the release away.
func unlabelled(metadata any) {
	of, _ := metadata.(map[string]any)
	labels, _ := of["labels"].(map[string]any)
	for _, key := range []string{"instance", "managed-by", "part-of", "version"} {
		delete(labels, "app.kubernetes.io/"+key)
	}
	if labels != nil && len(labels) == 0 {
		delete(of, "labels")
	}
}

// both returns the base with the changes of two variants, which change different objects.
func both(base, a, b map[string]string) map[string]string {
	merged := maps.Clone(base)
	for _, variant := range []map[string]string{a, b} {
		for id := range base {
			if _, there := variant[id]; !there {
				delete(merged, id)
			}
		}
		for id, text := range variant {
			if text != base[id] {
				merged[id] = text
			}
		}
	}
	return merged
}
