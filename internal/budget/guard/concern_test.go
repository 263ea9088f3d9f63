package guard_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/budget/guard"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// pods are pods in every state that the match conditions look at.
func pods(ns string) map[string]*corev1.Pod {
	pod := func(name string, edit func(p *corev1.Pod)) *corev1.Pod {
		p := testenv.APod(name).In(ns).On("n1").Ready().Pod
		p.Labels = map[string]string{"app": "web"}
		edit(p)
		return p
	}
	return map[string]*corev1.Pod{
		"Ready":                 pod("ready", func(*corev1.Pod) {}),
		"without labels":        pod("bare", func(p *corev1.Pod) { p.Labels = nil }),
		"Pending":               pod("pending", func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }),
		"without a phase":       pod("new", func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }),
		"Succeeded":             pod("succeeded", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		"Failed":                pod("failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		"terminating":           pod("terminating", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} }),
		"a mirror":              pod("mirror", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		"that asks":             pod("asks", func(p *corev1.Pod) { p.Annotations = map[string]string{policyv1beta1.AnnotationDrainFirst: "1s"} }),
		"with handlers":         pod("hooked", func(p *corev1.Pod) { p.Annotations = map[string]string{policyv1beta1.AnnotationLifecycle: "x"} }),
		"with a false relation": pod("related", func(p *corev1.Pod) { p.Annotations = map[string]string{"kruise.io/related-pub": "other"} }),
	}
}

// changes are updates of a pod, which a pod in any state permits.
var changes = map[string]func(*corev1.Pod){
	"nothing":       func(*corev1.Pod) {},
	"an annotation": func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, "a", "b") },
	"an exemption": func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, policyv1beta1.AnnotationNoProtect, "true")
	},
	"a finalizer":    func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, "example.com/more") },
	"a label":        func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, "more", "b") },
	"no labels":      func(p *corev1.Pod) { p.Labels = nil },
	"an empty label": func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, "more", "") },
	"an image":       func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.com/other" },
	"a toleration": func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "a", Operator: "Exists"})
	},
	"an owner": func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "b"}}
	},
	"label and image": func(p *corev1.Pod) { p.Labels, p.Spec.Containers[0].Image = nil, "example.com/other" },
}

// writers write the status of pods, with their groups.
var writers = map[string][]string{
	"system:node:n1": {"system:nodes"},
	"system:serviceaccount:kube-system:node-controller":   nil,
	"system:kube-controller-manager":                      nil,
	"system:serviceaccount:kruise-system:kruise-manager":  nil,
	"system:serviceaccount:kruise-system:node-controller": {"system:serviceaccounts"},
}

// statuses are writes of the status of a pod.
var statuses = map[string]func(*corev1.Pod){
	"nothing": func(*corev1.Pod) {},
	"a label": func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, "more", "b") },
	"another": func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "example.com/a", Status: corev1.ConditionFalse})
	},
	"Ready":     func(p *corev1.Pod) { setReady(p, corev1.ConditionTrue) },
	"not Ready": func(p *corev1.Pod) { setReady(p, corev1.ConditionFalse) },
	"a container": func(p *corev1.Pod) {
		setReady(p, corev1.ConditionFalse)
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 1}}
	},
	"unknown": func(p *corev1.Pod) { setReady(p, corev1.ConditionUnknown) },
	"no word": func(p *corev1.Pod) { p.Status.Conditions = nil },
}

func setReady(pod *corev1.Pod, status corev1.ConditionStatus) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

// The match conditions of deploy/controller/webhooks.yaml send those requests that concern the
// guards, and no others: in namespaces with either label, and in none without.
func TestMatchConditionsSayWhatConcernsSays(t *testing.T) {
	var called atomic.Int32
	install(t, admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		called.Add(1)
		return (&guard.Handler{Judge: new(watchman).Judge, Live: env.Client}).Handle(ctx, req)
	}))
	for _, value := range []string{policyv1beta1.LabelBudgetsOpen, policyv1beta1.LabelBudgetsClosed, policyv1beta1.LabelBudgetsAsked, ""} {
		t.Run("namespace "+value, func(t *testing.T) {
			ns := env.Namespace(t, policyv1beta1.LabelBudgets, value)
			seen := map[bool]int{}
			check := func(what string, r disruption.Request, err error) {
				t.Helper()
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				want := value != "" && guard.Concerns(r)
				if value == policyv1beta1.LabelBudgetsAsked {
					asks := slices.ContainsFunc([]string{policyv1beta1.AnnotationDrainFirst, policyv1beta1.AnnotationLifecycle}, func(a string) bool {
						_, is := r.Pod.Annotations[a]
						return is
					})
					want = want && asks && (r.Verb == budget.VerbDelete || !equality.Semantic.DeepEqual(r.Pod.Spec, r.Changed.Spec))
				}
				seen[want]++
				if got := called.Swap(0) > 0; got != want {
					t.Errorf("%s: the guard is called: %t, want %t", what, got, want)
				}
			}
			dry := client.NewDryRunClient(env.Client)
			for name, pod := range pods(ns) {
				create(t, pod)
				if name == "terminating" {
					if err := env.Client.Delete(t.Context(), pod.DeepCopy()); err != nil {
						t.Fatal(err)
					}
					env.Read(t, client.ObjectKeyFromObject(pod), pod)
				}
				called.Store(0)
				check("delete pod "+name, disruption.Request{Verb: budget.VerbDelete, Pod: pod}, dry.Delete(t.Context(), pod.DeepCopy()))
				for change, edit := range changes {
					if name == "terminating" && change == "a finalizer" {
						continue // the API server refuses it
					}
					after := pod.DeepCopy()
					edit(after)
					r := disruption.Request{Verb: budget.VerbUpdate, Pod: pod, Changed: after.DeepCopy()}
					check(fmt.Sprintf("update %s of pod %s", change, name), r, dry.Update(t.Context(), after))
				}
				for user, groups := range writers {
					for change, edit := range statuses {
						after := pod.DeepCopy()
						edit(after)
						r := disruption.Request{Verb: budget.VerbUpdate, Pod: pod, Changed: after.DeepCopy(), User: user, Info: authenticationv1.UserInfo{Groups: groups}}
						err := client.NewDryRunClient(as(t, user, groups...)).Status().Update(t.Context(), after)
						check(fmt.Sprintf("%s writes status %s of pod %s", user, change, name), r, err)
					}
				}
			}
			if value != "" && (seen[true] == 0 || seen[false] == 0) {
				t.Errorf("requests that concern the guards, and others: %v; this tests little", seen)
			}
		})
	}
}
