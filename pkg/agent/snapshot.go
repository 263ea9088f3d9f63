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
	Name string
	// Sets is nil after the state was made anew, until the next verb tells the ranges.
	Sets         []ipam.Set
	Attachments  []reservation.Attachment
	Reservations []reservation.Reservation
	Pressure     persistence.PoolUsage
}

// read copies the state into memory and lets go of it. A node without state has no
// networks.
func read(ctx context.Context, store *persistence.Store) ([]Network, error) {
	var networks []Network
	err := store.View(ctx, func(tx *persistence.Tx) error {
		configs, err := tx.Networks()
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(configs)) {
			n, err := readNetwork(tx, name, configs[name])
			if err != nil {
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

func readNetwork(tx *persistence.Tx, name string, config []byte) (Network, error) {
	n := Network{Name: name}
	if config != nil {
		if err := json.Unmarshal(config, &n.Sets); err != nil {
			return n, fmt.Errorf("decode ranges of %s: %w", name, err)
		}
	}
	var errs [3]error
	n.Attachments, errs[0] = tx.Attachments(name)
	n.Reservations, errs[1] = tx.Reservations(name)
	n.Pressure, errs[2] = tx.PoolUsage(name)
	return n, errors.Join(errs[:]...)
}
