package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// briefWait bounds how long a verb waits to store what only the agent reports.
const briefWait = 100 * time.Millisecond

// describing stores in passing what the network is like, where a state that was made again
// does not know. A DEL must not: some interface plugins make up the ranges of a DEL.
func describing(c *netconf.Config, fn func(*persistence.Tx) error) func(*persistence.Tx) error {
	return func(tx *persistence.Tx) error {
		if described(tx, c) {
			return fn(tx)
		}
		if err := describe(tx, c); err != nil {
			return err
		}
		if err := fn(tx); !errors.Is(err, persistence.ErrUnchanged) {
			return err
		}
		return nil
	}
}

// view is the transaction of a verb that only reads. The description of its network is
// written in another one.
func (p *Plugin) view(c *netconf.Config, fn func(*persistence.Tx) error) error {
	known := true
	err := p.store(c, nil).View(context.Background(), func(tx *persistence.Tx) error { //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
		known = described(tx, c)
		return fn(tx)
	})
	if !known {
		_ = updateBriefly(c, func(tx *persistence.Tx) error { return describe(tx, c) }) // the next verb may do it as well
	}
	return err
}

func updateBriefly(c *netconf.Config, fn func(*persistence.Tx) error) error {
	return persistence.New(persistence.Options{Dir: c.DataDir, LockWait: briefWait}).Update(context.Background(), fn) //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
}

// described reports whether the state knows what the network is like, or this verb does not
// know it either.
func described(tx *persistence.Tx, c *netconf.Config) bool {
	return len(c.Sets) == 0 || tx.Configured(c.Network)
}

// describe stores what verbs other than ADD, and the agent, need to know of the network.
func describe(tx *persistence.Tx, c *netconf.Config) error {
	sets, err := json.Marshal(c.Sets)
	if err != nil {
		return fmt.Errorf("encode ranges: %w", err)
	}
	if err := tx.SetConfig(c.Network, sets); err != nil {
		return err
	}
	return tx.SetLimits(c.Network, c.Limits())
}
