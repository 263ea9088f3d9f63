package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// controlledBy returns a pod as the agent keeps it.
func controlledBy(apiVersion, kind string, controller bool) corev1.Pod {
	return plan.Strip(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web-0", UID: "uid", Annotations: map[string]string{reservation.RetainAnnotation: "10"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "w", UID: "w", Controller: &controller}},
	}})
}

func TestPodsThatNeverReturn(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"of a Deployment":                        {controlledBy("apps/v1", "ReplicaSet", true), true},
		"of a Job":                               {controlledBy("batch/v1", "Job", true), true},
		"of a DaemonSet":                         {controlledBy("apps/v1", "DaemonSet", true), true},
		"of a ReplicationController":             {controlledBy("v1", "ReplicationController", true), true},
		"of a StatefulSet":                       {controlledBy("apps/v1", "StatefulSet", true), false},
		"of a kind that is not known":            {controlledBy("apps.kruise.io/v1alpha1", "CloneSet", true), false},
		"of a ReplicaSet of another group":       {controlledBy("example.com/v1", "ReplicaSet", true), false},
		"with an owner that does not control it": {controlledBy("apps/v1", "ReplicaSet", false), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := plan.NeverReturns(&tc.pod); got != tc.want {
				t.Errorf("never returns: %t, want %t", got, tc.want)
			}
			asked := attached(func(a *reservation.Attachment) { a.UID, a.Retain, a.AnnotationsSeen = "uid", 10*time.Minute, true })
			d := plan.Attachments(plan.AttachmentsInput{
				Now: now, Attachments: []plan.Attachment{{Attachment: asked}}, Pods: plan.PodList{Items: []corev1.Pod{tc.pod}}, DefaultMaxRetain: time.Hour,
			})
			if corrected := len(d.Corrected) == 1 && d.Corrected[0].Apply(asked).Retain == 0; corrected != tc.want {
				t.Errorf("corrections %+v, want its reservation dropped: %t", d.Corrected, tc.want)
			}
		})
	}
}

// deleted returns a pod that is being deleted.
func deleted(p corev1.Pod) corev1.Pod {
	p.DeletionTimestamp = &metav1.Time{Time: now.Wall}
	return p
}

func TestOrphans(t *testing.T) {
	r := reserved(0)
	for name, tc := range map[string]struct {
		lent int64
		pods []corev1.Pod
		gone map[string]time.Time
		want plan.Cause
	}{
		"on loan, in a namespace that is gone":    {lent: 7, gone: map[string]time.Time{"default": now.Wall.Add(-time.Hour)}},
		"a pod that is not known":                 {},
		"a completed pod of a Job":                {pods: []corev1.Pod{controlledBy("batch/v1", "Job", true)}, want: plan.CauseWorkload},
		"a deleted pod of a Deployment":           {pods: []corev1.Pod{deleted(controlledBy("apps/v1", "ReplicaSet", true))}, want: plan.CauseWorkload},
		"a pod of a Deployment between sandboxes": {pods: []corev1.Pod{controlledBy("apps/v1", "ReplicaSet", true)}},
		"a pod of a StatefulSet":                  {pods: []corev1.Pod{controlledBy("apps/v1", "StatefulSet", true)}},
		"a namespace that is gone for an hour":    {gone: map[string]time.Time{"default": now.Wall.Add(-time.Hour)}, want: plan.CauseNamespace},
		"a namespace that is gone for 59 minutes": {gone: map[string]time.Time{"default": now.Wall.Add(-59 * time.Minute)}},
		"another namespace that is gone":          {gone: map[string]time.Time{"other": now.Wall.Add(-2 * time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			r.Lent = tc.lent
			got := plan.Orphans(plan.OrphansInput{
				Now: now, Reservations: []reservation.Reservation{r}, Pods: plan.PodList{Items: tc.pods}, Gone: tc.gone, Grace: time.Hour,
			})
			if ended := len(got) == 1 && got[0].Cause == tc.want; ended != (tc.want != "") || len(got) > 1 {
				t.Errorf("orphans %+v, want the cause %q", got, tc.want)
			}
		})
	}
}
