package board_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console/board"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func pool(node, network string, ranges ...string) limpetv1alpha1.NodeIPPool {
	return limpetv1alpha1.NodeIPPool{
		ObjectMeta: metav1.ObjectMeta{Name: node + "." + network},
		Status:     limpetv1alpha1.NodeIPPoolStatus{Node: node, Network: network, Total: 10, Ranges: ranges},
	}
}

func TestAddresses(t *testing.T) {
	pod := func(name string, ips ...string) testenv.Pod {
		return testenv.APod(name).In("shop").On("n1").At(ips...).Ready()
	}
	ended, host := pod("ended", "10.0.0.3"), pod("host", "10.0.0.3")
	ended.Status.Phase, host.Spec.HostNetwork = corev1.PodSucceeded, true
	tests := map[string]struct {
		ranges       []string
		pods         []testenv.Pod
		reservations []*limpetv1alpha1.IPReservation
		want         []string // for each range set: drawn whole or not, and the addresses in use
	}{
		"nothing is used":               {[]string{"10.0.0.2-10.0.0.9"}, nil, nil, []string{"true"}},
		"a pod":                         {[]string{"10.0.0.2-10.0.0.9"}, []testenv.Pod{pod("web-0", "10.0.0.3")}, nil, []string{"true 10.0.0.3=A:shop/web-0"}},
		"outside the range":             {[]string{"10.0.0.2-10.0.0.9"}, []testenv.Pod{pod("web-0", "10.0.0.10")}, nil, []string{"true"}},
		"no address of its own":         {[]string{"10.0.0.2-10.0.0.9"}, []testenv.Pod{ended, host}, nil, []string{"true"}},
		"two ranges in a set":           {[]string{"10.0.0.2-10.0.0.3,10.0.1.2-10.0.1.3"}, []testenv.Pod{pod("b", "10.0.1.3"), pod("a", "10.0.0.2")}, nil, []string{"true 10.0.0.2=A:shop/a 10.0.1.3=A:shop/b"}},
		"two families":                  {[]string{"10.0.0.2-10.0.0.9", "fd00::2-fd00::ffff:ffff"}, []testenv.Pod{pod("a", "10.0.0.2", "fd00::2")}, nil, []string{"true 10.0.0.2=A:shop/a", "false fd00::2=A:shop/a"}},
		"a set that cannot be read":     {[]string{"<img src=x>"}, []testenv.Pod{pod("a", "10.0.0.2")}, nil, []string{"true"}},
		"addresses in a second form":    {[]string{"::ffff:10.0.0.2-::ffff:10.0.0.9", "fe80::1%x-fe80::9%x"}, []testenv.Pod{pod("a", "::ffff:10.0.0.3", "fe80::2%x")}, nil, []string{"true", "true"}},
		"a range that ends before":      {[]string{"10.0.0.9-10.0.0.2"}, []testenv.Pod{pod("a", "10.0.0.2")}, nil, []string{"true"}},
		"reserved":                      {[]string{"10.0.0.2-10.0.0.9"}, nil, []*limpetv1alpha1.IPReservation{testenv.AReservation(pod("a", "10.0.0.2").Pod, now)}, []string{"true 10.0.0.2=R:shop/a until 12:10"}},
		"reserved, and the pod is back": {[]string{"10.0.0.2-10.0.0.9"}, []testenv.Pod{pod("a", "10.0.0.2")}, []*limpetv1alpha1.IPReservation{testenv.AReservation(pod("a", "10.0.0.2").Pod, now)}, []string{"true 10.0.0.2=A:shop/a"}},
		"reserved for another":          {[]string{"10.0.0.2-10.0.0.9"}, []testenv.Pod{pod("b", "10.0.0.2")}, []*limpetv1alpha1.IPReservation{testenv.AReservation(pod("a", "10.0.0.2").Pod, now)}, []string{"true 10.0.0.2=D:shop/b until 12:10 other shop/a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := &facts.Facts{Now: now, Nodes: []corev1.Node{*testenv.ANode("n1").Node, *testenv.ANode("n2").Node}, Pools: []limpetv1alpha1.NodeIPPool{pool("n1", "net", tc.ranges...)}}
			for _, p := range tc.pods {
				f.Pods = append(f.Pods, *p.Pod)
			}
			for _, r := range tc.reservations {
				f.Reservations = append(f.Reservations, *r)
			}
			var got []string
			for _, s := range board.Plan(f, "").Nodes[0].Networks[0].Sets {
				line := fmt.Sprint(s.Whole)
				for _, u := range s.Used {
					line += fmt.Sprintf(" %s=%s:%s", u.IP, u.Use, u.Pod)
					if u.Until != nil {
						line += u.Until.Format(" until 15:04")
					}
					if u.Other != "" {
						line += " other " + u.Other
					}
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("sets (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAddressesOnLoan has an address of n1 that a pod on n2 has, one that no pod has, and one that is home again.
func TestAddressesOnLoan(t *testing.T) {
	loan := func(pod, ip, borrower string, phase limpetv1alpha1.LoanPhase) limpetv1alpha1.BorrowedAddress {
		b := limpetv1alpha1.BorrowedAddress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pod}}
		b.Spec = limpetv1alpha1.BorrowedAddressSpec{Pod: pod, Interface: "eth0", Network: "net", IPs: ip}
		b.Status = limpetv1alpha1.BorrowedAddressStatus{Home: "n1", Borrower: borrower, Phase: phase}
		return b
	}
	f := &facts.Facts{
		Now: now, Nodes: []corev1.Node{*testenv.ANode("n1").Node, *testenv.ANode("n2").Node},
		Pools: []limpetv1alpha1.NodeIPPool{pool("n1", "net", "10.0.0.2-10.0.0.9"), pool("n2", "net", "10.0.1.2-10.0.1.9")},
		Pods:  []corev1.Pod{*testenv.APod("web-0").In("shop").On("n2").At("10.0.0.3").Ready().Pod},
		Loans: []limpetv1alpha1.BorrowedAddress{
			loan("web-0", "10.0.0.3", "n2", "Lent"), loan("web-1", "10.0.0.4", "", "Lent"), loan("web-2", "10.0.0.5", "", "Ended"), loan("web-3", "10.0.0.6", "n2", "Ending"),
		},
	}
	for _, pod := range []testenv.Pod{testenv.APod("web-0").At("10.0.0.3"), testenv.APod("web-2").At("10.0.0.7")} { // home shows what it has lent
		f.Reservations = append(f.Reservations, *testenv.AReservation(pod.In("shop").On("n1").Pod, now))
	}
	state := testenv.APersistentPodState("web").In("shop").Recorded("web-0", "n2", nil).Recorded("web-2", "n1", nil).Recorded("web-3", "n2", nil)
	f.States = []appsv1beta1.PersistentPodState{*state.PersistentPodState}
	b := board.Plan(f, "")
	var got []string
	for _, u := range b.Nodes[0].Networks[0].Sets[0].Used {
		got = append(got, fmt.Sprintf("%s %s %s %s", u.IP, u.Use, u.Pod, u.Other))
	}
	for _, p := range b.Workloads[0].Pods {
		got = append(got, p.Name+": "+p.Lent+p.ReservedOn)
	}
	want := []string{
		"10.0.0.3 L shop/web-0 n2", "10.0.0.4 L shop/web-1 ", "10.0.0.6 L shop/web-3 n2", "10.0.0.7 R shop/web-2 ",
		"web-0: of node n1: it is lent to node n2", "web-2: n1", "web-3: of node n1: node n2 shall give it back",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("addresses on loan (-want +got):\n%s", diff)
	}
}

func TestNodes(t *testing.T) {
	full := pool("n10", "b", "10.0.0.2-10.0.0.3")
	full.Status.Conditions = []metav1.Condition{{Type: limpetv1alpha1.ConditionExhausted, Status: metav1.ConditionTrue, Reason: "NoneFree", Message: "none"}}
	b := board.Plan(&facts.Facts{
		Nodes: []corev1.Node{*testenv.ANode("n10").Node, *testenv.ANode("n9").Cordoned().Node, *testenv.ANode("n1").NotReady().Node},
		Pools: []limpetv1alpha1.NodeIPPool{full, pool("n10", "a"), pool("gone-for-good", "a")},
	}, "")
	var got []string
	for _, n := range b.Nodes {
		line := n.Name + " " + n.State
		for _, w := range n.Networks {
			line += " " + w.Name
		}
		got = append(got, line)
	}
	want := []string{"n1 NotReady", "n9 Cordoned", "n10 Ready a b", "gone-for-good Unknown a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestWorkloads(t *testing.T) {
	set := testenv.AStatefulSet("web", 3).In("shop")
	set.UID = "u"
	state := testenv.APersistentPodState("web").In("shop").Recorded("web-10", "n1", nil).Recorded("web-2", "n2", nil)
	state.Spec.TargetReference.Kind, state.Spec.TargetReference.Name = "StatefulSet", "web"
	state.Status.Rebuilds = &appsv1beta1.Rebuilds{Kept: 3, Moved: 1, Last: &appsv1beta1.Rebuild{
		Pod: "web-2", Outcome: appsv1beta1.Moved, Cause: "NodeGone", Message: "told", Time: metav1.NewTime(now),
		From: appsv1beta1.Place{NodeName: "n1", IPs: "10.0.0.2"}, To: appsv1beta1.Place{NodeName: "n2", IPs: "10.0.1.2"},
	}}
	event := func(pod, reason string, at time.Time) corev1.Event {
		return corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: pod},
			Reason: reason, Message: "said", LastTimestamp: metav1.NewTime(at),
		}
	}
	gathered := event("web", "Returned", now.Add(2*time.Hour))
	gathered.InvolvedObject.Kind, gathered.ReportingController = "StatefulSet", facts.Controller
	gathered.Message = "2 pods are Ready again in their places: web-0 (10.0.0.4 on n1), web-10 (10.0.0.5 on n1)"
	pod := testenv.APod("web-2").In("shop").On("n2").At("10.0.1.2").OwnedBy(set.StatefulSet).Ready()
	fresh := testenv.APod("web-0").In("shop").OwnedBy(set.StatefulSet)
	b := board.Plan(&facts.Facts{
		Now: now, States: []appsv1beta1.PersistentPodState{*state.PersistentPodState}, Pods: []corev1.Pod{*pod.Pod, *fresh.Pod},
		Events: []corev1.Event{event("web-2", "Moved", now.Add(time.Second)), event("web-2", "Kept", now.Add(-time.Hour)), event("web-2", "Kept", now.Add(time.Hour)), event("else", "Kept", now), gathered},
	}, "")
	w := b.Workloads[0]
	var got []string
	for _, p := range w.Pods {
		line := fmt.Sprintf("%s %s on %q recorded %q", p.Name, p.State, p.Node, p.RecordedNode)
		for _, h := range p.Past {
			line += fmt.Sprintf("; %s %s %s", h.Time.Format("15:04"), h.What, h.Text)
		}
		got = append(got, line)
	}
	want := []string{
		`web-0 Pending on "" recorded ""; 14:00 Returned ` + gathered.Message,
		`web-2 Ready on "n2" recorded "n2"; 13:00 Kept said; 12:00 Moved n1 with 10.0.0.2 → n2 with 10.0.1.2; NodeGone; told; 11:00 Kept said`,
		`web-10 None on "" recorded "n1"; 14:00 Returned ` + gathered.Message,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if w.Target != "StatefulSet/web" || w.Kept != 3 || w.Moved != 1 || w.Lost != 0 {
		t.Errorf("workload %+v", w)
	}
}

func TestBudgets(t *testing.T) {
	of := map[string]string{"app": "web"}
	pod := func(name string) testenv.Pod {
		p := testenv.APod(name).In("shop")
		p.Labels = of
		return p
	}
	ended := pod("ended")
	ended.Status.Phase = corev1.PodFailed
	elsewhere := pod("elsewhere").In("other")
	set := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api-1", UID: "rs", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "api", UID: "d", Controller: new(true)}}}}
	api := testenv.APod("api-1-x").In("shop").Of(&set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	selected := policyv1beta1.PodUnavailableBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-web"},
		Spec:       policyv1beta1.PodUnavailableBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: of}},
		Status: policyv1beta1.PodUnavailableBudgetStatus{
			UnavailableAllowed: 0, TotalReplicas: 5, DisruptedPods: map[string]metav1.Time{"web-1": metav1.NewTime(now)},
			UnavailablePods: map[string]metav1.Time{"web-3": metav1.NewTime(now)},
			Conditions:      []metav1.Condition{{Type: policyv1beta1.ConditionEnforced, Status: metav1.ConditionTrue}},
		},
	}
	targeted := policyv1beta1.PodUnavailableBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"},
		Spec:       policyv1beta1.PodUnavailableBudgetSpec{TargetReference: &policyv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "api"}},
	}
	f := &facts.Facts{
		Now: now, ReplicaSets: []appsv1.ReplicaSet{set},
		Pods:    []corev1.Pod{*pod("web-0").Ready().Pod, *pod("web-1").Pod, *pod("web-2").Pod, *ended.Pod, *elsewhere.Pod, *api.Pod},
		Budgets: []policyv1beta1.PodUnavailableBudget{selected, targeted},
		DisruptionBudgets: []policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selected.Spec.Selector},
		}},
		Divided: []limpetv1alpha1.DistributedPodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "sites"}, Spec: limpetv1alpha1.DistributedPodDisruptionBudgetSpec{Selector: selected.Spec.Selector},
			Status: limpetv1alpha1.DistributedPodDisruptionBudgetStatus{
				Site: "blue/shop/sites", Shares: []limpetv1alpha1.BudgetShare{{Number: 1, WaitingSince: new(metav1.NewTime(now))}},
				FederatedStatuses: []limpetv1alpha1.FederatedStatus{{Site: "red/shop/sites", Share: 2, Problem: "cannot be read"}},
			},
		}},
		Books: []limpetv1alpha1.DisruptionBook{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "some-book"},
			Entries:    limpetv1alpha1.DisruptionEntries{{Pod: "web-1", By: "alice", Since: metav1.NewMicroTime(now)}},
			Waiting:    limpetv1alpha1.WaitingRequests{{Pod: "web-4", By: "bob"}, {Pod: "db-0", By: "carol"}},
			Decisions: limpetv1alpha1.BookedDecisions{
				{Pod: "web-4", Verdict: "Refused", Budgets: []string{"web", "dpdb/sites"}},
				{Pod: "web-4", Verdict: "Allowed", Budgets: []string{"api"}},
				{Pod: "db-0", Verdict: "Refused", Budgets: []string{"db"}},
			},
		}},
	}
	var got []string
	for _, b := range board.Plan(f, "").Budgets {
		line := b.Kind + " " + b.Name
		for _, h := range b.Holders {
			line += fmt.Sprintf("; %s %s %s", h.Pod, h.Why, h.By)
		}
		for _, h := range b.Waiting {
			line += fmt.Sprintf("; %s waits %s", h.Pod, h.By)
		}
		for _, s := range b.Sites {
			line += fmt.Sprintf("; %s has %d %s", s.Site, s.Share, s.Says)
		}
		got = append(got, line)
	}
	want := []string{
		"PodUnavailableBudget api; api-1-x is not available: Pending ",
		"DistributedPodDisruptionBudget sites; web-1 is not available: Pending alice; web-2 is not available: Pending ; web-4 waits bob; blue/shop/sites has 1 waits for a unit; red/shop/sites has 2 cannot be read",
		"PodUnavailableBudget web; web-1 may be deleted or evicted alice; web-2 is not available: Pending ; web-3 may be changed in place ; web-4 waits bob",
		"PodDisruptionBudget web; web-1 is not available: Pending ; web-2 is not available: Pending ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
}

