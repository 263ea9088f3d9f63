package guard_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/budget/guard"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// forger is a guard that a stranger asks, beside the one that the API server asks, and a budget that lets one of
// three pods go.
func forger(t *testing.T) (*guard.Handler, *policyv1beta1.PodUnavailableBudget, []*corev1.Pod) {
	t.Helper()
	serve(t)
	handler, cached := replica(t)
	pub, pods := web(t, guarded(t), 3, intstr.FromInt32(1))
	known(t, cached, pub)
	for _, pod := range pods {
		known(t, cached, pod)
	}
	return handler, pub, pods
}

// forged is a pod as a stranger describes it.
func forged(pod *corev1.Pod, edit func(*corev1.Pod)) *corev1.Pod {
	out := pod.DeepCopy()
	edit(out)
	return out
}

// Reviews that no API server made, of pods that it does not have, are in no book: they neither take a unit nor
// wait, however they come. A pod of another UID under the name of one that runs frames no user.
func TestReviewsOfStrangersAreInNoBook(t *testing.T) {
	handler, _, pods := forger(t)
	ns := pods[0].Namespace
	other := func(p *corev1.Pod) { p.UID = types.UID("00000000-0000-0000-0000-000000000001") }
	for name, pod := range map[string]*corev1.Pod{
		"another UID": forged(pods[0], other),
		"no such pod": forged(pods[0], func(p *corev1.Pod) { p.Name = "none" }),
		"a very long one": forged(pods[0], func(p *corev1.Pod) {
			p.Name, p.UID = strings.Repeat("x", 98<<10), types.UID(strings.Repeat("y", 98<<10))
		}),
		"without a UID":   forged(pods[0], func(p *corev1.Pod) { p.UID = "" }),
		"another version": forged(pods[0], func(p *corev1.Pod) { other(p); p.ResourceVersion = strings.Repeat("9", 1<<10) }),
	} {
		for range 2 { // the first one could take the unit, and the second one wait
			handler.Handle(t.Context(), deletionBy(t, "system:admin", pod, false))
			handler.Handle(t.Context(), changeOf(t, pod, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }))
		}
		if all := booksOf(t, ns); len(all) > 0 {
			t.Errorf("%s: the book is %+v, want none", name, all[0])
		}
	}
	if err := evictAs(t.Context(), as(t, "system:admin"), pods[0]); err != nil {
		t.Errorf("an eviction for which there is a unit: %v", err)
	}
	handler.Handle(t.Context(), deletionBy(t, "system:admin", forged(pods[1], other), false))
	refusedBy(t, evictAs(t.Context(), as(t, "system:admin"), pods[1]), "web") // and not: the pod is gone
	testenv.Eventually(t, func() error {
		for _, w := range booksOf(t, ns)[0].Waiting {
			if w.UID == pods[1].UID {
				return nil
			}
		}
		return fmt.Errorf("the refused eviction does not wait")
	})
}

// A review of a pod that exists is judged by what the API has of the pod, not by what the review says.
func TestAReviewIsJudgedByThePodInTheAPI(t *testing.T) {
	handler, _, pods := forger(t)
	if err := evictAs(t.Context(), as(t, "system:admin"), pods[0]); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*corev1.Pod){
		"not Ready": func(p *corev1.Pod) { p.Status.Conditions = nil },
		"exempt":    func(p *corev1.Pod) { p.Annotations = map[string]string{policyv1beta1.AnnotationNoProtect: "true"} },
		"old":       func(p *corev1.Pod) { p.ResourceVersion = "1" },
		"of another owner": func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "none", UID: "none", Controller: new(true)}}
		},
	} {
		answer := handler.Handle(t.Context(), deletionBy(t, "tenant", forged(pods[1], edit), false))
		if answer.Allowed {
			t.Errorf("%s: the deletion passes", name)
		}
	}
	if entries := booksOf(t, pods[0].Namespace)[0].Entries; len(entries) != 1 {
		t.Errorf("entries %+v, want the one of the eviction", entries)
	}
}

// A review of a pod that exists may come in any name, and of any length: nothing shows who really asked. The book keeps
// little of it, and no further unit goes.
func TestAReviewInAnotherNameIsShort(t *testing.T) {
	handler, _, pods := forger(t)
	long := strings.Repeat("\x1b[2J<", 20<<10)
	handler.Handle(t.Context(), deletionBy(t, long, pods[0], false))
	for _, pod := range pods {
		handler.Handle(t.Context(), deletionBy(t, long, pod, false))
		handler.Handle(t.Context(), changeOf(t, pod, func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: long, UID: types.UID(long)}}
			p.Labels = map[string]string{long: long}
		}))
	}
	all := booksOf(t, pods[0].Namespace)
	if len(all) != 1 || len(all[0].Entries) != 1 {
		t.Fatalf("books %+.1000v, want one with one entry", all)
	}
	text, err := json.Marshal(all[0])
	if err != nil || len(text) > 16<<10 {
		t.Errorf("the book has %d bytes after reviews with long names: %v", len(text), err)
	}
	answer := handler.Handle(t.Context(), deletionBy(t, "jane", pods[1], false))
	if answer.Allowed || len(answer.Result.Message) > 1000 || strings.Contains(answer.Result.Message, "\x1b") {
		t.Errorf("the answer is %q, want a short refusal of printable characters", answer.Result.Message)
	}
}
