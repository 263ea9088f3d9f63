package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/limpet-io/limpet/pkg/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Network is what the state of a node says of one network.
type Network struct {
	Name         string
	Sets         []ipam.Set
	Attachments  []reservation.Attachment
	Reservations []reservation.Reservation
	Pressure     persistence.Pressure
}

// read copies the state into memory and lets go of it. A node without state has no
// networks.
func read(ctx context.Context, store *persistence.Store) ([]Network, error) {
	var networks []Network
	err := store.View(ctx, func(tx *persistence.Tx) error {
		configs, err := tx.Configs()
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(configs)) {
			n := Network{Name: name}
			if err := json.Unmarshal(configs[name], &n.Sets); err != nil {
				return fmt.Errorf("decode ranges of %s: %w", name, err)
			}
			if n.Attachments, err = tx.Attachments(name); err != nil {
				return err
			}
			if n.Reservations, err = tx.Reservations(name); err != nil {
				return err
			}
			if n.Pressure, err = tx.Pressure(name); err != nil {
				return err
			}
			networks = append(networks, n)
		}
		return nil
	})
	if errors.Is(err, persistence.ErrNoState) {
		return nil, nil
	}
	return networks, err
}
