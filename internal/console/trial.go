package console

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TrialStep is a step of a trial with the seconds that it took.
type TrialStep struct {
	Step    string  `json:"step"`
	Seconds float64 `json:"seconds"`
}

// TrialReport says whether a pod came back to its node and its addresses.
type TrialReport struct {
	Namespace string      `json:"namespace"`
	Image     string      `json:"image"`
	Steps     []TrialStep `json:"steps"`
	// Seconds are what all of it took.
	Seconds     float64           `json:"seconds"`
	From        appsv1beta1.Place `json:"from"`
	To          appsv1beta1.Place `json:"to"`
	NodeKept    bool              `json:"nodeKept"`
	AddressKept bool              `json:"addressKept"`
	// Because says why something was not kept, and Remedy which command to run next.
	Because []string `json:"because,omitempty"`
	Remedy  string   `json:"remedy,omitempty"`
}

// Kept reports whether the installation does what it promises.
func (r TrialReport) Kept() bool { return r.NodeKept && r.AddressKept }

// trialPod is the name of the pod of a trial, and trialSet that of its StatefulSet.
const trialPod, trialSet = "web-0", "web"

// judge compares the places, and explains from facts what was not kept.
func (r *TrialReport) judge(f *facts.Facts) {
	r.NodeKept, r.AddressKept = r.From.NodeName == r.To.NodeName, r.From.IPs == r.To.IPs
	if r.Kept() {
		return
	}
	if e, err := Address(f, r.Namespace, trialPod); err == nil {
		r.Because, r.Remedy = append([]string{e.Answer}, e.Because...), e.Remedy
	}
	served := slices.ContainsFunc(f.Reservations, func(k limpetv1alpha1.IPReservation) bool { return k.Namespace == r.Namespace })
	if !served && read(f, facts.Kept) {
		r.Because = []string{"no agent shows an address of the pod: the network of node " + r.From.NodeName + " uses another IPAM plugin"}
		r.Remedy = "kubectl get events --field-selector reason=ForeignNetwork; docs/operate/install.md"
	}
	r.Remedy = cmp.Or(r.Remedy, "kubectl limpet status; then kubectl limpet test --keep and kubectl limpet explain -n NAMESPACE "+trialPod)
}

// pauseImage returns the pause image that most nodes have.
func pauseImage(nodes []corev1.Node) string {
	seen := map[string]int{}
	best := ""
	for i := range nodes {
		for _, image := range nodes[i].Status.Images {
			for _, name := range image.Names {
				if strings.Contains(name, "/pause:") {
					seen[name]++
					if best == "" || seen[name] > seen[best] {
						best = name
					}
				}
			}
		}
	}
	return cmp.Or(best, "registry.k8s.io/pause:3.10")
}

// trialNamespace is a namespace in which pods may do nothing.
func trialNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		facts.LabelName: "limpet-test", "pod-security.kubernetes.io/enforce": "restricted",
	}}}
}

// trialWorkload is a StatefulSet of one pod, which asks for its node and its addresses with one annotation.
func trialWorkload(namespace, image string) *appsv1.StatefulSet {
	labels := map[string]string{facts.LabelName: "limpet-test"}
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: trialSet, Labels: labels},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), ServiceName: trialSet, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{reservation.KeepAnnotation: "5m"}},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64(2)), AutomountServiceAccountToken: new(false),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: new(true), RunAsUser: new(int64(65535)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{
						Name: "pause", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
						Resources: corev1.ResourceRequirements{Requests: small, Limits: small},
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
					}},
				},
			},
		},
	}
}
