package pin_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
)

func TestOrphans(t *testing.T) {
	cases := map[string]struct {
		ago         time.Duration // 0 for just now
		want        pin.PlaceVerdict
		wantChanged bool
		wantAgain   time.Duration
	}{
		"a PersistentPodState that was just deleted may be made anew": {0, pin.Hold, true, time.Minute},
		"that is told once":               {20 * time.Second, pin.Hold, false, 40 * time.Second},
		"in the end no workload wants it": {time.Minute, pin.LetGo, false, 0},
		"a late look finds the same":      {time.Hour, pin.LetGo, false, 0},
		"a clock that was set back waits": {-time.Second, pin.Hold, false, 61 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := pin.OrphanInput{State: "db", Pods: []corev1.Pod{*unplaced().Pod}, Now: now}
			if tc.ago != 0 {
				in.Since = now.Add(-tc.ago)
			}
			waits, again := pin.Orphans(in)
			if len(waits) != 1 || again != tc.wantAgain {
				t.Fatalf("waits %+v, again after %s, want one and %s", waits, again, tc.wantAgain)
			}
			w := waits[0]
			if w.Decision.Verdict != tc.want || w.Changed != tc.wantChanged || w.Decision.Reason != pin.ReasonNotRequired {
				t.Errorf("wait %+v, want verdict %v, changed %t", w, tc.want, tc.wantChanged)
			}
			if text := w.String(); !strings.Contains(text, "PersistentPodState db") || !strings.Contains(text, hostname+"=n1") {
				t.Errorf("event %q names neither or only one of what required and what is required", text)
			}
		})
	}
}

func TestPinnedBy(t *testing.T) {
	set := testenv.AStatefulSet("web", 1).StatefulSet
	cases := map[string]struct {
		pod  testenv.Pod
		want string
	}{
		"a pod that waits":                          {unplaced().OwnedBy(set), "web"},
		"a pod whose template says so":              {unplaced().Of(&metav1.ObjectMeta{Name: "web-6f"}, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")), ""},
		"a pod that has a node":                     {unplaced().OwnedBy(set).On("n1"), ""},
		"a pod that no workload would make anew":    {unplaced(), ""},
		"a pod that the scheduler has not seen yet": {testenv.APod("web-0").OwnedBy(set), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := pin.PinnedBy(tc.pod.Pod); got != tc.want {
				t.Errorf("pinned by %q, want %q", got, tc.want)
			}
		})
	}
}
