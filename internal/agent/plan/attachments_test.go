package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func pod(uid string) testenv.Pod {
	p := testenv.APod("web-0").On("n1")
	p.UID = types.UID(uid)
	return p
}

func TestAttachments(t *testing.T) {
	id := attached().ID
	corrected := func(request reservation.RetentionRequest) plan.AttachmentsDecision {
		return plan.AttachmentsDecision{Corrected: []plan.Correction{{ID: id, Request: request}}}
	}
	newer := attached(func(a *reservation.Attachment) { a.ID.ContainerID, a.UID, a.Seq = "newer", "", 2 })
	for name, tc := range map[string]struct {
		attachment reservation.Attachment
		pods       []testenv.Pod
		gone       bool
		maxRetain  map[string]time.Duration
		// others are attachments whose sandboxes exist.
		others []reservation.Attachment
		// fromCreation and containers are what a runtime as the source of pods says.
		fromCreation bool
		containers   map[string]bool
		want         plan.AttachmentsDecision
	}{
		"the stored retention is what the pod asks for": {
			attachment: attached(func(a *reservation.Attachment) { a.Retain = 10 * time.Minute }),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "10")},
		},
		"the runtime passed on no annotations": {
			attachment: attached(),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "10").With(reservation.ModeAnnotation, "required")},
			want:       corrected(reservation.RetentionRequest{Retain: 10 * time.Minute, Mode: reservation.Required}),
		},
		"a pod asks for nothing, which was not stored yet": {
			attachment: attached(func(a *reservation.Attachment) { a.Retain, a.AnnotationsSeen = time.Minute, false }),
			pods:       []testenv.Pod{pod("uid")},
			want:       corrected(reservation.RetentionRequest{}),
		},
		"a pod asks for more than the default limit": {
			attachment: attached(),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "999")},
			want:       corrected(reservation.RetentionRequest{Retain: time.Hour}),
		},
		"the network's limit is below the default": {
			attachment: attached(func(a *reservation.Attachment) { a.Retain = 30 * time.Minute }),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "999")},
			maxRetain:  map[string]time.Duration{"net": 30 * time.Minute},
		},
		"the network's limit is above the default": {
			attachment: attached(),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "999")},
			maxRetain:  map[string]time.Duration{"net": 2 * time.Hour},
			want:       corrected(reservation.RetentionRequest{Retain: 2 * time.Hour}),
		},
		"another network's limit is above the default": {
			attachment: attached(),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "999")},
			maxRetain:  map[string]time.Duration{"other": 2 * time.Hour},
			want:       corrected(reservation.RetentionRequest{Retain: time.Hour}),
		},
		"a later pod of the same name is ignored": {
			attachment: attached(),
			pods:       []testenv.Pod{pod("later").With(reservation.RetainAnnotation, "10")},
		},
		"sandbox and pod are gone": {
			attachment: attached(), gone: true,
			want: plan.AttachmentsDecision{Ended: []reservation.AttachmentID{id}},
		},
		"the pod is gone, its sandbox is not": {attachment: attached()},
		"the sandbox is gone, its pod is not": {
			attachment: attached(), gone: true, pods: []testenv.Pod{pod("uid")},
		},
		"a static pod is found by its name": {
			attachment: attached(), gone: true, pods: []testenv.Pod{pod("mirror")},
		},
		"sandbox and pod of a young attachment are gone": {
			attachment: attached(func(a *reservation.Attachment) { a.Since = ago(time.Minute) }), gone: true,
		},
		"a container that is not a pod is skipped": {
			attachment: attached(func(a *reservation.Attachment) { a.Owner.Namespace, a.Owner.Pod = "", "" }), gone: true,
		},
		"the pod has a newer sandbox": {
			attachment: attached(), gone: true, pods: []testenv.Pod{pod("uid")}, others: []reservation.Attachment{newer},
			want: plan.AttachmentsDecision{Ended: []reservation.AttachmentID{id}},
		},
		"the pod has a newer sandbox on another interface": {
			attachment: attached(), gone: true, pods: []testenv.Pod{pod("uid")},
			others: []reservation.Attachment{attached(func(a *reservation.Attachment) { a.Owner.IfName, a.ID.IfName, a.Seq = "eth1", "eth1", 2 })},
		},
		"the pod has an older sandbox": {
			attachment: attached(func(a *reservation.Attachment) { a.Seq = 3 }), gone: true, pods: []testenv.Pod{pod("uid")}, others: []reservation.Attachment{newer},
		},
		"an owner that a state does not know which was made again": {
			attachment: attached(), pods: []testenv.Pod{pod("uid").With(reservation.OwnerAnnotation, "///db")},
			want: plan.AttachmentsDecision{Corrected: []plan.Correction{{ID: id, Owner: "///db"}}},
		},
		"an owner that is known": {
			attachment: attached(func(a *reservation.Attachment) { a.Owner.Pod = "///db" }), pods: []testenv.Pod{pod("uid").With(reservation.OwnerAnnotation, "///db")},
		},
		"a claim of the network": {
			attachment: attached(func(a *reservation.Attachment) { a.Owner.Pod = "k8s.cni.cncf.io/IPAMClaim/vm.red/ips" }),
			pods:       []testenv.Pod{pod("uid").With(reservation.OwnerAnnotation, "k8s.cni.cncf.io/IPAMClaim/vm.blue/ips")},
		},
		"a claim of the network, and the pod exists": {
			attachment: attached(func(a *reservation.Attachment) { a.Owner.Pod = "k8s.cni.cncf.io/IPAMClaim/vm.red/ips" }), gone: true,
			pods: []testenv.Pod{pod("uid").With(reservation.OwnerAnnotation, "k8s.cni.cncf.io/IPAMClaim/vm.blue/ips")},
		},
		"a claim of the network, and the pod is gone": {
			attachment: attached(func(a *reservation.Attachment) { a.Owner.Pod = "k8s.cni.cncf.io/IPAMClaim/vm.red/ips" }), gone: true, pods: []testenv.Pod{pod("other")},
			want: plan.AttachmentsDecision{Ended: []reservation.AttachmentID{id}},
		},
		"an owner whose pod exists": {
			attachment: attached(func(a *reservation.Attachment) { a.Owner.Pod = "apps/Deployment/web/db" }), gone: true,
			pods: []testenv.Pod{pod("uid").With(reservation.OwnerAnnotation, "apps/Deployment/web/db")},
		},
		"an owner whose pod is gone": {
			attachment: attached(func(a *reservation.Attachment) { a.Owner.Pod = "apps/Deployment/web/db" }), gone: true, pods: []testenv.Pod{pod("other")},
			want: plan.AttachmentsDecision{Ended: []reservation.AttachmentID{id}},
		},
		"the runtime does not know a container that is not a pod": {
			attachment: attached(func(a *reservation.Attachment) { a.Owner.Namespace, a.Owner.Pod = "", "" }), gone: true, containers: map[string]bool{"other": true},
			want: plan.AttachmentsDecision{Ended: []reservation.AttachmentID{id}},
		},
		"the runtime knows a container that is not a pod": {
			attachment: attached(func(a *reservation.Attachment) { a.Owner.Namespace, a.Owner.Pod = "", "" }), gone: true, containers: map[string]bool{"c": true},
		},
		"annotations of the creation are not newer than those of the ADD": {
			attachment: attached(func(a *reservation.Attachment) { a.Retain = 30 * time.Minute }),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "10")}, fromCreation: true,
		},
		"annotations of the creation count where the ADD had none": {
			attachment: attached(func(a *reservation.Attachment) { a.AnnotationsSeen = false }),
			pods:       []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "10")}, fromCreation: true,
			want: corrected(reservation.RetentionRequest{Retain: 10 * time.Minute}),
		},
		"a request in cni-args stays": {
			attachment: attached(func(a *reservation.Attachment) { a.Retain, a.Mode = 30*time.Minute, reservation.Required }),
			pods:       []testenv.Pod{pod("uid").With(reservation.NetworkSelections[0], `[{"cni-args":{"`+reservation.RetainAnnotation+`":"30","`+reservation.ModeAnnotation+`":"required"}}]`)},
		},
		"an annotation wins over cni-args": {
			attachment: attached(func(a *reservation.Attachment) { a.Retain, a.Mode = 30*time.Minute, reservation.Required }),
			pods: []testenv.Pod{pod("uid").With(reservation.RetainAnnotation, "10").With(reservation.NetworkSelections[1],
				`[{"cni-args":{"`+reservation.RetainAnnotation+`":"30"}}]`)},
			want: corrected(reservation.RetentionRequest{Retain: 10 * time.Minute}),
		},
		"one word wins over cni-args": {
			attachment: attached(func(a *reservation.Attachment) { a.Retain = 30 * time.Minute }),
			pods: []testenv.Pod{pod("uid").With(reservation.KeepAnnotation, "10m").With(reservation.NetworkSelections[1],
				`[{"cni-args":{"`+reservation.RetainAnnotation+`":"30"}}]`)},
			want: corrected(reservation.RetentionRequest{Retain: 10 * time.Minute}),
		},
		"cni-args that the plugin has not read": {
			attachment: attached(func(a *reservation.Attachment) { a.Retain, a.AnnotationsSeen = 30*time.Minute, false }),
			pods:       []testenv.Pod{pod("uid").With(reservation.NetworkSelections[0], `[{"cni-args":{"`+reservation.RetainAnnotation+`":"30"}}]`)},
			want:       corrected(reservation.RetentionRequest{}),
		},
		"an attachment without UID matches no pod": {
			attachment: attached(func(a *reservation.Attachment) { a.UID = "" }),
			pods:       []testenv.Pod{pod("").With(reservation.RetainAnnotation, "10")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := plan.AttachmentsInput{
				Now: now, Attachments: []plan.Attachment{{Attachment: tc.attachment, NetNSGone: tc.gone}}, Grace: 5 * time.Minute,
				MaxRetain: tc.maxRetain, DefaultMaxRetain: time.Hour,
			}
			for _, a := range tc.others {
				in.Attachments = append(in.Attachments, plan.Attachment{Attachment: a})
			}
			in.Pods.FromCreation, in.Pods.Containers = tc.fromCreation, tc.containers
			for _, p := range tc.pods {
				in.Pods.Items = append(in.Pods.Items, *p.Pod)
			}
			if diff := cmp.Diff(tc.want, plan.Attachments(in), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunning(t *testing.T) {
	all := []plan.Attachment{{NetNSGone: true}, {}, {}}
	if got := plan.Running(all); got != 2 {
		t.Errorf("got %d, want 2: the attachments whose sandbox may exist", got)
	}
}

// TestFollowIsForOwnMode corrects an attachment of a pod that asks to follow, on two networks.
func TestFollowIsForOwnMode(t *testing.T) {
	if reservation.FollowNetwork != plan.NetworkName {
		t.Errorf("addresses follow on the network %s, and own mode is %s", reservation.FollowNetwork, plan.NetworkName)
	}
	for network, want := range map[string]reservation.RetentionRequest{
		plan.NetworkName: {Retain: reservation.Forever, Mode: reservation.Follow},
		"cbr0":           {Retain: time.Hour},
	} {
		a := attached(func(a *reservation.Attachment) { a.ID.Network, a.Owner.Network = network, network })
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "uid", Annotations: map[string]string{reservation.ModeAnnotation: "follow"}}}
		d := plan.Attachments(plan.AttachmentsInput{
			Now: now, Follows: plan.NetworkName, Attachments: []plan.Attachment{{Attachment: a}}, Pods: plan.PodList{Items: []corev1.Pod{pod}}, DefaultMaxRetain: time.Hour,
		})
		if len(d.Corrected) != 1 || d.Corrected[0].Request != want {
			t.Errorf("on %s: %+v, want %+v", network, d.Corrected, want)
		}
	}
}
