package reconcile_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controller "github.com/limpet-io/limpet/internal/budget/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestCauseOf(t *testing.T) {
	ready, dead := testenv.ANode("node").Node, testenv.ANode("node").NotReady().Node
	pod := func(edit func(*corev1.Pod)) *corev1.Pod {
		p := testenv.APod("web-0").On("node").Ready().Pod
		edit(p)
		return p
	}
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	failed := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, reason }
	}
	cases := map[string]struct {
		pod  *corev1.Pod
		node *corev1.Node
		want string // "" for no loss
	}{
		"a pod that is gone":                      {nil, nil, "NotJudged"},
		"a pod that is being deleted":             {pod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }), ready, "NotJudged"},
		"a pod that is Ready":                     {pod(func(*corev1.Pod) {}), ready, ""},
		"a pod that is Ready on a node that died": {pod(func(*corev1.Pod) {}), dead, ""},
		"a pod that is not Ready":                 {pod(unready), ready, "NotReady"},
		"a pod that is not Ready as its node":     {pod(unready), dead, "NodeLost"},
		"a pod whose node is gone":                {pod(unready), nil, "NodeLost"},
		"a pod that succeeded":                    {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), ready, ""},
		"a pod that failed":                       {pod(failed("")), ready, "PodFailed"},
		"a pod that the kubelet evicted":          {pod(failed("Evicted")), ready, "EvictedByKubelet"},
		"a pod on a node that shut down":          {pod(failed("Terminated")), dead, "EvictedByKubelet"},
		"a pod whose condition names the kubelet": {pod(func(p *corev1.Pod) {
			unready(p)
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
			})
		}), ready, "EvictedByKubelet"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := controller.CauseOf(tc.pod, tc.node); got != tc.want {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}

// A loss counts once, and after a moment in which its entry could still come into the cache.
func TestLosses(t *testing.T) {
	type look struct {
		after     time.Duration
		available map[types.UID]bool
		causes    map[types.UID]string
		judged    []types.UID
		want      []string
	}
	has, hasNot := map[types.UID]bool{"a": true}, map[types.UID]bool{"a": false}
	gone, unready := map[types.UID]string{"a": "NotJudged"}, map[types.UID]string{"a": "NotReady"}
	second, none := time.Second, map[types.UID]bool{}
	cases := map[string][]look{
		"gone without an entry": {
			{0, has, nil, nil, nil},
			{second, none, gone, nil, nil},
			{second + controller.LossDelay, none, gone, nil, []string{"a NotJudged"}},
			{time.Minute, none, gone, nil, nil},
		},
		"gone, and its entry is seen later": {
			{0, has, nil, nil, nil},
			{second, none, gone, nil, nil},
			{2 * second, none, gone, []types.UID{"a"}, nil},
			{time.Minute, none, gone, nil, nil},
		},
		"never available": {
			{0, hasNot, nil, nil, nil},
			{second, none, gone, nil, nil},
			{time.Minute, none, gone, nil, nil},
		},
		"not Ready, Ready and not Ready again counts twice": {
			{0, has, nil, nil, nil},
			{second, hasNot, unready, nil, nil},
			{10 * second, hasNot, unready, nil, []string{"a NotReady"}},
			{11 * second, hasNot, unready, nil, nil},
			{20 * second, has, nil, nil, nil},
			{21 * second, hasNot, unready, nil, nil},
			{30 * second, hasNot, unready, nil, []string{"a NotReady"}},
		},
		"Ready again at once": {
			{0, has, nil, nil, nil},
			{second, hasNot, unready, nil, nil},
			{2 * second, has, nil, nil, nil},
			{time.Minute, has, nil, nil, nil},
		},
		"the first cause counts": {
			{0, has, nil, nil, nil},
			{second, hasNot, map[types.UID]string{"a": "NodeLost"}, nil, nil},
			{time.Minute, none, gone, nil, []string{"a NodeLost"}},
		},
		"a Ready pod that does not count for a while is not lost, and may be lost later": {
			{0, has, nil, nil, nil},
			{second, hasNot, nil, nil, nil},
			{time.Minute, hasNot, nil, nil, nil},
			{2 * time.Minute, none, gone, nil, nil},
			{3 * time.Minute, none, gone, nil, []string{"a NotJudged"}},
		},
		"a pod that is no longer covered is not lost": {
			{0, has, nil, nil, nil},
			{second, none, nil, nil, nil},
			{time.Minute, none, nil, nil, nil},
		},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			var losses controller.Losses
			for i, l := range looks {
				got := losses.Look(noon.Add(l.after), l.available, l.causes, l.judged...)
				if diff := cmp.Diff(l.want, got); diff != "" {
					t.Errorf("look %d: losses (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}
