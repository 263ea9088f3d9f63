package cniplugin_test

import (
	"fmt"
	"testing"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestReservationsThatInsistGiveWayLast fills a range with reservations, of which the one
// that ends soonest is of a pod that would rather fail than take another address.
func TestReservationsThatInsistGiveWayLast(t *testing.T) {
	w := newWorld(t)
	of := map[string]string{} // pod by address
	for i := range 5 {
		s := sandbox{id: fmt.Sprintf("c%d", i), pod: fmt.Sprintf("web-%d", i), ifName: "eth0", annotations: map[string]string{reservation.RetainAnnotation: "10"}}
		if i == 0 || i == 3 {
			s.annotations[reservation.ModeAnnotation] = reservation.Required.String()
		}
		of[w.mustAdd(s)[0].String()] = s.pod
		if err := w.del(s); err != nil {
			t.Fatal(err)
		}
		w.pass(1)
	}
	var gaveWay []string
	for i := range 5 {
		addrs := w.mustAdd(sandbox{id: fmt.Sprintf("new-%d", i), pod: fmt.Sprintf("new-%d", i), ifName: "eth0"})
		gaveWay = append(gaveWay, of[addrs[0].String()])
	}
	if got, want := fmt.Sprint(gaveWay), "[web-1 web-2 web-4 web-0 web-3]"; got != want {
		t.Errorf("gave way in the order %s, want %s", got, want)
	}
}
