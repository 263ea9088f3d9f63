package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// network is the state of one network, with the counters for the metrics.
type network struct {
	plan.Network
	usage persistence.PoolUsage
}

// facts returns what the planners need of networks.
func facts(networks []network) []plan.Network {
	all := make([]plan.Network, len(networks))
	for i, n := range networks {
		all[i] = n.Network
	}
	return all
}

// readState copies the state file into memory and closes the file. A node without a state
// file has no networks.
func readState(ctx context.Context, store *persistence.Store) ([]network, error) {
	var networks []network
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

func readNetwork(tx *persistence.Tx, name string, config []byte) (network, error) {
	n := network{Network: plan.Network{Name: name}}
	if config != nil {
		if err := json.Unmarshal(config, &n.Sets); err != nil {
			return n, fmt.Errorf("decode ranges of %s: %w", name, err)
		}
	}
	var errs [3]error
	n.Attachments, errs[0] = tx.Attachments(name)
	n.Reservations, errs[1] = tx.Reservations(name)
	n.usage, errs[2] = tx.PoolUsage(name)
	n.Limits = n.usage.Limits
	return n, errors.Join(errs[:]...)
}