// TestNothingIsReadTwice is about lists that a second read would append to.
func TestNothingIsReadTwice(t *testing.T) {
	read := map[string]bool{}
	for _, p := range board.Parts {
		if read[p.Kind] && p.Kind != facts.ReplicaSets.Kind && p.Kind != facts.StatefulSets.Kind { // which are workloads, too, in a list of their own
			t.Errorf("%s are read twice", p.Kind)
		}
		read[p.Kind] = true
	}
}

// TestABoardIsBounded gives one tenant very many objects with long texts.
func TestABoardIsBounded(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	f := &facts.Facts{Now: now}
	state := func(namespace string, n int) appsv1beta1.PersistentPodState {
		return appsv1beta1.PersistentPodState{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("s", n)},
			Status:     appsv1beta1.PersistentPodStateStatus{Conditions: []metav1.Condition{{Type: appsv1beta1.ConditionRecording, Status: metav1.ConditionFalse, Message: long}}},
		}
	}
	for n := range 5000 {
		f.States = append(f.States, state("a-tenant", n))
		f.Budgets = append(f.Budgets, policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "a-tenant", Name: fmt.Sprint("b", n)}})
	}
	f.States = append(f.States, state("shop", 0), state("shop", 1))
	f.Pools = append(f.Pools, pool("n1", long, "10.0.0.0-10.255.255.255"))
	for n := range 3000 {
		f.Pods = append(f.Pods, *testenv.APod(fmt.Sprint("p", n)).In("a-tenant").On("n1").At(fmt.Sprintf("10.0.%d.%d", n/250, n%250)).Pod)
		f.Events = append(f.Events, corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "web-0"}, Message: long})
	}
	f.States[5000].Status.PodStates = map[string]appsv1beta1.PodState{"web-0": {}}
	b := board.Plan(f, "")
	if len(b.Workloads) != 1000 || len(b.Budgets) != 1000 || b.Workloads[999].Namespace != "shop" || b.Workloads[998].Namespace != "shop" {
		t.Errorf("%d workloads and %d budgets; want 1000 of each, with both of the namespace shop", len(b.Workloads), len(b.Budgets))
	}
	if n := len(b.Workloads[998].Pods[0].Past); n != 8 {
		t.Errorf("the past of a pod has %d lines, want 8", n)
	}
	if set := b.Nodes[0].Networks[0].Sets[0]; set.Whole || len(set.Used) != 1024 || set.More != 3000-1024 {
		t.Errorf("the set has %d addresses and leaves out %d", len(set.Used), set.More)
	}
	data, err := json.Marshal(b)
	if err != nil || len(data) > 2<<20 {
		t.Errorf("the board has %d bytes, %v", len(data), err)
	}
	want := []board.Note{{Section: board.Needs, Text: "9807 problems are left out: the page shows 200"}, {Section: board.Workloads, Text: "4002 PersistentPodStates are left out: the page shows 1000"}, {Section: board.Budgets, Text: "4000 budgets are left out: the page shows 1000"}}
	if diff := cmp.Diff(want, b.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// TestAllEntriesTogetherAreBounded has one tenant with very many pods, addresses and requests in many objects, none of
// which is too large alone. Another namespace loses nothing by that, and each section tells what it leaves out.
func TestAllEntriesTogetherAreBounded(t *testing.T) {
	const states, pods, nodes = 600, 150, 700
	f := &facts.Facts{Now: now}
	state := func(namespace, name string) appsv1beta1.PersistentPodState {
		s := appsv1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		s.Status.PodStates = map[string]appsv1beta1.PodState{}
		for n := range pods {
			s.Status.PodStates[fmt.Sprint(name, "-", n)] = appsv1beta1.PodState{NodeName: "n1"}
		}
		return s
	}
	guarded := func(namespace, name string) policyv1beta1.PodUnavailableBudget {
		b := policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		b.Status.DisruptedPods = map[string]metav1.Time{}
		for n := range 50 {
			b.Status.DisruptedPods[fmt.Sprint("p", n)] = metav1.NewTime(now)
		}
		return b
	}
	for n := range states {
		f.States = append(f.States, state("a-tenant", fmt.Sprint("s", n)))
		f.Budgets = append(f.Budgets, guarded("a-tenant", fmt.Sprint("b", n)))
	}
	f.States, f.Budgets = append(f.States, state("shop", "web")), append(f.Budgets, guarded("shop", "web"))
	for n := range nodes {
		name := fmt.Sprint("n", n)
		f.Pools = append(f.Pools, pool(name, "lan", fmt.Sprintf("10.%d.%d.0-10.%d.%d.255", n/250, n%250, n/250, n%250)))
		for i := range pods {
			f.Pods = append(f.Pods, *testenv.APod(fmt.Sprint("p", n, "-", i)).In("a-tenant").On(name).At(fmt.Sprintf("10.%d.%d.%d", n/250, n%250, i)).Ready().Pod)
		}
	}
	for n := range 100 {
		f.Pools = append(f.Pools, pool("n0", fmt.Sprintf("other-%03d", n), "10.200.0.0-10.200.0.1"))
	}
	b := board.Plan(f, "")
	shown := 0
	for _, w := range b.Workloads {
		shown += len(w.Pods)
		if w.Namespace == "shop" && (len(w.Pods) != pods || w.More != 0) || w.Namespace != "shop" && len(w.Pods)+w.More != pods {
			t.Errorf("workload %s/%s shows %d pods and leaves out %d", w.Namespace, w.Name, len(w.Pods), w.More)
		}
	}
	held := 0
	for _, g := range b.Budgets {
		held += len(g.Holders)
		if g.Namespace == "shop" && (len(g.Holders) != 50 || g.More != 0) || g.Namespace != "shop" && len(g.Holders)+g.More != 50 {
			t.Errorf("budget %s/%s shows %d holders and leaves out %d", g.Namespace, g.Name, len(g.Holders), g.More)
		}
	}
	used := 0
	for _, n := range b.Nodes {
		for _, w := range n.Networks {
			for _, s := range w.Sets {
				used += len(s.Used)
				if s.More > 0 && s.Whole {
					t.Errorf("node %s: a set that leaves out %d addresses is drawn whole, and shows these as free", n.Name, s.More)
				}
			}
		}
		if len(n.Networks) > 16 || len(n.Networks)+n.More > 1 != (n.Name == "n0") {
			t.Errorf("node %s shows %d networks and leaves out %d", n.Name, len(n.Networks), n.More)
		}
	}
	if shown != 5_000 || held != 5_000 || used != 100_000 {
		t.Errorf("the page shows %d pods, %d holders and %d addresses", shown, held, used)
	}
	want := []board.Note{
		{Section: board.Needs, Text: "1205 problems are left out: the page shows 200"},
		{Section: board.Addresses, Text: "5000 addresses in use are left out: the page shows 100000 of all nodes together"},
		{Section: board.Workloads, Text: "85150 pods are left out: the page shows 5000 of all PersistentPodStates together"},
		{Section: board.Budgets, Text: "25050 holders, requests and places are left out: the page shows 5000 of all budgets together"},
	}
	if diff := cmp.Diff(want, b.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotReadIsTold(t *testing.T) {
	tests := map[string]struct {
		namespace, kind string
		partial         bool
		sections        []board.Section
	}{
		"pods":         {"", "pods", true, []board.Section{board.Addresses, board.Workloads, board.Budgets}},
		"events":       {"", "events", false, []board.Section{board.Workloads}},
		"books":        {"", "disruptionbooks.limpet.dev", false, []board.Section{board.Budgets}},
		"spreads":      {"", "workloadspreads.apps.kruise.io", false, []board.Section{board.Spreads}},
		"programs":     {"", "pods of limpet-system", false, []board.Section{board.Needs}},
		"a namespace":  {"shop", "", true, []board.Section{board.Addresses}},
		"reservations": {"", "ipreservations.limpet.dev", true, []board.Section{board.Addresses, board.Workloads}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := &facts.Facts{}
			if tc.kind != "" {
				f.Unread = []facts.Unread{{Kind: tc.kind, Reason: "you may not read them"}}
			}
			b := board.Plan(f, tc.namespace)
			var got []board.Section
			for _, n := range b.Notes {
				got = append(got, n.Section)
			}
			if tc.kind != "" {
				tc.sections = append(tc.sections, board.Needs) // as a whole
			}
			if diff := cmp.Diff(tc.sections, got); diff != "" || b.Partial != tc.partial {
				t.Errorf("partial %v; sections (-want +got):\n%s", b.Partial, diff)
			}
		})
	}
}
