package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestFindLeftBehind(t *testing.T) {
	of := func(p testenv.Pod) *plan.PodList {
		list := &plan.PodList{}
		list.Items = append(list.Items, *p.Pod)
		return list
	}
	fromRuntime := func(containers ...string) *plan.PodList {
		list := of(pod("uid"))
		list.Containers = map[string]bool{}
		for _, c := range containers {
			list.Containers[c] = true
		}
		return list
	}
	placeholder := func(a *reservation.Attachment) {
		a.ID.ContainerID, a.Owner.Namespace, a.Owner.Pod = reservation.NetNSPlaceholder(reservation.NetNS{Path: "p"}), "", ""
	}
	waitedFor := func(since time.Duration) func(*reservation.Attachment) {
		return func(a *reservation.Attachment) { m := ago(since); a.RefusedSince = &m }
	}
	for name, tc := range map[string]struct {
		change  func(*reservation.Attachment)
		unseen  bool // the namespace does not certainly exist
		others  []reservation.Attachment
		pods    *plan.PodList
		problem string // a part of it; "" for none
	}{
		"the pod runs":                              {pods: of(pod("uid"))},
		"the pods are not known":                    {},
		"the pod runs, and the network has a claim": {pods: of(pod("uid")), change: func(a *reservation.Attachment) { a.Owner.Pod = "k8s.cni.cncf.io/IPAMClaim/vm.red/ips" }},
		"the pod is gone":                           {pods: &plan.PodList{}, problem: "its pod is gone"},
		"the pod is gone, and so is its namespace":  {pods: &plan.PodList{}, unseen: true},
		"the attachment is young":                   {pods: &plan.PodList{}, change: func(a *reservation.Attachment) { a.Since = ago(time.Minute) }},
		"the runtime knows the container":           {pods: fromRuntime("c", "d")},
		"the runtime was wiped":                     {pods: fromRuntime(), problem: "the runtime does not know its container"},
		"the runtime may know what a rebuild found": {pods: fromRuntime(), change: placeholder},
		"a container that is not a pod":             {pods: &plan.PodList{}, change: func(a *reservation.Attachment) { a.Owner.Namespace, a.Owner.Pod = "", "" }},
		"a successor has waited for long":           {pods: of(pod("later")), change: waitedFor(time.Hour), problem: "waits for its end"},
		"a successor waits":                         {pods: of(pod("later")), change: waitedFor(time.Minute)},
		"the pod has a newer container": {
			pods: of(pod("uid")), problem: "its pod has a newer container",
			others: []reservation.Attachment{attached(func(a *reservation.Attachment) { a.ID.ContainerID, a.Seq, a.Since = "newer", 2, ago(time.Minute) })},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := attached()
			if tc.change != nil {
				tc.change(&a)
			}
			in := plan.LeftBehindInput{Now: now, Pods: tc.pods, Grace: 5 * time.Minute, Attachments: []plan.Attachment{{Attachment: a, NetNSExists: !tc.unseen}}}
			for _, o := range tc.others {
				in.Attachments = append(in.Attachments, plan.Attachment{Attachment: o, NetNSExists: true})
			}
			got := plan.FindLeftBehind(in)
			if (len(got) == 1) != (tc.problem != "") || len(got) > 0 && (got[0].ID != a.ID || !strings.Contains(got[0].Problem, tc.problem)) {
				t.Errorf("got %v, want %q", got, tc.problem)
			}
		})
	}
}
