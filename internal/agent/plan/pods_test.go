package plan_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Users may write 256 KiB onto each pod, and the agent keeps all pods of its node. What it
// reads from the short value is what the plugin read from the long one.
func TestStripKeepsShortValues(t *testing.T) {
	const day = 24 * time.Hour
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Annotations: map[string]string{
		reservation.RetainAnnotation:     strings.Repeat("9", 100<<10),
		reservation.ModeAnnotation:       strings.Repeat("x", 100<<10),
		"example.com/note":               "x",
		reservation.NetworkSelections[0]: `[{"cni-args":{"` + reservation.ModeAnnotation + `":"required","note":"` + strings.Repeat("x", 100<<10) + `"}}]`,
	}}}
	got := plan.Strip(pod)
	bytes := 0
	for key, value := range got.Annotations {
		bytes += len(key) + len(value)
	}
	if bytes > 400 || len(got.Annotations) != 3 || !strings.Contains(got.Annotations[reservation.NetworkSelections[0]], reservation.ModeAnnotation) {
		t.Errorf("%d bytes in %d annotations are kept", bytes, len(got.Annotations))
	}
	want, warns := reservation.ParseRetentionRequest(pod.Annotations, day)
	asks, warnings := reservation.ParseRetentionRequest(got.Annotations, day)
	if asks != want || len(warnings) != len(warns) {
		t.Errorf("read %+v with %q, want %+v with %q", asks, warnings, want, warns)
	}
}

// A pod with an owner comes back under the owner's name, also one of a ReplicaSet. Until admission has completed the name,
// the pod has no owner.
func TestStripKnowsOwners(t *testing.T) {
	for value, returns := range map[string]bool{"": false, "db": false, "apps/Deployment/web/db": true} {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}}
		pod := testenv.APod("web-1").Of(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")).With(reservation.OwnerAnnotation, value).Pod
		got := plan.Strip(pod)
		if plan.NeverReturns(&got) == returns || (got.Annotations[reservation.OwnerAnnotation] != "") != returns {
			t.Errorf("owner %q: never returns: %t, annotations %v", value, plan.NeverReturns(&got), got.Annotations)
		}
	}
}
