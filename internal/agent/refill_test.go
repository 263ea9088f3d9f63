package agent_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestANodeThatIsInstalledAnewIsRefilled removes all files of a node, as a new image does, and starts the agent again
// under the same name: what the API shows is reserved before the plugin is there.
func TestANodeThatIsInstalledAnewIsRefilled(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "anew")
	n.attach(t, ns, "web-0", "uid-0", n.liveNetNS(), time.Second, withAddress("10.1.0.3"))
	stop := n.startUntil(t)
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPAttached})
	stop()
	pool := &v1alpha1.NodeIPPool{ObjectMeta: metav1.ObjectMeta{Name: "anew.net"}}
	env.Change(t, pool, func() { pool.Status.StateSince = &metav1.Time{Time: time.Now().Add(-time.Hour)} }) // the old state is an hour old
	if err := os.RemoveAll(n.StateDir); err != nil {
		t.Fatal(err)
	}
	n.Registry = prometheus.NewRegistry()
	n.start(t)
	n.pool(t, func(s v1alpha1.NodeIPPoolStatus) error {
		if since := s.StateSince; since == nil || time.Since(since.Time).Abs() > time.Minute {
			return fmt.Errorf("the state is there since %v", since)
		}
		return nil
	})
	n.stateIs(t, map[string]string{"web-0": "reserved"})
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPReserved})
	err := n.store.View(t.Context(), func(tx *persistence.Tx) error {
		r, found, err := tx.Reservation(reservation.Owner{Network: "net", Namespace: ns, Pod: "web-0", IfName: "eth0"})
		if !found || r.UID != "uid-0" || len(r.Addresses) != 1 || r.Addresses[0].String() != "10.1.0.3" || tx.Recoveries() != 1 {
			t.Errorf("%+v, %t, %d recoveries", r, found, tx.Recoveries())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestAFinalizerHoldsTheClock keeps a pod Terminating by a finalizer: its reservation does not run out. It does after the
// pod is gone.
func TestAFinalizerHoldsTheClock(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "finalizer")
	pod := testenv.APod("web-0").In(ns).On(n.Node).With(reservation.RetainAnnotation, "60")
	pod.Finalizers = []string{"example.com/backup"}
	env.Create(t, pod.Pod)
	if err := env.Client.Delete(t.Context(), pod.Pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	owner := reservation.Owner{Network: "net", Namespace: ns, Pod: "web-0", IfName: "eth0"}
	n.update(t, func(tx *persistence.Tx) error {
		return tx.PutReservation(reservation.Reservation{
			Owner: owner, UID: string(pod.UID), Retain: time.Hour, Deadline: reservation.Deadline{From: n.ago(50 * time.Minute), For: time.Hour},
		})
	})
	n.start(t)
	testenv.Eventually(t, func() error {
		return n.store.View(t.Context(), func(tx *persistence.Tx) error {
			r, found, err := tx.Reservation(owner)
			if left := r.Deadline.Left(n.Now()); err == nil && (!found || left < 30*time.Minute) {
				err = fmt.Errorf("reserved: %t, for %s", found, left)
			}
			return err
		})
	})
	without := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := env.Client.Patch(t.Context(), pod.Pod, without); err != nil {
		t.Fatal(err)
	}
}
