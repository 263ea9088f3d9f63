package creation_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// evict asks for an eviction, or for a dry run of one.
func evict(t *testing.T, pod *corev1.Pod, dryRun ...string) error {
	t.Helper()
	return env.Client.SubResource("eviction").Create(t.Context(), pod.DeepCopy(), &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun}})
}

// An eviction that a budget refuses frees no slot: the pod has its slot until it is gone. The book of
// the spread does not change.
func TestARefusedEvictionFreesNoSlot(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	env.Patch(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, policyv1beta1.LabelBudgets, policyv1beta1.LabelBudgetsOpen))
	_, rs := aDeployment(t, ns, 3)
	ws := aSpread(ns, "web", "apps/v1", "Deployment", "web", "a=1", "b")
	env.Create(t, ws)
	pub := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	pub.Spec.Selector, pub.Spec.MaxUnavailable = rs.Spec.Selector, new(intstr.FromInt32(0))
	put(t, pub)
	sent(t, generated(rs))
	foreseen(t, "a", generated(rs))
	pod := placed(t, "a", generated(rs))[0]
	ready := testenv.APod("").Ready().Status
	ready.DeepCopyInto(&pod.Status)
	if err := env.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	var before limpetv1alpha1.DisruptionBook
	bookOf := client.ObjectKey{Namespace: ns, Name: string(ws.UID)}
	env.Read(t, bookOf, &before)
	testenv.Eventually(t, func() error { // the guard is asked, and its cache shows the pod, a moment later
		if err := evict(t, pod, metav1.DryRunAll); !apierrors.IsTooManyRequests(err) {
			return fmt.Errorf("a dry run of the eviction: %w, want a refusal", err)
		}
		return nil
	})
	if err := evict(t, pod); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("evict: %v, want a refusal", err)
	}
	var after limpetv1alpha1.DisruptionBook
	if env.Read(t, bookOf, &after); len(before.Entries) != 1 || !cmp.Equal(after.Entries, before.Entries) {
		t.Errorf("the book of the spread had %+v and has %+v, want the pod alone", before.Entries, after.Entries)
	}
	foreseen(t, "b", generated(rs))
	placed(t, "b", generated(rs))
	env.Patch(t, pub, `{"spec":{"maxUnavailable":"100%"}}`)
	testenv.Eventually(t, func() error { return evict(t, pod) })
	foreseen(t, "a", generated(rs))
}
