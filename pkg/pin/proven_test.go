package pin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// A node cannot attract a pod that never ran there, nor one that has run elsewhere since.
func TestProven(t *testing.T) {
	nodes := map[string]*corev1.Node{"down": testenv.ANode("down").NotReady().Node}
	for _, name := range []string{"n1", "n2", "n3"} {
		nodes[name] = testenv.ANode(name).Node
	}
	on := func(node string, uid types.UID) pin.Holder { return pin.Holder{Node: node, UID: uid} }
	life := func(node string, uid types.UID, created time.Duration) pin.Life {
		return pin.Life{Node: node, UID: uid, Created: now.Add(created)}
	}
	recorded := appsv1beta1.PodState{NodeName: "n1", UID: "second", RecordedAt: &metav1.Time{Time: now}}
	var none appsv1beta1.PodState
	first, second, third := life("n3", "first", -time.Hour), life("n1", "second", -time.Minute), life("n2", "third", time.Minute)
	cases := map[string]struct {
		holders []pin.Holder
		record  appsv1beta1.PodState
		lives   []pin.Life
		want    []string
	}{
		"nothing was seen":                               {[]pin.Holder{on("n2", "third")}, recorded, nil, nil},
		"… and the recorded node needs no proof":         {[]pin.Holder{on("n2", "third"), on("n1", "second")}, recorded, nil, []string{"n1"}},
		"a later life was seen there":                    {[]pin.Holder{on("n2", "third")}, recorded, []pin.Life{second, third}, []string{"n2"}},
		"… and the recorded node keeps its own":          {[]pin.Holder{on("n2", "third"), on("n1", "second")}, recorded, []pin.Life{second, third}, []string{"n2", "n1"}},
		"another life was seen there":                    {[]pin.Holder{on("n2", "invented")}, recorded, []pin.Life{second, third}, nil},
		"the life was seen elsewhere":                    {[]pin.Holder{on("n3", "third")}, recorded, []pin.Life{second, third}, nil},
		"a life that was seen there before the record":   {[]pin.Holder{on("n3", "first")}, recorded, []pin.Life{first, second}, nil},
		"a life that was created in the recorded second": {[]pin.Holder{on("n2", "third")}, recorded, []pin.Life{life("n2", "third", -time.Second)}, []string{"n2"}},
		"no UID is told, and some life was seen there":   {[]pin.Holder{on("n2", "")}, recorded, []pin.Life{third}, []string{"n2"}},
		"no UID is told, and no life was seen there":     {[]pin.Holder{on("n3", "")}, recorded, []pin.Life{third}, nil},
		"no record, and nothing was seen":                {[]pin.Holder{on("n2", "third")}, none, nil, nil},
		"no record, and the life was seen there":         {[]pin.Holder{on("n2", "third")}, none, []pin.Life{third}, []string{"n2"}},
		"no record, and a later life is held elsewhere":  {[]pin.Holder{on("n3", "first"), on("n2", "third")}, none, []pin.Life{first, third}, []string{"n2"}},
		"no record, and a later life is held nowhere":    {[]pin.Holder{on("n3", "first")}, none, []pin.Life{first, third}, []string{"n3"}},
		"no record, and a later life is on a node down":  {[]pin.Holder{on("n3", "first"), on("down", "last")}, none, []pin.Life{first, life("down", "last", 0)}, []string{"n3", "down"}},
		"no record, and an earlier life on a node down":  {[]pin.Holder{on("n2", "third"), on("down", "old")}, none, []pin.Life{life("down", "old", 0), third}, []string{"n2"}},
		"no record, and both lives are on nodes down":    {[]pin.Holder{on("gone", "old"), on("down", "last")}, none, []pin.Life{life("gone", "old", 0), life("down", "last", 0)}, []string{"down"}},
		"a holder that is invented outlives no real one": {[]pin.Holder{on("n3", "invented"), on("n2", "third")}, none, []pin.Life{third}, []string{"n2"}},
		"a record that does not say when it was made":    {[]pin.Holder{on("n3", "first")}, appsv1beta1.PodState{NodeName: "n1"}, []pin.Life{first}, []string{"n3"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, h := range pin.Proven(tc.holders, nodes, tc.record, tc.lives) {
				got = append(got, h.Node)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("proven holders (-want +got):\n%s", diff)
			}
		})
	}
}
