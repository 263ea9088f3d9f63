package chart

// base is the kustomization whose objects the chart installs with default values.
const base = "default"

// part is a directory of the base that a value switches off.
type part struct {
	dir, condition string
}

var parts = []part{
	{"crds", ".Values.crds.install"},
	{"flow-control", ".Values.flowControl.enabled"},
	// A release that lives in the namespace of Limpet needs it before the chart is installed, and must not
	// delete it with itself: the record of the release is there.
	{"namespace", `ne .Release.Namespace "limpet-system"`},
}

// variant is a directory that changes the base, and the condition on the values that selects it. A directory
// that is a component, or only a list of further objects, is applied to the base.
type variant struct {
	dir, condition string
	added          bool
}

var variants = []variant{
	{"own-network", `eq .Values.network.mode "own"`, false},
	{"adopt-network", `eq .Values.network.mode "adopt"`, false},
	{"shared-network", `eq .Values.network.mode "shared"`, false},
	{"flannel", `eq .Values.network.mode "flannel"`, false},
	{"node-network", ".Values.network.settings", true},
	{"pods-from-kubelet", `eq .Values.pods.source "kubelet"`, true},
	{"pods-from-runtime", `eq .Values.pods.source "runtime"`, true},
	{"given-certificate", `eq .Values.certificate.source "given"`, false},
	{"cert-manager", `eq .Values.certificate.source "cert-manager"`, false},
	{"priority-quota", ".Values.priorityQuota.enabled", true},
	{"mutating-policy", ".Values.mutatingPolicy.enabled", true},
	{"network-policy", ".Values.networkPolicy.enabled", true},
	{"keep-nodes", ".Values.keepNodes.enabled", true},
	{"break-glass", ".Values.breakGlass.enabled", true},
	{"alerts", ".Values.alerts.enabled", true},
	{"monitoring", ".Values.monitoring.enabled", true},
}

// beside is directories of deploy that the chart does not have: no part of an installation, or for users of kustomize alone.
var beside = []string{"chart", "examples", "kind", "uninstall"}
