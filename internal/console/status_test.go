package console_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// installed are the facts of a cluster of two nodes on which all is well.
func installed() *facts.Facts {
	f := &facts.Facts{
		Now:         now,
		Controllers: &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)}},
		Agents:      &appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2}},
		Mutating:    &admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{{ClientConfig: admissionv1.WebhookClientConfig{CABundle: []byte("x")}}}},
		Validating:  &admissionv1.ValidatingWebhookConfiguration{},
	}
	for _, name := range []string{"n1", "n2"} {
		f.Nodes = append(f.Nodes, *testenv.ANode(name).Node)
		for _, program := range []string{facts.Controller, facts.Agent} {
			pod := testenv.APod(program + "-" + name).In(facts.Namespace).On(name).Ready()
			pod.Labels = map[string]string{facts.LabelName: program}
			pod.Spec.Containers[0].Name = strings.TrimPrefix(program, "limpet-")
			f.Own = append(f.Own, *pod.Pod)
		}
		f.Pools = append(f.Pools, limpetv1alpha1.NodeIPPool{
			ObjectMeta: metav1.ObjectMeta{Name: name + ".net"},
			Status:     limpetv1alpha1.NodeIPPoolStatus{Node: name, Network: "net", Total: 10, Attached: 3, Reserved: 2, Free: 5},
		})
	}
	return f
}

// lost is a PersistentPodState whose last rebuild lost an address some time ago.
func lost(ago time.Duration) []appsv1beta1.PersistentPodState {
	last := &appsv1beta1.Rebuild{Pod: "web-0", Outcome: appsv1beta1.Lost, Cause: "AddressNotHeld", Time: metav1.NewTime(now.Add(-ago))}
	return []appsv1beta1.PersistentPodState{{Status: appsv1beta1.PersistentPodStateStatus{Rebuilds: &appsv1beta1.Rebuilds{Lost: 1, Last: last}}}}
}

// TestReportsHaveNoNull reads reports on nothing as a script does.
func TestReportsHaveNoNull(t *testing.T) {
	f := installed()
	for name, report := range map[string]any{
		"status": console.Status(f), "audit": console.Audit(f), "status of nothing": console.Status(&facts.Facts{Now: now}),
		"drain": func() any { r, _ := console.PlanDrain(f, []string{"n1"}); return r }(),
	} {
		if data, err := json.Marshal(report); err != nil || strings.Contains(string(data), "null") {
			t.Errorf("%s: %v, %s", name, err, data)
		}
	}
}

