package board_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console/board"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// TestTheBoardTellsWhatStatusTells has a spread one of whose subsets takes no pods, on a cluster without programs.
func TestTheBoardTellsWhatStatusTells(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	ws := appsv1beta1.WorkloadSpread{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "zones"},
		Spec:       appsv1beta1.WorkloadSpreadSpec{TargetReference: appsv1beta1.TargetReference{Kind: "Deployment", Name: "web"}},
	}
	ws.Status.SubsetStatuses = []appsv1beta1.WorkloadSpreadSubsetStatus{
		{Name: "a", Replicas: 2, MissingReplicas: 1},
		{Name: "b", MissingReplicas: -1, Conditions: []metav1.Condition{{
			Type: appsv1beta1.ConditionSchedulable, Status: metav1.ConditionFalse, Reason: "ScheduleFailed", Message: long,
		}}},
	}
	b := board.Plan(&facts.Facts{Now: now, Spreads: []appsv1beta1.WorkloadSpread{ws}}, "")
	var got []string
	for _, n := range b.Needs {
		got = append(got, fmt.Sprintf("%s %s %s", n.Severity, n.Object, n.Reason))
		if len(n.Message) > 410 {
			t.Errorf("a problem has a message of %d bytes", len(n.Message))
		}
	}
	want := []string{
		"Broken DaemonSet limpet-system/limpet-agent NotInstalled", "Broken Deployment limpet-system/limpet-controller NotInstalled",
		"Broken MutatingWebhookConfiguration limpet-controller NotInstalled", "Broken ValidatingWebhookConfiguration limpet-controller NotInstalled",
		"Attention WorkloadSpread shop/zones, subset b ScheduleFailed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what needs attention (-want +got):\n%s", diff)
	}
	if len(b.Programs) != 2 || b.Programs[0].Name != facts.Controller || b.Programs[0].Unknown {
		t.Errorf("programs %+v", b.Programs)
	}
	s := b.Spreads[0]
	if len(s.Subsets) != 2 || s.Target != "Deployment/web" || s.Subsets[0] != (board.Subset{Name: "a", Replicas: 2, Missing: 1}) || s.Subsets[1].Missing != -1 {
		t.Errorf("spread %.300v", s)
	}
}

// TestOneNamespaceDoesNotFillThePage has more broken budgets in one namespace than the page shows problems.
func TestOneNamespaceDoesNotFillThePage(t *testing.T) {
	node := testenv.ANode("n1")
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	f := &facts.Facts{Now: now, Nodes: []corev1.Node{*node.Node}, Budgets: make([]policyv1beta1.PodUnavailableBudget, 250)}
	for i := range f.Budgets {
		f.Budgets[i].Namespace, f.Budgets[i].Name = "shop", fmt.Sprintf("b-%03d", i)
	}
	b := board.Plan(f, "")
	if last := b.Needs[len(b.Needs)-1]; last.Reason != "NodeNotReady" || len(b.Needs) != 200 {
		t.Errorf("%d problems, the last is %+v, want the node", len(b.Needs), last)
	}
}

// A reservation stands under its own node, and only what is bad is called bad.
func TestThePlaceOfAReservation(t *testing.T) {
	state := testenv.APersistentPodState("web").In("shop").Recorded("web-0", "n1", nil)
	pod := testenv.APod("web-0").In("shop").On("n2").At("10.0.1.2").Pod
	event := func(reason, kind string) corev1.Event {
		return corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "web-0"}, Reason: reason, Type: kind,
		}
	}
	normal, warning := corev1.EventTypeNormal, corev1.EventTypeWarning
	told := []corev1.Event{event("Reserved", normal), event("Returned", normal), event("Moved", normal), event("AddressConflict", warning)}
	b := board.Plan(&facts.Facts{
		Now: now, States: []appsv1beta1.PersistentPodState{*state.PersistentPodState}, Events: told,
		Reservations: []limpetv1alpha1.IPReservation{*testenv.AReservation(pod, now)},
	}, "")
	p := b.Workloads[0].Pods[0]
	if p.RecordedNode != "n1" || p.ReservedOn != "n2" || p.Until == nil {
		t.Errorf("pod %+v, want a record on n1 and a reservation on n2", p)
	}
	bad := map[string]bool{}
	for _, h := range p.Past {
		bad[h.What] = h.Bad
	}
	if diff := cmp.Diff(map[string]bool{"Reserved": false, "Returned": false, "Moved": true, "AddressConflict": true}, bad); diff != "" {
		t.Errorf("bad (-want +got):\n%s", diff)
	}
}
