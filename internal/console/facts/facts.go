// Package facts reads for kubectl-limpet what the API server knows: once, in pages, and with the
// rights of the user. What the user may not read is listed as unread, and the rest is shown.
package facts

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/workload"
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

// ContainerOf returns the container of Limpet among those that others inject; nil for a pod that is not of Limpet.
func ContainerOf(labels map[string]string, spec corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		if "limpet-"+spec.Containers[i].Name == labels[LabelName] {
			return &spec.Containers[i]
		}
	}
	return nil
}

// Facts is what one command reads. Lists that the command does not need stay empty.
type Facts struct {
	// Now is the time of the read.
	Now time.Time

	Nodes             []corev1.Node
	Pods              []corev1.Pod
	Own               []corev1.Pod // of the namespace of Limpet
	Events            []corev1.Event
	Pools             []limpetv1alpha1.NodeIPPool
	Leader            *coordinationv1.Lease // of the controller
	Reservations      []limpetv1alpha1.IPReservation
	States            []appsv1beta1.PersistentPodState
	Spreads           []appsv1beta1.WorkloadSpread
	Budgets           []policyv1beta1.PodUnavailableBudget
	Divided           []limpetv1alpha1.DistributedPodDisruptionBudget
	DisruptionBudgets []policyv1.PodDisruptionBudget
	ReplicaSets       []appsv1.ReplicaSet
	StatefulSets      []appsv1.StatefulSet
	Workloads         []Workload
	Loans             []limpetv1alpha1.BorrowedAddress
	Books             []limpetv1alpha1.DisruptionBook
	Namespaces        []corev1.Namespace // with the annotation limpet.dev/keep

	// Controllers, Agents, Mutating and Validating are what is installed; nil for nothing.
	Controllers *appsv1.Deployment
	Agents      *appsv1.DaemonSet
	Mutating    *admissionv1.MutatingWebhookConfiguration
	Validating  *admissionv1.ValidatingWebhookConfiguration

	// Unread names what could not be read, and why.
	Unread []Unread

	index podIndex
	sets  map[types.UID]*metav1.ObjectMeta // the ReplicaSets
}

// podIndex finds pods by name: commands ask once for each of ten thousand reservations.
type podIndex struct {
	of []corev1.Pod // the pods that it knows
	at map[types.NamespacedName]int
}

// covers reports whether the index was made of these pods.
func (x podIndex) covers(pods []corev1.Pod) bool {
	return len(x.of) == len(pods) && (len(pods) == 0 || &x.of[0] == &pods[0])
}

// Unread is one kind of object that could not be read.
type Unread struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
	// NotServed tells that the cluster does not have the kind.
	NotServed bool `json:"notServed,omitempty"`
}

// Unknown says that parts were needed and could not be read; empty if all were. What was not read is not taken for
// what is not there.
func (f *Facts) Unknown(parts ...Part) string {
	for _, p := range parts {
		for _, u := range f.Unread {
			if u.Kind == p.Kind {
				return "unknown: " + u.Kind + ": " + u.Reason
			}
		}
	}
	return ""
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

// Pod returns the pod of a name; nil for none. Not for several goroutines at once.
func (f *Facts) Pod(namespace, name string) *corev1.Pod {
	if !f.index.covers(f.Pods) {
		f.index = podIndex{of: f.Pods, at: make(map[types.NamespacedName]int, len(f.Pods))}
		for i, p := range f.Pods {
			f.index.at[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = i
		}
	}
	if i, found := f.index.at[types.NamespacedName{Namespace: namespace, Name: name}]; found {
		return &f.Pods[i]
	}
	return nil
}

// Chain returns the controllers of a pod: its ReplicaSet, then the Deployment. Not for several goroutines at once.
func (f *Facts) Chain(pod *corev1.Pod) []workload.Owner {
	if f.sets == nil {
		f.sets = make(map[types.UID]*metav1.ObjectMeta, len(f.ReplicaSets))
		for i := range f.ReplicaSets {
			f.sets[f.ReplicaSets[i].UID] = &f.ReplicaSets[i].ObjectMeta
		}
	}
	owners, _ := workload.Chain(pod, func(o workload.Owner) (metav1.Object, error) {
		if set := f.sets[o.UID]; set != nil {
			return set, nil
		}
		return nil, nil //nolint:nilnil // an owner that is not known ends the chain
	})
	return owners
}
