package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestHeld asks which clocks begin again.
func TestHeld(t *testing.T) {
	deleted := metav1.NewTime(now.Wall)
	for name, tc := range map[string]struct {
		deleted     *metav1.Time
		uid         string
		ended, asks time.Duration
		want        bool
	}{
		"a Terminating pod, a minute after its end":    {deleted: &deleted, uid: "uid", ended: time.Minute, asks: 10 * time.Minute, want: true},
		"… and earlier, as each pod for a second":      {deleted: &deleted, uid: "uid", ended: 59 * time.Second, asks: 10 * time.Minute},
		"… a quarter of a short reservation":           {deleted: &deleted, uid: "uid", ended: 15 * time.Second, asks: time.Minute, want: true},
		"… whose time has passed while nobody looked":  {deleted: &deleted, uid: "uid", ended: time.Hour, asks: time.Minute, want: true},
		"a pod that has ended and that nobody deleted": {uid: "uid", ended: time.Minute, asks: 10 * time.Minute},
		"another life": {deleted: &deleted, uid: "other", ended: time.Minute, asks: 10 * time.Minute},
		"a life whose UID the runtime has never passed": {deleted: &deleted, ended: time.Minute, asks: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			pod := plan.Strip(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "uid", DeletionTimestamp: tc.deleted}})
			from := now
			from.Wall, from.Up = now.Wall.Add(-tc.ended), now.Up-tc.ended
			r := reservation.Reservation{Owner: reservation.Owner{Network: "net", Namespace: "default", Pod: "web-0", IfName: "eth0"}, Deadline: reservation.Deadline{From: from, For: tc.asks}}
			r.UID = tc.uid
			got := plan.Held(plan.OrphansInput{Now: now, Reservations: []reservation.Reservation{r}, Pods: plan.PodList{Items: []corev1.Pod{pod}}})
			if (len(got) == 1) != tc.want {
				t.Errorf("held %v, want %t", got, tc.want)
			}
		})
	}
}