func TestStatus(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: "told"}}
	}
	tests := map[string]struct {
		change func(*facts.Facts)
		want   []string // severity and reason
	}{
		"all is well":             {func(*facts.Facts) {}, nil},
		"nothing is installed":    {func(f *facts.Facts) { *f = facts.Facts{Now: now} }, []string{"Broken NotInstalled", "Broken NotInstalled", "Broken NotInstalled", "Broken NotInstalled"}},
		"one replica is missing":  {func(f *facts.Facts) { f.Own[0].Status.Conditions = nil }, []string{"Attention ReplicaMissing"}},
		"no replica is Ready":     {func(f *facts.Facts) { f.Own[0].Status, f.Own[2].Status = corev1.PodStatus{}, corev1.PodStatus{} }, []string{"Broken NoReplica"}},
		"replicas on one node":    {func(f *facts.Facts) { f.Own[2].Spec.NodeName = "n1" }, []string{"Attention OneNode"}},
		"an agent is not Ready":   {func(f *facts.Facts) { f.Own[1].Status.Conditions = nil }, []string{"Broken AgentsMissing"}},
		"a webhook without trust": {func(f *facts.Facts) { f.Mutating.Webhooks[0].ClientConfig.CABundle = nil }, []string{"Broken NoCertificate"}},
		"what may not be read is not missing": {func(f *facts.Facts) {
			f.Validating, f.Unread = nil, []facts.Unread{{Kind: "validatingwebhookconfigurations.admissionregistration.k8s.io"}}
		}, nil},
		"a kind is not served": {func(f *facts.Facts) {
			f.Unread = []facts.Unread{{Kind: "persistentpodstates.apps.kruise.io", NotServed: true}}
		}, []string{"Broken NotServed"}},
		"a pool is full": {func(f *facts.Facts) {
			f.Pools[0].Status.Conditions = condition(limpetv1alpha1.ConditionExhausted, metav1.ConditionTrue, "NoneFree")
		}, []string{"Attention NoneFree"}},
		"a node refused its settings": {func(f *facts.Facts) {
			f.Pools[0].Status.Conditions = condition(limpetv1alpha1.ConditionConfigured, metav1.ConditionFalse, limpetv1alpha1.ReasonMTUTooLarge)
		}, []string{"Attention MTUTooLarge"}},
		"another network came to a node": {func(f *facts.Facts) {
			f.Pools[0].Status.Conditions = condition(limpetv1alpha1.ConditionConfigured, metav1.ConditionFalse, limpetv1alpha1.ReasonForeignNetwork)
		}, []string{"Attention ForeignNetwork"}},
		"a node has its settings": {func(f *facts.Facts) {
			f.Pools[0].Status.Conditions = condition(limpetv1alpha1.ConditionConfigured, metav1.ConditionTrue, limpetv1alpha1.ReasonApplied)
		}, nil},
		"a node of two networks is not Ready": {func(f *facts.Facts) {
			f.Pools = append(f.Pools, f.Pools[0])
			f.Pools[2].Status.Network = "second"
			f.Nodes[0] = *testenv.ANode("n1").NotReady().Node
		}, []string{"Attention NodeNotReady"}},
		"a pool of a node that is gone": {func(f *facts.Facts) { f.Pools[0].Status.Node = "n9" }, []string{"Attention NoPool", "Attention NodeGone"}},
		"a pod waits for its node": {func(f *facts.Facts) {
			f.States = []appsv1beta1.PersistentPodState{{Status: appsv1beta1.PersistentPodStateStatus{
				Conditions: condition(appsv1beta1.ConditionWaiting, metav1.ConditionTrue, "NodeCordoned"),
			}}}
		}, []string{"Attention NodeCordoned"}},
		"a budget is not enforced": {func(f *facts.Facts) {
			f.Budgets = []policyv1beta1.PodUnavailableBudget{{}}
		}, []string{"Broken NotReconciled"}},
		"a budget that no guard enforces": {func(f *facts.Facts) {
			f.Budgets = []policyv1beta1.PodUnavailableBudget{{Status: policyv1beta1.PodUnavailableBudgetStatus{
				Conditions: condition(policyv1beta1.ConditionEnforced, metav1.ConditionFalse, "NotCalled"),
			}}}
		}, []string{"Broken NotCalled"}},
		"a budget that is wrong itself": {func(f *facts.Facts) {
			f.Budgets = []policyv1beta1.PodUnavailableBudget{{Status: policyv1beta1.PodUnavailableBudgetStatus{
				Conditions: condition(policyv1beta1.ConditionEnforced, metav1.ConditionFalse, "PodsWithoutWorkload"),
			}}}
		}, []string{"Attention PodsWithoutWorkload"}},
		"a budget is new": {func(f *facts.Facts) {
			f.Budgets = []policyv1beta1.PodUnavailableBudget{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-5 * time.Second))}}}
		}, []string{"Attention NotReconciled"}},
		"a node is not Ready": {func(f *facts.Facts) {
			f.Nodes[1].Status.Conditions[0].Status = corev1.ConditionUnknown
		}, []string{"Attention NodeNotReady"}},
		"a network that does not use limpet-ipam": {func(f *facts.Facts) { f.Pools = f.Pools[1:] }, []string{"Attention NoPool"}},
		"a node without a pool and without an agent": {func(f *facts.Facts) {
			f.Nodes = append(f.Nodes, *testenv.ANode("n3").Node)
		}, nil},
		"a subset takes no pods": {func(f *facts.Facts) {
			f.Spreads = []appsv1beta1.WorkloadSpread{{Status: appsv1beta1.WorkloadSpreadStatus{SubsetStatuses: []appsv1beta1.WorkloadSpreadSubsetStatus{
				{Name: "a", Conditions: condition(appsv1beta1.ConditionSchedulable, metav1.ConditionFalse, appsv1beta1.ReasonPodUnschedulable)},
				{Name: "b", Conditions: condition(appsv1beta1.ConditionSchedulable, metav1.ConditionTrue, appsv1beta1.ReasonSufficient)},
			}}}}
		}, []string{"Attention PodUnschedulable"}},
		"nodes lack a label": {func(f *facts.Facts) {
			f.States = []appsv1beta1.PersistentPodState{{Status: appsv1beta1.PersistentPodStateStatus{
				Conditions: condition(appsv1beta1.ConditionTopologyUnknown, metav1.ConditionTrue, appsv1beta1.ReasonNodeLabelMissing),
			}}}
		}, []string{"Attention NodeLabelMissing"}},
		"a pod lost its address an hour ago": {func(f *facts.Facts) { f.States = lost(time.Hour) }, []string{"Attention Lost"}},
		"a pod lost its address last week":   {func(f *facts.Facts) { f.States = lost(7 * 24 * time.Hour) }, nil},
		"a pod kept its address, and two had lost theirs before": {func(f *facts.Facts) {
			f.States = lost(time.Hour)
			f.States[0].Status.Rebuilds.Last = &appsv1beta1.Rebuild{Pod: "web-2", Outcome: appsv1beta1.Kept, Time: metav1.NewTime(now)}
			old, recent := new(metav1.NewTime(now.Add(-48*time.Hour))), new(metav1.NewTime(now.Add(-time.Hour)))
			f.States[0].Status.PodStates = map[string]appsv1beta1.PodState{
				"web-0": {Outcome: appsv1beta1.Lost, RecordedAt: recent}, "web-1": {Outcome: appsv1beta1.Lost, RecordedAt: recent},
				"web-2": {Outcome: appsv1beta1.Lost, RecordedAt: recent}, "web-3": {Outcome: appsv1beta1.Lost, RecordedAt: old},
			}
		}, []string{"Attention Lost", "Attention Lost"}},
		"annotations that do nothing": {func(f *facts.Facts) {
			retain := map[string]string{reservation.RetainAnnotation: "10"}
			f.Workloads = []facts.Workload{
				{Kind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Annotations: map[string]string{appsv1beta1.AnnotationAutoGenerate: "true"}},
				{Kind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Template: retain},
				{Kind: batchv1.SchemeGroupVersion.WithKind("CronJob"), Template: retain},
			}
		}, []string{"Attention AnnotationIgnored", "Attention AnnotationIgnored", "Attention AnnotationIgnored"}},
		"annotations that do something": {func(f *facts.Facts) {
			f.Workloads = []facts.Workload{{
				Kind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Namespace: "shop", Name: "web", Template: map[string]string{reservation.RetainAnnotation: "10"},
			}}
			f.States = []appsv1beta1.PersistentPodState{*testenv.APersistentPodState("web").In("shop").PersistentPodState}
		}, nil},
		"a rollout would wait without end": {func(f *facts.Facts) {
			f.Spreads = []appsv1beta1.WorkloadSpread{{Status: appsv1beta1.WorkloadSpreadStatus{
				Conditions: condition(appsv1beta1.ConditionRolloutBlocked, metav1.ConditionTrue, appsv1beta1.ReasonNoRoomToSurge),
			}}}
		}, []string{"Attention NoRoomToSurge"}},
		"a spread does not place": {func(f *facts.Facts) {
			f.Spreads = []appsv1beta1.WorkloadSpread{{Status: appsv1beta1.WorkloadSpreadStatus{
				Conditions: condition(appsv1beta1.ConditionPlaced, metav1.ConditionFalse, "NoSubsetFits"),
			}}}
		}, []string{"Attention NoSubsetFits"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := installed()
			tc.change(f)
			r := console.Status(f)
			var got []string
			for _, p := range r.Problems {
				got = append(got, string(p.Severity)+" "+p.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// Who waits for an installation reads what keeps it from its end.
func TestStatusSaysWhyAPodIsNotReady(t *testing.T) {
	pulling := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
	}}}
	f := installed()
	f.Own[1].Status, f.Own[3].Status = pulling, corev1.PodStatus{Phase: corev1.PodPending}
	f.Own[3].Spec.NodeName = ""
	f.Own[0].Status = pulling
	var got []string
	for _, p := range console.Status(f).Problems {
		got = append(got, p.Message)
	}
	want := []string{
		"0 of 2 agents are Ready (n1: ImagePullBackOff; and 1 more): reservations of the other nodes do not end",
		"1 of 2 replicas are Ready (n1: ImagePullBackOff)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestStatusCounts(t *testing.T) {
	f := installed()
	f.States = []appsv1beta1.PersistentPodState{
		{Status: appsv1beta1.PersistentPodStateStatus{Rebuilds: &appsv1beta1.Rebuilds{Kept: 3, Lost: 1}}},
		{Status: appsv1beta1.PersistentPodStateStatus{Rebuilds: &appsv1beta1.Rebuilds{Kept: 1, Moved: 2}}},
	}
	r := console.Status(f)
	if *r.Rebuilt != (console.Rebuilt{Kept: 4, Moved: 2, Lost: 1}) {
		t.Errorf("rebuilt pods: %+v", r.Rebuilt)
	}
	if want := (console.NodeLine{Node: "n1", Ready: true, Agent: "Ready", Network: "net", Total: 10, Attached: 3, Reserved: 2, Free: 5}); r.Nodes[0] != want {
		t.Errorf("first node: %+v, want %+v", r.Nodes[0], want)
	}
}

func TestAudit(t *testing.T) {
	held := func(pod string) limpetv1alpha1.IPReservation {
		return limpetv1alpha1.IPReservation{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "r"},
			Status:     limpetv1alpha1.IPReservationStatus{Node: "n1", Pod: pod, IPs: "10.0.0.2", State: limpetv1alpha1.IPReserved},
		}
	}
	tests := map[string]struct {
		change func(*facts.Facts)
		want   []string
	}{
		"nothing contradicts": {func(*facts.Facts) {}, nil},
		"two pods with one address": {func(f *facts.Facts) {
			f.Pods = append(f.Pods, *testenv.APod("b").In("shop").On("n2").At("10.0.0.2").Pod)
		}, []string{"TwoPods"}},
		"pods of the host network share": {func(f *facts.Facts) {
			p := *testenv.APod("b").In("shop").On("n1").At("10.0.0.2").Pod
			p.Spec.HostNetwork = true
			f.Pods = append(f.Pods, p)
		}, nil},
		"a pod that ended has none": {func(f *facts.Facts) {
			p := *testenv.APod("b").In("shop").On("n1").At("10.0.0.2").Pod
			p.Status.Phase = corev1.PodSucceeded
			f.Pods = append(f.Pods, p)
		}, nil},
		"held for itself":  {func(f *facts.Facts) { f.Reservations = append(f.Reservations, held("a")) }, nil},
		"held for another": {func(f *facts.Facts) { f.Reservations = append(f.Reservations, held("web-0")) }, []string{"GivenAway"}},
		"held for its owner": {func(f *facts.Facts) {
			f.Pods[0].Annotations = map[string]string{reservation.OwnerAnnotation: "///db"}
			f.Reservations = append(f.Reservations, held("///db"))
		}, nil},
		"held for the owner of another": {func(f *facts.Facts) { f.Reservations = append(f.Reservations, held("///db")) }, []string{"GivenAway"}},
		"an old reservation": {func(f *facts.Facts) {
			r := held("a")
			r.Status.Until = new(metav1.NewTime(now.Add(-6 * time.Minute)))
			f.Reservations = append(f.Reservations, r)
		}, []string{"Overdue"}},
		"a wrong sum": {func(f *facts.Facts) { f.Pools[0].Status.Free = 4 }, []string{"WrongSum"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := installed()
			f.Pods = []corev1.Pod{*testenv.APod("a").In("shop").On("n1").At("10.0.0.2").Pod}
			tc.change(f)
			var got []string
			for _, p := range console.Audit(f).Problems {
				got = append(got, p.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
