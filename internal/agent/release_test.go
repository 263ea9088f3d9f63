package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestAUserGivesAReservationUp marks all objects of a node with the end of one reservation. That one ends, and its
// object goes; a second reservation and a running pod keep their addresses.
func TestAUserGivesAReservationUp(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "given-up")
	n.reserve(t, ns, "web-0", time.Minute, time.Hour)
	n.reserve(t, ns, "web-1", time.Minute, 2*time.Hour)
	n.attach(t, ns, "web-2", "u", n.liveNetNS(), 0)
	n.start(t)
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPReserved, "web-1": v1alpha1.IPReserved, "web-2": v1alpha1.IPAttached})
	var list v1alpha1.IPReservationList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	ends := ""
	for _, o := range list.Items {
		if o.Status.Pod == "web-0" {
			ends = o.Status.Releases()
		}
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.IPReservation) int { return -strings.Compare(a.Status.Pod, b.Status.Pod) })
	for _, o := range list.Items { // web-0 last: then the agent has seen the marks that mean nothing
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, v1alpha1.LabelRelease, ends)
		if err := env.Client.Patch(t.Context(), &o, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
	}
	n.stateIs(t, map[string]string{"web-1": "reserved", "web-2": "attached, retain 10m0s"})
	n.apiShows(t, map[string]v1alpha1.IPState{"web-1": v1alpha1.IPReserved, "web-2": v1alpha1.IPAttached})
}
