package agent_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/agent"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var now = reservation.Moment{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), BootID: "boot", Up: 10 * time.Hour}

func ago(d time.Duration) reservation.Moment {
	return reservation.Moment{Wall: now.Wall.Add(-d), BootID: now.BootID, Up: now.Up - d}
}

// attached returns an attachment of pod web-0 that is an hour old.
func attached(change ...func(*reservation.Attachment)) reservation.Attachment {
	a := reservation.Attachment{
		ID:    reservation.AttachmentID{Network: "net", ContainerID: "c", IfName: "eth0"},
		Owner: reservation.Owner{Network: "net", Namespace: "default", Pod: "web-0", IfName: "eth0"},
		UID:   "uid", Since: ago(time.Hour), AnnotationsSeen: true,
	}
	for _, c := range change {
		c(&a)
	}
	return a
}

func pod(uid string) testenv.Pod {
	p := testenv.APod("web-0").On("n1")
	p.UID = types.UID(uid)
	return p
}

func TestPlanReconcile(t *testing.T) {
	id := attached().ID
	wish := func(w reservation.RetentionRequest) agent.ReconcileDecision {
		return agent.ReconcileDecision{Wishes: map[reservation.AttachmentID]reservation.RetentionRequest{id: w}}
	}
	for name, tc := range map[string]struct {
		attachment reservation.Attachment
		pods       []testenv.Pod
		gone       bool
		caps       map[string]time.Duration
		want       agent.ReconcileDecision
	}{
		"what is stored is what the pod asks for": {
			attachment: attached(func(a *reservation.Attachment) { a.Retain = 10 * time.Minute }),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "10")},
		},
		"the runtime passed on no annotations": {
			attachment: attached(),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "10").With(reservation.ModeAnnotation, "required")},
			want:       wish(reservation.RetentionRequest{Retain: 10 * time.Minute, Mode: reservation.Required}),
		},
		"a pod that asks for nothing is known to": {
			attachment: attached(func(a *reservation.Attachment) { a.Retain, a.AnnotationsSeen = time.Minute, false }),
			pods:       []testenv.Pod{pod("uid")},
			want:       wish(reservation.RetentionRequest{}),
		},
		"a pod asks for more than there is": {
			attachment: attached(),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "999")},
			want:       wish(reservation.RetentionRequest{Retain: time.Hour}),
		},
		"the network allows less than the agent would": {
			attachment: attached(func(a *reservation.Attachment) { a.Retain = 30 * time.Minute }),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "999")},
			caps:       map[string]time.Duration{"net": 30 * time.Minute},
		},
		"the network allows more": {
			attachment: attached(),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "999")},
			caps:       map[string]time.Duration{"net": 2 * time.Hour},
			want:       wish(reservation.RetentionRequest{Retain: 2 * time.Hour}),
		},
		"another network does": {
			attachment: attached(),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "999")},
			caps:       map[string]time.Duration{"other": 2 * time.Hour},
			want:       wish(reservation.RetentionRequest{Retain: time.Hour}),
		},
		"a later pod of the name has no say": {
			attachment: attached(),
			pods:       []testenv.Pod{pod("later").With(reservation.RetainAnnotation, "10")},
		},
		"sandbox and pod are gone": {
			attachment: attached(), gone: true,
			want: agent.ReconcileDecision{Ended: []reservation.AttachmentID{id}},
		},
		"the sandbox is there without a pod": {attachment: attached()},
		"the pod is there, its sandbox about to be remade": {
			attachment: attached(), gone: true, pods: []testenv.Pod{pod("uid")},
		},
		"a static pod is known by its name": {
			attachment: attached(), gone: true, pods: []testenv.Pod{pod("mirror")},
		},
		"a new attachment is given time": {
			attachment: attached(func(a *reservation.Attachment) { a.Since = ago(time.Minute) }), gone: true,
		},
		"a container that is no pod is left to its runtime": {
			attachment: attached(func(a *reservation.Attachment) { a.Owner.Namespace, a.Owner.Pod = "", "" }), gone: true,
		},
		"no UID is nobody's UID": {
			attachment: attached(func(a *reservation.Attachment) { a.UID = "" }),
			pods:       []testenv.Pod{pod("").With(reservation.RetainAnnotation, "10")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := agent.ReconcileInput{
				Now: now, Attachments: []reservation.Attachment{tc.attachment}, Grace: 5 * time.Minute, MaxRetain: time.Hour, Caps: tc.caps,
				Gone: func(reservation.Attachment) bool { return tc.gone },
			}
			for _, p := range tc.pods {
				in.Pods = append(in.Pods, *p.Pod)
			}
			if diff := cmp.Diff(tc.want, agent.PlanReconcile(in), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanRoutes(t *testing.T) {
	node := func(name string, cidrs []string, addresses ...string) corev1.Node {
		n := testenv.ANode(name)
		n.Spec.PodCIDRs = cidrs
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "198.51.100.9"}, {Type: corev1.NodeHostName, Address: name}}
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		return *n.Node
	}
	self := node("n1", []string{"10.1.0.0/24"}, "192.0.2.1")
	for name, tc := range map[string]struct {
		nodes []corev1.Node
		want  []string
	}{
		"alone": {nodes: []corev1.Node{self}},
		"each family goes by its own": {
			nodes: []corev1.Node{self, node("n2", []string{"10.1.2.0/24", "fd00:2::/64"}, "192.0.2.2", "2001:db8::2")},
			want:  []string{"10.1.2.0/24 via 192.0.2.2", "fd00:2::/64 via 2001:db8::2"},
		},
		"a node without an address of the family gets none": {
			nodes: []corev1.Node{self, node("n2", []string{"10.1.2.0/24", "fd00:2::/64"}, "192.0.2.2")},
			want:  []string{"10.1.2.0/24 via 192.0.2.2"},
		},
		"a node without pod CIDRs waits": {nodes: []corev1.Node{self, node("n2", nil, "192.0.2.2")}},
		"the order is that of the targets": {
			nodes: []corev1.Node{node("n3", []string{"10.1.3.0/24"}, "192.0.2.3"), self, node("n2", []string{"10.1.2.0/24"}, "192.0.2.2")},
			want:  []string{"10.1.2.0/24 via 192.0.2.2", "10.1.3.0/24 via 192.0.2.3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range agent.PlanRoutes("n1", tc.nodes) {
				got = append(got, r.To.String()+" via "+r.Via.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
