package outside_test

import (
	"errors"
	"testing"

	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/pkg/reservation"
)

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
