package pin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/pin"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// A node cannot attract a pod that never ran there, nor one that has run elsewhere since.
func TestProven(t *testing.T) {
	on := func(node string, uid types.UID) pin.Holder { return pin.Holder{Node: node, UID: uid} }
	life := func(node string, uid types.UID, created time.Duration) *pin.Life {
		return &pin.Life{Node: node, UID: uid, Created: now.Add(created)}
	}
	recorded := appsv1beta1.PodState{NodeName: "n1", UID: "second", RecordedAt: &metav1.Time{Time: now}}
	var none appsv1beta1.PodState
	first, third := life("n3", "first", -time.Hour), life("n2", "third", time.Minute)
	cases := map[string]struct {
		holders []pin.Holder
		record  appsv1beta1.PodState
		last    *pin.Life
		want    []string
	}{
		"nothing was seen":                               {[]pin.Holder{on("n2", "third")}, recorded, nil, nil},
		"… and the recorded node needs no proof":         {[]pin.Holder{on("n2", "third"), on("n1", "second")}, recorded, nil, []string{"n1"}},
		"a later life was seen there":                    {[]pin.Holder{on("n2", "third")}, recorded, third, []string{"n2"}},
		"… and the recorded node keeps its own":          {[]pin.Holder{on("n2", "third"), on("n1", "second")}, recorded, third, []string{"n2", "n1"}},
		"another life was seen there":                    {[]pin.Holder{on("n2", "invented")}, recorded, third, nil},
		"the life was seen elsewhere":                    {[]pin.Holder{on("n3", "third")}, recorded, third, nil},
		"a life that was seen there before the record":   {[]pin.Holder{on("n3", "first")}, recorded, first, nil},
		"a life that was created in the recorded second": {[]pin.Holder{on("n2", "third")}, recorded, life("n2", "third", -time.Second), []string{"n2"}},
		"no UID is told, and some life was seen there":   {[]pin.Holder{on("n2", "")}, recorded, third, nil},
		"no UID is told or known":                        {[]pin.Holder{on("n2", "")}, none, life("n2", "", 0), nil},
		"no record, and nothing was seen":                {[]pin.Holder{on("n2", "third")}, none, nil, nil},
		"no record, and the life was seen there":         {[]pin.Holder{on("n2", "third")}, none, third, []string{"n2"}},
		"no record, and a later life is held elsewhere":  {[]pin.Holder{on("n3", "first"), on("n2", "third")}, none, third, []string{"n2"}},
		"no record, and a later life is held nowhere":    {[]pin.Holder{on("n3", "first")}, none, third, nil},
		"a record that does not say when it was made":    {[]pin.Holder{on("n3", "first")}, appsv1beta1.PodState{NodeName: "n1"}, first, []string{"n3"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, h := range pin.Proven(tc.holders, tc.record, tc.last) {
				got = append(got, h.Node)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("proven holders (-want +got):\n%s", diff)
			}
		})
	}
}

// The node tells in its IPReservation when the addresses were used last. It is not asked.
func TestProvenTellsTheTimeOfTheController(t *testing.T) {
	record := appsv1beta1.PodState{NodeName: "n1", UID: "second", RecordedAt: &metav1.Time{Time: now}}
	state := &appsv1beta1.PersistentPodState{}
	state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": record}
	cases := map[string]struct {
		told, seen time.Duration
		want       string
	}{
		"the node tells a later time":    {time.Hour, -time.Minute, ""},
		"the node tells an earlier time": {-time.Hour, time.Minute, "n2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			holders := []pin.Holder{{Node: "n2", UID: "third", Seen: now.Add(tc.told)}}
			last := &pin.Life{Node: "n2", UID: "third", Created: now, Seen: now.Add(tc.seen)}
			if got := pin.NewerHolder(state, "web-0", pin.Proven(holders, record, last)); got != tc.want {
				t.Errorf("followed to %q, want %q", got, tc.want)
			}
		})
	}
}
