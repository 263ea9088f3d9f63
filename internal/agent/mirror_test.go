package agent_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestMirrorFollowsTheState compares IPReservations and NodeIPPool with a state file that
// changes. Objects of other nodes stay.
func TestMirrorFollowsTheState(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "mirror")
	other := &v1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "other", Labels: map[string]string{v1alpha1.LabelNode: "another"}},
		Status:     v1alpha1.IPReservationStatus{Node: "another", Network: "net", Interface: "eth0", Pod: "p", IPs: "10.2.0.2", State: v1alpha1.IPAttached},
	}
	stale := other.DeepCopy()
	stale.Name, stale.Labels[v1alpha1.LabelNode] = "stale", n.Node
	env.Create(t, other, stale)
	n.attach(t, ns, "web-0", "u0", n.liveNetNS(), 0)
	n.attach(t, ns, "plain", "u1", n.liveNetNS(), 0, func(a *reservation.Attachment) { a.Retain = 0 })
	n.reserve(t, ns, "web-1", time.Minute, time.Hour)
	n.reserve(t, ns, "lapsed", time.Minute, time.Minute)
	n.reserve(t, "no-such-namespace", "homeless", time.Minute, time.Hour)
	n.start(t)

	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPAttached, "web-1": v1alpha1.IPReserved})
	var pools v1alpha1.NodeIPPoolList
	testenv.Eventually(t, func() error {
		if err := env.Client.List(t.Context(), &pools, client.MatchingLabels{v1alpha1.LabelNode: n.Node}); err != nil {
			return err
		}
		if len(pools.Items) != 1 {
			return fmt.Errorf("%d pools", len(pools.Items))
		}
		return nil
	})
	got := pools.Items[0].Status
	want := v1alpha1.NodeIPPoolStatus{Node: n.Node, Network: "net", Total: 5, Attached: 2, Reserved: 2, Free: 1}
	want.Ranges, want.Conditions, want.StateSince, want.ReservedUntil = got.Ranges, got.Conditions, got.StateSince, got.ReservedUntil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}

	n.update(t, func(tx *persistence.Tx) error {
		a, _, err := tx.Attachment(reservation.AttachmentID{Network: "net", ContainerID: "c-web-0", IfName: "eth0"})
		if err != nil {
			return err
		}
		_, err = lifecycle.End(tx, a, n.Now(), false)
		return errors.Join(err, tx.DeleteReservation(reservation.Owner{Network: "net", Namespace: ns, Pod: "web-1", IfName: "eth0"}))
	})
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPReserved})
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
		t.Errorf("get the object of another node: %v", err)
	}
}

// TestMirrorOfAStateWithoutRanges uses a state file as it is after a rebuild: without ranges.
// Attachments and reservations are shown and freed, and still keep the plugin from being
// uninstalled.
func TestMirrorOfAStateWithoutRanges(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "rebuilt")
	n.StateDir = filepath.Join(t.TempDir(), "rebuilt")
	n.store = persistence.New(persistence.Options{Dir: n.StateDir})
	n.attach(t, ns, "web-0", "u0", n.liveNetNS(), 0)
	n.reserve(t, ns, "web-1", time.Minute, time.Hour)
	n.reserve(t, ns, "lapsed", time.Minute, time.Minute)
	if err := agent.Uninstall(t.Context(), n.Config); err == nil || !strings.Contains(err.Error(), "still attached") {
		t.Errorf("uninstall with an attached pod: %v, want a refusal", err)
	}
	n.start(t)
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPAttached, "web-1": v1alpha1.IPReserved})
	n.stateIs(t, map[string]string{"web-0": "attached, retain 10m0s", "web-1": "reserved"})
	testenv.Eventually(t, func() error {
		var pool v1alpha1.NodeIPPool
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: "rebuilt.net"}, &pool); err != nil {
			return err
		}
		c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionExhausted)
		if pool.Status.Attached != 1 || c == nil || c.Status != metav1.ConditionUnknown {
			return fmt.Errorf("pool: %+v", pool.Status)
		}
		return nil
	})
}

// TestMirrorOutlivesInterference deletes an object that the agent then wants to update.
func TestMirrorOutlivesInterference(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "interference")
	n.attach(t, ns, "web-0", "u0", n.liveNetNS(), 0)
	n.start(t)
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPAttached})
	var list v1alpha1.IPReservationList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), &list.Items[0]); err != nil {
		t.Fatal(err)
	}
	n.update(t, func(tx *persistence.Tx) error {
		a, _, err := tx.Attachment(reservation.AttachmentID{Network: "net", ContainerID: "c-web-0", IfName: "eth0"})
		if err != nil {
			return err
		}
		_, err = lifecycle.End(tx, a, n.Now(), false)
		return err
	})
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPReserved})
}

// TestSchemaRefusesUnknownStates checks that the API server validates the state field.
func TestSchemaRefusesUnknownStates(t *testing.T) {
	o := &v1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "x"},
		Status:     v1alpha1.IPReservationStatus{Node: "n", Network: "net", Interface: "eth0", Pod: "p", IPs: "10.0.0.1", State: "Lent"},
	}
	if err := env.Client.Create(t.Context(), o); !apierrors.IsInvalid(err) {
		t.Errorf("create: %v, want a refusal as invalid", err)
	}
}
