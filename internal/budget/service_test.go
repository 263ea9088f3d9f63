package budget_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/budget"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// served is a Ready pod of a workload that is out of service for ten seconds before it goes.
func served(edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-0", UID: "u", Annotations: map[string]string{policyv1beta1.AnnotationDrainFirst: "10s"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "s", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: policyv1beta1.ConditionInService}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: policyv1beta1.ConditionInService, Status: corev1.ConditionTrue},
		}},
	}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// out takes a pod out of service some time before now.
func out(before time.Duration, reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions[1] = corev1.PodCondition{
			Type: policyv1beta1.ConditionInService, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-before)),
		}
	}
}

// hooked makes a pod wait for the label of a handler, which it has, before it goes and before it is changed.
func hooked(pod *corev1.Pod) {
	delete(pod.Annotations, policyv1beta1.AnnotationDrainFirst)
	pod.Annotations[policyv1beta1.AnnotationLifecycle] = "preDelete: {labelsHandler: {a: b}}\ninPlaceUpdate: {labelsHandler: {a: b}}"
	pod.Labels = map[string]string{"a": "b"}
}

// done is what the handler does.
func done(pod *corev1.Pod) { pod.Labels = nil }

func drains(value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations[policyv1beta1.AnnotationDrainFirst] = value }
}

const setController = "system:serviceaccount:kube-system:statefulset-controller"

