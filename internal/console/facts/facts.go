// Package facts reads for kubectl-limpet what the API server knows: once, in pages, and with the
// rights of the user. What the user may not read is listed as unread, and the rest is shown.
package facts

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Names of what deploy/ installs.
const (
	Namespace  = "limpet-system"
	Controller = "limpet-controller"
	Agent      = "limpet-agent"
)

// LabelName is the label that tells which program a pod of Limpet runs.
const LabelName = "app.kubernetes.io/name"

// Facts is what one command reads. Lists that the command does not need stay empty.
type Facts struct {
	// Now is the time of the read.
	Now time.Time

	Nodes             []corev1.Node
	Pods              []corev1.Pod
	Events            []corev1.Event
	Pools             []limpetv1alpha1.NodeIPPool
	Reservations      []limpetv1alpha1.IPReservation
	States            []appsv1beta1.PersistentPodState
	Spreads           []appsv1beta1.WorkloadSpread
	Budgets           []policyv1beta1.PodUnavailableBudget
	DisruptionBudgets []policyv1.PodDisruptionBudget
	ReplicaSets       []appsv1.ReplicaSet
	StatefulSets      []appsv1.StatefulSet
	Books             []limpetv1alpha1.DisruptionBook

	// Controllers, Agents, Mutating and Validating are what is installed; nil for nothing.
	Controllers *appsv1.Deployment
	Agents      *appsv1.DaemonSet
	Mutating    *admissionv1.MutatingWebhookConfiguration
	Validating  *admissionv1.ValidatingWebhookConfiguration

	// Unread names what could not be read, and why.
	Unread []Unread
}

// Unread is one kind of object that could not be read.
type Unread struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// Node returns the node of a name; nil for none.
func (f *Facts) Node(name string) *corev1.Node {
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			return &f.Nodes[i]
		}
	}
	return nil
}

// Pod returns the pod of a name; nil for none.
func (f *Facts) Pod(namespace, name string) *corev1.Pod {
	for i := range f.Pods {
		if f.Pods[i].Name == name && f.Pods[i].Namespace == namespace {
			return &f.Pods[i]
		}
	}
	return nil
}
