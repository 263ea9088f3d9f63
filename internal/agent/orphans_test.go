package agent_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestNothingIsReservedForNobody has pods of a Job and of a StatefulSet, and reservations of a namespace that is
// gone. Those of another namespace stay.
func TestNothingIsReservedForNobody(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "orphans")
	n.OrphanGrace = time.Millisecond
	controlled := func(name, apiVersion, kind string) string {
		pod := testenv.APod(name).In(ns).On(n.Node).With(reservation.RetainAnnotation, "10")
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "w", UID: "w", Controller: &yes}}
		env.Create(t, pod.Pod)
		return string(pod.UID)
	}
	n.attach(t, ns, "job-x7k2p", controlled("job-x7k2p", "batch/v1", "Job"), n.liveNetNS(), 0)
	n.attach(t, ns, "web-0", controlled("web-0", "apps/v1", "StatefulSet"), n.liveNetNS(), 0)
	completed := controlled("job-done", "batch/v1", "Job")
	n.update(t, func(tx *persistence.Tx) error {
		return tx.PutReservation(reservation.Reservation{
			Owner: reservation.Owner{Network: "net", Namespace: ns, Pod: "job-done", IfName: "eth0"}, UID: completed,
			Retain: time.Hour, Deadline: reservation.Deadline{From: n.Now(), For: time.Hour},
		})
	})
	n.reserve(t, ns, "web-1", time.Minute, time.Hour)
	n.reserve(t, "no-such-namespace", "web-0", time.Minute, time.Hour)
	n.start(t)
	n.stateIs(t, map[string]string{"job-x7k2p": "attached, retain 0s", "web-0": "attached, retain 10m0s", "web-1": "reserved"})
}