func TestAPodIsOutOfServiceBeforeItGoes(t *testing.T) {
	ungated := func(pod *corev1.Pod) { pod.Spec.ReadinessGates = nil }
	unready := func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }
	alone := func(pod *corev1.Pod) { pod.OwnerReferences = nil }
	ending := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now} }
	cloned := func(pod *corev1.Pod) { pod.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1" }
	const operator = "system:serviceaccount:db:operator"
	type departure = budget.Departure
	returned := func(before time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions[1].Reason, pod.Status.Conditions[1].LastTransitionTime = budget.ReasonUnasked, metav1.NewTime(now.Add(-before))
		}
	}
	cases := map[string]struct {
		d      departure
		left   time.Duration
		reason string // of the condition that is written
		says   string
		after  int32
	}{
		"a drain":                         {departure{Pod: served(), Vector: budget.Evict, By: "admin"}, 10 * time.Second, budget.ReasonRepeat, "may go in 10 s: ask again", 10},
		"a drain by a service account":    {departure{Pod: served(), Vector: budget.Evict, By: "system:serviceaccount:ci:drain"}, 10 * time.Second, budget.ReasonRepeat, "may go in 10 s", 10},
		"a deletion by a person":          {departure{Pod: served(), Vector: budget.Delete, By: "admin"}, 10 * time.Second, budget.ReasonRepeat, "ask again", 10},
		"… whom k3s names so":             {departure{Pod: served(), Vector: budget.Delete, By: "system:admin"}, 10 * time.Second, budget.ReasonRepeat, "ask again", 10},
		"… by a service account":          {departure{Pod: served(), Vector: budget.Delete, By: operator}, 10 * time.Second, budget.ReasonRepeat, "ask again", 0},
		"… of a pod of another kind":      {departure{Pod: served(cloned), Vector: budget.Delete, By: operator}, 10 * time.Second, budget.ReasonFollows, "goes in 10 s", 0},
		"a long time":                     {departure{Pod: served(drains("1m")), Vector: budget.Delete, By: "admin"}, time.Minute, budget.ReasonRepeat, "in 60 s", 0},
		"a deletion by the workload":      {departure{Pod: served(), Vector: budget.Delete, By: setController}, 10 * time.Second, budget.ReasonFollows, "goes in 10 s", 0},
		"a scale-in":                      {departure{Pod: served(), Vector: budget.ScaleIn, By: setController}, 10 * time.Second, budget.ReasonFollows, "goes", 0},
		"… of a pod without a controller": {departure{Pod: served(alone), Vector: budget.Delete, By: setController}, 10 * time.Second, budget.ReasonRepeat, "ask again", 0},

		"again, too early":              {departure{Pod: served(out(3100*time.Millisecond, budget.ReasonRepeat)), Vector: budget.Evict, By: "admin"}, 6900 * time.Millisecond, "", "in 7 s", 7},
		"again, not Ready by now":       {departure{Pod: served(out(3*time.Second, budget.ReasonRepeat), unready), Vector: budget.Evict, By: "admin"}, 7 * time.Second, "", "in 7 s", 7},
		"again, after the time":         {departure{Pod: served(out(10*time.Second, budget.ReasonRepeat)), Vector: budget.Evict, By: "admin"}, 0, "", "", 0},
		"the workload, after a drain":   {departure{Pod: served(out(3*time.Second, budget.ReasonRepeat)), Vector: budget.Delete, By: setController}, 7 * time.Second, budget.ReasonFollows, "goes in 7 s", 0},
		"a drain, after the workload":   {departure{Pod: served(out(3*time.Second, budget.ReasonFollows)), Vector: budget.Evict, By: "admin"}, 7 * time.Second, "", "goes in 7 s", 0},
		"a clock that is a little back": {departure{Pod: served(out(-time.Second, budget.ReasonRepeat)), Vector: budget.Evict, By: "admin"}, 10 * time.Second, "", "in 10 s", 10},
		"a time that a tenant wrote":    {departure{Pod: served(out(-time.Hour, budget.ReasonRepeat)), Vector: budget.Evict, By: "admin"}, 10 * time.Second, budget.ReasonRepeat, "in 10 s", 10},

		"a change in place":                   {departure{Pod: served(), Vector: budget.Update, By: "admin", Restarts: true}, 10 * time.Second, budget.ReasonChange, "may be changed in 10 s: ask again", 10},
		"a resize by an autoscaler":           {departure{Pod: served(), Vector: budget.Resize, By: operator, Restarts: true}, 10 * time.Second, budget.ReasonChange, "may be changed in 10 s", 0},
		"a change by the workload":            {departure{Pod: served(cloned), Vector: budget.Update, By: operator, Restarts: true}, 10 * time.Second, budget.ReasonChange, "ask again", 0},
		"a change, again":                     {departure{Pod: served(out(4*time.Second, budget.ReasonChange)), Vector: budget.Update, By: operator, Restarts: true}, 6 * time.Second, "", "in 6 s", 0},
		"a change, after the time":            {departure{Pod: served(out(10*time.Second, budget.ReasonChange)), Vector: budget.Update, By: operator, Restarts: true}, 0, "", "", 0},
		"a change that restarts nothing":      {departure{Pod: served(), Vector: budget.Update, By: operator}, 0, "", "", 0},
		"a change of a pod that is not Ready": {departure{Pod: served(unready), Vector: budget.Update, By: operator, Restarts: true}, 0, "", "", 0},

		"a handler":                        {departure{Pod: served(hooked), Vector: budget.Evict, By: "admin"}, 10 * time.Minute, budget.ReasonRepeat, "lifecycle: pod web-0 is out of service and may go when its handler is done, in 600 s at the latest: ask again", 0},
		"a handler before a change":        {departure{Pod: served(hooked), Vector: budget.Update, By: "admin", Restarts: true}, 10 * time.Minute, budget.ReasonChange, "may be changed when its handler is done, in 600 s", 0},
		"a handler that is done":           {departure{Pod: served(hooked, out(time.Second, budget.ReasonRepeat), done), Vector: budget.Evict, By: "admin"}, 0, "", "", 0},
		"a handler that never is":          {departure{Pod: served(hooked, out(10*time.Minute, budget.ReasonRepeat)), Vector: budget.Evict, By: "admin"}, 0, "", "", 0},
		"a handler that has nothing to do": {departure{Pod: served(hooked, done), Vector: budget.Evict, By: "admin"}, 0, "", "", 0},
		"a handler, by force":              {departure{Pod: served(hooked), Vector: budget.Delete, By: "admin", Forced: true}, 0, "", "", 0},

		"an eviction that came too late":                 {departure{Pod: served(returned(5 * time.Minute)), Vector: budget.Evict, By: "admin"}, 10 * time.Second, budget.ReasonRarely, "may go in 10 s", 10},
		"… long ago":                                     {departure{Pod: served(returned(10 * time.Minute)), Vector: budget.Evict, By: "admin"}, 10 * time.Second, budget.ReasonRepeat, "may go in 10 s", 10},
		"a change that came too late":                    {departure{Pod: served(returned(5 * time.Minute)), Vector: budget.Update, By: operator, Restarts: true}, 10 * time.Second, budget.ReasonRareChange, "may be changed in 10 s", 0},
		"a deletion by the workload that was not wanted": {departure{Pod: served(returned(5 * time.Minute)), Vector: budget.Delete, By: setController}, 10 * time.Second, budget.ReasonFollows, "goes in 10 s", 0},

		"no grace period":                       {departure{Pod: served(), Vector: budget.Delete, By: "admin", Forced: true}, 0, "", "", 0},
		"not Ready":                             {departure{Pod: served(unready), Vector: budget.Evict, By: "admin"}, 0, "", "", 0},
		"terminating":                           {departure{Pod: served(ending), Vector: budget.Delete, By: "admin"}, 0, "", "", 0},
		"created without a gate":                {departure{Pod: served(ungated), Vector: budget.Evict, By: "admin"}, 0, "", "", 0},
		"an invalid annotation":                 {departure{Pod: served(drains("11m")), Vector: budget.Evict, By: "admin"}, 0, "", "", 0},
		"a teardown":                            {departure{Pod: served(), Vector: budget.Teardown, By: "system:serviceaccount:kube-system:namespace-controller"}, 0, "", "", 0},
		"a preemption":                          {departure{Pod: served(), Vector: budget.Preemption, By: "system:kube-scheduler"}, 0, "", "", 0},
		"a taint by an admin":                   {departure{Pod: served(), Vector: budget.AdminTaint, By: "system:serviceaccount:kube-system:node-controller"}, 0, "", "", 0},
		"the garbage collector":                 {departure{Pod: served(), Vector: budget.Delete, By: "system:serviceaccount:kube-system:generic-garbage-collector"}, 0, "", "", 0},
		"Limpet's own deletion":                 {departure{Pod: served(), Vector: budget.Limpet, By: "limpet"}, 0, "", "", 0},
		"a PodDisruptionBudget that needs none": {departure{Pod: served(), Vector: budget.Evict, By: "admin", Once: true}, 0, "", "", 0},
		"a request for no budget":               {departure{Pod: served(), Vector: budget.None, By: "admin"}, 0, "", "", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.d.Now = now
			h := tc.d.Plan()
			if h.Left != tc.left || !strings.Contains(h.Message, tc.says) || h.RetryAfter != tc.after {
				t.Errorf("%+v, want %s, %q, retry after %d", h, tc.left, tc.says, tc.after)
			}
			if (h.Turn != nil) != (tc.reason != "") || h.Turn != nil && (h.Turn.Reason != tc.reason || h.Turn.Status != corev1.ConditionFalse) {
				t.Errorf("condition %+v, want reason %q", h.Turn, tc.reason)
			}
		})
	}
}

