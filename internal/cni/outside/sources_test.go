package outside_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// all is a view in which every address is free.
type all struct{}

func (all) FirstFree(from, _ netip.Addr) (netip.Addr, bool, error) { return from, true, nil }

// TestViewSkipsTakenAddresses asks for the first free address of 10.0.0.1 to 10.0.0.3.
func TestViewSkipsTakenAddresses(t *testing.T) {
	unreadable := errors.New("unreadable")
	for name, tc := range map[string]struct {
		taken []string
		fails bool
		want  string
	}{
		"none taken":       {want: "10.0.0.1"},
		"the first taken":  {taken: []string{"10.0.0.1"}, want: "10.0.0.2"},
		"all but the last": {taken: []string{"10.0.0.1", "10.0.0.2"}, want: "10.0.0.3"},
		"all taken":        {taken: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
		"cannot be read":   {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			add := outside.Add{Taken: func(a netip.Addr) (bool, error) {
				for _, taken := range tc.taken {
					if a.String() == taken {
						return true, nil
					}
				}
				if tc.fails {
					return false, unreadable
				}
				return false, nil
			}}
			got, found, err := add.View(all{}).FirstFree(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.3"))
			if found != (tc.want != "") || found && got.String() != tc.want || tc.fails != errors.Is(err, unreadable) {
				t.Errorf("got %v, %t, %v; want %q", got, found, err, tc.want)
			}
		})
	}
}

// TestNoSource asks when nothing beside the state knows the network.
func TestNoSource(t *testing.T) {
	var none outside.Sources
	if alone, err := none.EndAlone(reservation.Attachment{}, outside.NoState); err != nil || alone.NeedState || alone.After() != nil {
		t.Errorf("EndAlone: %+v, %v", alone, err)
	}
	if addrs, err := none.Find(reservation.AttachmentID{}); len(addrs) > 0 || err != nil {
		t.Errorf("Find: %v, %v", addrs, err)
	}
	failed := errors.New("failed")
	collected, err := none.Collect(nil)
	if err != nil || !errors.Is(collected(nil, failed), failed) || collected(nil, nil) != nil {
		t.Errorf("Collect does not return the error of the verb: %v", err)
	}
}
