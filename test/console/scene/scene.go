// Package scene makes up the facts of a small cluster that shows all that the page has to tell.
package scene

import (
	"fmt"
	"time"

	"github.com/limpet-io/limpet/internal/console/facts"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	namespace = "shop"
	pods      = 6
)

// At returns the facts at a moment.
func At(now time.Time) *facts.Facts {
	f := &facts.Facts{Now: now}
	for i := range 4 {
		node(f, i)
	}
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	records := map[string]appsv1beta1.PodState{}
	for i := range pods {
		name, on := fmt.Sprint("cart-", i), i%3
		place := fmt.Sprintf("10.244.%d.%d", on, 20+i)
		records[name] = appsv1beta1.PodState{NodeName: fmt.Sprint("node-", on), IPs: place, RecordedAt: new(ago(time.Duration(i+1) * 17 * time.Minute))}
		if i == 4 || i == 5 {
			until := metav1.NewTime(now.Add(time.Duration(i) * time.Minute))
			f.Reservations = append(f.Reservations, limpetv1alpha1.IPReservation{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
				Status:     limpetv1alpha1.IPReservationStatus{Node: fmt.Sprint("node-", on), Network: "limpet", Pod: name, IPs: place, State: limpetv1alpha1.IPReserved, Until: &until},
			})
			continue
		}
		f.Pods = append(f.Pods, pod(namespace, name, fmt.Sprint("node-", on), place, now))
	}
	told := func(pod, reason, text string, d time.Duration) {
		f.Events = append(f.Events, corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: pod},
			Reason: reason, Message: text, LastTimestamp: ago(d),
		})
	}
	told("cart-0", "Kept", "on node node-0 with 10.244.0.20", 18*time.Minute)
	told("cart-0", "Lost", "on node node-0 with 10.244.0.20, before on node node-0 with 10.244.0.77; ReservationExpired: the addresses were reserved for 10 minutes", 44*time.Minute)
	told("cart-1", "Kept", "on node node-1 with 10.244.1.21", 35*time.Minute)
	last := appsv1beta1.Rebuild{
		Pod: "cart-2", Outcome: appsv1beta1.Moved, Cause: "NodeGone", Message: "node node-3 does not exist any more", Time: ago(52 * time.Minute),
		From: appsv1beta1.Place{NodeName: "node-3", IPs: "10.244.3.22"}, To: appsv1beta1.Place{NodeName: "node-2", IPs: "10.244.2.22"},
	}
	f.States = []appsv1beta1.PersistentPodState{{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cart"},
		Spec:       appsv1beta1.PersistentPodStateSpec{TargetReference: appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "cart"}},
		Status:     appsv1beta1.PersistentPodStateStatus{PodStates: records, Rebuilds: &appsv1beta1.Rebuilds{Kept: 41, Moved: 1, Lost: 1, Last: &last}},
	}}
	guards(f, now)
	installed(f)
	f.Spreads = []appsv1beta1.WorkloadSpread{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "zones"},
		Spec:       appsv1beta1.WorkloadSpreadSpec{TargetReference: appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
		Status: appsv1beta1.WorkloadSpreadStatus{SubsetStatuses: []appsv1beta1.WorkloadSpreadSubsetStatus{
			{Name: "zone-a", Replicas: 130, MissingReplicas: 0},
			{Name: "zone-b", Replicas: 122, MissingReplicas: 8, Conditions: []metav1.Condition{{
				Type: appsv1beta1.ConditionSchedulable, Status: metav1.ConditionFalse, Reason: "ScheduleFailed", Message: "the scheduler finds no node for web-7d9c5b8f6-x2x4k: 2 Insufficient cpu",
			}}},
		}},
	}}
	return f
}

// installed adds the programs of Limpet, all of which run.
func installed(f *facts.Facts) {
	f.Controllers = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}}
	f.Agents = &appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: int32(len(f.Nodes))}}
	f.Mutating, f.Validating = &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	add := func(program, node string) {
		p := pod(facts.Namespace, program+node, node, "", f.Now)
		p.Labels = map[string]string{facts.LabelName: program}
		p.Spec.Containers = []corev1.Container{{Image: program}}
		f.Own = append(f.Own, p)
	}
	for i := range f.Nodes {
		add(facts.Agent, f.Nodes[i].Name)
	}
	add(facts.Controller, "node-0")
	add(facts.Controller, "node-1")
}

// node adds a node with its pool and some pods. The last one is cordoned.
func node(f *facts.Facts, i int) {
	name := fmt.Sprint("node-", i)
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Spec.Unschedulable = i == 3
	f.Nodes = append(f.Nodes, n)
	used := int64(3 + 40*i)
	for k := range used {
		f.Pods = append(f.Pods, pod("web", fmt.Sprintf("web-%d-%d", i, k), name, fmt.Sprintf("10.244.%d.%d", i, 40+k+k/3), f.Now))
	}
	f.Pools = append(f.Pools, limpetv1alpha1.NodeIPPool{Status: limpetv1alpha1.NodeIPPoolStatus{
		Node: name, Network: "limpet", Total: 253, Attached: used + 3, Reserved: 1, Free: 249 - used, Ranges: []string{fmt.Sprintf("10.244.%d.2-10.244.%d.254", i, i)},
	}})
}

func pod(ns, name, node, ip string, now time.Time) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"app": ns}, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	p.Spec.NodeName = node
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	return p
}

// guards adds a budget of each kind. Two pods hold the units of one, and a drain waits for a third.
func guards(f *facts.Facts, now time.Time) {
	since := func(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(now.Add(-d)) }
	f.Budgets = []policyv1beta1.PodUnavailableBudget{{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cart", UID: types.UID("cart")},
		Spec:       policyv1beta1.PodUnavailableBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": namespace}}},
		Status: policyv1beta1.PodUnavailableBudgetStatus{
			CurrentAvailable: pods - 2, DesiredAvailable: pods - 2, TotalReplicas: pods,
			DisruptedPods: map[string]metav1.Time{"cart-4": metav1.NewTime(now), "cart-5": metav1.NewTime(now)},
			Conditions:    []metav1.Condition{{Type: policyv1beta1.ConditionEnforced, Status: metav1.ConditionTrue}},
		},
	}}
	f.Books = []limpetv1alpha1.DisruptionBook{{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cart"},
		Entries:    limpetv1alpha1.DisruptionEntries{{Pod: "cart-4", By: "alice", Since: since(time.Minute)}, {Pod: "cart-5", By: "system:node-drainer", Since: since(40 * time.Second)}},
		Waiting:    limpetv1alpha1.WaitingRequests{{Pod: "cart-1", By: "system:node-drainer", Since: since(20 * time.Second)}},
		Decisions:  limpetv1alpha1.BookedDecisions{{Pod: "cart-1", Budgets: []string{"cart"}}},
	}}
	f.DisruptionBudgets = []policyv1.PodDisruptionBudget{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 12, CurrentHealthy: 252, DesiredHealthy: 240, ExpectedPods: 252},
	}}
}