// An API object has whole seconds: the wait begins at the next one, and is never shorter.
func TestTheWaitIsNotShorterThanAsked(t *testing.T) {
	at := now.Truncate(time.Second).Add(300 * time.Millisecond)
	h := budget.Departure{Now: at, Pod: served(), Vector: budget.Evict}.Plan()
	if got := h.Turn.LastTransitionTime.Sub(at); got < 0 || got >= time.Second {
		t.Errorf("begins %s after the request", got)
	}
}

func TestTheLeaderAttendsPodsWithTheGate(t *testing.T) {
	in := func(status corev1.ConditionStatus) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Status.Conditions[1].Status = status }
	}
	fresh := func(pod *corev1.Pod) { pod.Status.Conditions = nil }
	unasking := func(pod *corev1.Pod) { delete(pod.Annotations, policyv1beta1.AnnotationDrainFirst) }
	ended := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }
	spec := func(generation, observed int64) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Generation, pod.Status.ObservedGeneration, pod.Status.Conditions[1].ObservedGeneration = generation, observed, 1
			pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
		}
	}
	started := func(before time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{
				{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-before))}}}, {},
			}
		}
	}
	change := out(12*time.Second, budget.ReasonChange)
	pending := func(reason string, before time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-before)),
			})
		}
	}
	cases := map[string]struct {
		pod    *corev1.Pod
		reason string // of the condition that is written
		finish bool
		again  time.Duration
	}{
		"new":                                    {served(fresh), budget.ReasonInService, false, 0},
		"unknown":                                {served(in(corev1.ConditionUnknown)), budget.ReasonInService, false, 0},
		"in service":                             {served(), "", false, 0},
		"ended":                                  {served(out(time.Hour, budget.ReasonRepeat), ended), "", false, 0},
		"out of service":                         {served(out(10*time.Second, budget.ReasonRepeat)), "", false, 40 * time.Second},
		"not asked again":                        {served(out(50*time.Second, budget.ReasonRepeat)), budget.ReasonUnasked, false, 0},
		"for a workload, too early":              {served(out(4*time.Second, budget.ReasonFollows)), "", false, 6 * time.Second},
		"for a workload":                         {served(out(10*time.Second, budget.ReasonFollows)), "", true, 5 * time.Second},
		"for a workload, kept by a budget":       {served(out(48*time.Second, budget.ReasonFollows)), "", true, 2 * time.Second},
		"for a workload, kept for long":          {served(out(50*time.Second, budget.ReasonFollows)), budget.ReasonUnasked, false, 0},
		"the annotation was removed":             {served(out(29*time.Second, budget.ReasonRepeat), unasking), "", false, time.Second},
		"for a workload, the annotation is gone": {served(out(29*time.Second, budget.ReasonFollows), unasking), "", false, time.Second},

		"for a change":                      {served(change, spec(1, 1), started(time.Hour)), "", false, 128 * time.Second},
		"for a change, a container crashed": {served(change, spec(1, 1), started(time.Second)), "", false, 128 * time.Second},
		"changed, and not seen":             {served(change, spec(2, 1), started(time.Second)), "", false, 218 * time.Second},
		"changed, and seen":                 {served(change, spec(2, 2), started(time.Hour)), "", false, 218 * time.Second},
		"changed, and started":              {served(change, spec(2, 2), started(time.Second)), budget.ReasonChanged, false, 0},
		"changed, and started at once":      {served(change, spec(2, 2), started(13*time.Second)), budget.ReasonChanged, false, 0},
		"changed before Kubernetes 1.33":    {served(change, started(time.Second)), budget.ReasonChanged, false, 0},
		"a change that was taken back":      {served(out(140*time.Second, budget.ReasonChange), spec(1, 1), started(time.Hour)), budget.ReasonUnasked, false, 0},
		"a change that restarts nothing":    {served(out(230*time.Second, budget.ReasonChange), spec(2, 2), started(time.Hour)), budget.ReasonUnasked, false, 0},
		"a resize that is infeasible":       {served(change, spec(2, 2), started(time.Hour), pending(corev1.PodReasonInfeasible, time.Second)), budget.ReasonChanged, false, 0},
		"… and was before":                  {served(change, spec(2, 2), started(time.Hour), pending(corev1.PodReasonInfeasible, time.Hour)), "", false, 218 * time.Second},
		"… of an older spec":                {served(change, spec(2, 1), started(time.Hour), pending(corev1.PodReasonInfeasible, time.Second)), "", false, 218 * time.Second},
		"a resize that is put off":          {served(change, spec(2, 2), started(time.Hour), pending(corev1.PodReasonDeferred, time.Second)), "", false, 218 * time.Second},
		"a change that comes rarely":        {served(out(600*time.Second, budget.ReasonRareChange), spec(1, 1), started(time.Hour)), "", false, 20 * time.Second},
		"… and is made":                     {served(out(12*time.Second, budget.ReasonRareChange), spec(2, 2), started(time.Second)), budget.ReasonChanged, false, 0},
		"restarted, and out for a drain":    {served(out(10*time.Second, budget.ReasonRepeat), spec(2, 2), started(time.Second)), "", false, 40 * time.Second},
		"of a program that comes rarely":    {served(out(600*time.Second, budget.ReasonRarely)), "", false, 20 * time.Second},
		"… and did not":                     {served(out(620*time.Second, budget.ReasonRarely)), budget.ReasonUnasked, false, 0},
		"a handler is at work":              {served(hooked, out(time.Minute, budget.ReasonFollows)), "", false, 9 * time.Minute},
		"a handler is done, for a workload": {served(hooked, out(time.Minute, budget.ReasonFollows), done), "", true, 5 * time.Second},
		"a handler is done, for a drain":    {served(hooked, out(time.Minute, budget.ReasonRepeat), done), "", false, 19*time.Minute + 30*time.Second},
		"a handler never is":                {served(hooked, out(10*time.Minute, budget.ReasonFollows)), "", true, 5 * time.Second},
		"a clock that is far ahead":         {served(out(-time.Hour, budget.ReasonRepeat)), budget.ReasonRepeat, false, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := budget.Attend(tc.pod, now)
			if d.Finish != tc.finish || d.Again != tc.again || (d.Turn != nil) != (tc.reason != "") {
				t.Errorf("%+v, want reason %q, finish %t, again in %s", d, tc.reason, tc.finish, tc.again)
			}
			if d.Turn != nil && (d.Turn.Reason != tc.reason || (d.Turn.Status == corev1.ConditionFalse) != (tc.reason == budget.ReasonRepeat)) {
				t.Errorf("condition %+v, want %s", d.Turn, tc.reason)
			}
		})
	}
}

