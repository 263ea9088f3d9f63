package console_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// TestLost lists the newest loss first, each with what helps.
func TestLost(t *testing.T) {
	at := func(ago time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-ago)} }
	web := appsv1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	web.Status.PodStates = map[string]appsv1beta1.PodState{
		"web-0": {NodeName: "n1", IPs: "10.0.1.5", Outcome: appsv1beta1.Kept, RecordedAt: at(time.Minute)},
		"web-1": {NodeName: "n2", IPs: "10.0.2.6", Outcome: appsv1beta1.Moved, Cause: pin.ReasonNodeCordoned, From: &appsv1beta1.Place{NodeName: "n1", IPs: "10.0.1.6"}, RecordedAt: at(48 * time.Hour)},
		"web-3": {NodeName: "n1"},
	}
	web.Status.Rebuilds = &appsv1beta1.Rebuilds{Last: &appsv1beta1.Rebuild{Pod: "web-2", Outcome: appsv1beta1.Lost, Cause: pin.CauseExpired, Message: "told", Time: *at(time.Hour)}}
	r := console.Lost(&facts.Facts{Now: now, States: []appsv1beta1.PersistentPodState{web}})
	if len(r.Pods) != 2 || r.Pods[0].Pod != "web-2" || r.Pods[0].Message != "told" || r.Pods[1].Pod != "web-1" || r.Pods[1].From.IPs != "10.0.1.6" {
		t.Fatalf("%+v", r.Pods)
	}
	for _, p := range r.Pods {
		if p.Remedy == "" || p.Namespace != "shop" {
			t.Errorf("%+v", p)
		}
	}
}
