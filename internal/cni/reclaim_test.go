package cni_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestRequiredReservationsGiveWayLast fills a range with reservations. The one that ends soonest
// belongs to a pod with retention "required".
func TestRequiredReservationsGiveWayLast(t *testing.T) {
	w := newTestNode(t)
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

// TestUselessReservationsDoNotGiveWay exhausts a range. The address of the reservation that ends
// soonest could not be handed out.
func TestUselessReservationsDoNotGiveWay(t *testing.T) {
	for name, tc := range map[string]struct {
		useless []string // reserved addresses
		lose    func(w *testNode, addr string)
		want    uint
		left    string
	}{
		"host-local has it by now":   {useless: []string{"10.1.0.2"}, lose: (*testNode).hostLocalTakes, left: "[ns/web-0]"},
		"it is the gateway by now":   {useless: []string{"10.1.0.2"}, lose: (*testNode).moveGateway, left: "[ns/web-0]"},
		"and so are those of others": {useless: []string{"10.1.0.2", "10.1.0.3"}, lose: (*testNode).hostLocalTakes, want: cni.CodeExhausted, left: "[ns/web-0 ns/web-1]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			for i, minutes := range []int{10, 60} {
				w.comeAndGo("ns", fmt.Sprintf("web-%d", i), minutes)
			}
			for _, addr := range tc.useless {
				tc.lose(w, addr)
			}
			for i := 4; i <= 6; i++ {
				w.start(plain(fmt.Sprint("p", i)))
				if _, err := w.addUncached(plain(fmt.Sprint("p", i)), nil); err != nil {
					t.Fatal(err)
				}
			}
			w.start(plain("p7"))
			addrs, err := w.addUncached(plain("p7"), nil)
			if codeOf(err) != tc.want || err == nil && addrs[0].String() != "10.1.0.3" {
				t.Errorf("the ADD answered %v and %v, want the code %d or 10.1.0.3", addrs, err, tc.want)
			}
			if err != nil && (strings.Contains(err.Error(), "refuse") || !strings.Contains(err.Error(), "host-local")) {
				t.Errorf("a network that reclaims says: %v", err)
			}
			if got := fmt.Sprint(w.reserved()); got != tc.left {
				t.Errorf("reserved for %s, want %s", got, tc.left)
			}
		})
	}
}

// hostLocalTakes makes the file of an address that host-local handed out.
func (w *testNode) hostLocalTakes(addr string) { w.hostLocal(addr, "upstream\r\neth0") }

// moveGateway makes an address the gateway of the first range, and frees the old gateway.
func (w *testNode) moveGateway(addr string) {
	w.ipam = map[string]any{"ranges": json.RawMessage(fmt.Sprintf(`[[{"subnet":"10.1.0.0/29","rangeStart":"10.1.0.2","gateway":%q}],[{"subnet":"fd00:1::/64"}]]`, addr))}
}