// A pod that is out of service is as good as not Ready, before its kubelet says so.
func TestAPodOutOfServiceIsNotAvailable(t *testing.T) {
	if !budget.PodOf(served(), 0, now).Available || budget.PodOf(served(out(0, budget.ReasonRepeat)), 0, now).Available {
		t.Error("available without service, or not available with it")
	}
}

func TestAStatefulSetStillWantsThatAPodGoes(t *testing.T) {
	pod := func(name, revision string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: revision}}}
	}
	set := func(edits ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3))}, Status: appsv1.StatefulSetStatus{UpdateRevision: "new"}}
		for _, edit := range edits {
			edit(s)
		}
		return s
	}
	partition := func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))}
	}
	from := func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }
	manual := func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }
	ending := func(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{Time: now} }
	cases := map[string]struct {
		set  *appsv1.StatefulSet
		pod  *corev1.Pod
		want bool
	}{
		"of an old revision":           {set(), pod("web-1", "old"), true},
		"rolled back, or forged":       {set(), pod("web-1", "new"), false},
		"below the partition":          {set(partition), pod("web-1", "old"), false},
		"above the partition":          {set(partition), pod("web-2", "old"), true},
		"scaled in":                    {set(), pod("web-3", "new"), true},
		"ordinals begin at five":       {set(from), pod("web-7", "new"), false},
		"… and the pod is before them": {set(from), pod("web-4", "new"), true},
		"… below the partition":        {set(from, partition), pod("web-6", "old"), false},
		"a user deletes the pods":      {set(manual), pod("web-1", "old"), false},
		"the set is deleted":           {set(ending), pod("web-1", "old"), false},
		"a revision that is not known": {set(func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "" }), pod("web-1", "old"), false},
		"a name that has no ordinal":   {set(), pod("web", "old"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := budget.Unwanted(tc.set, tc.pod); got != tc.want {
				t.Errorf("unwanted %t, want %t", got, tc.want)
			}
		})
	}
}
