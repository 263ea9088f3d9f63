package cniplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// briefly bounds how long a verb waits to store what only the agent tells of.
const briefly = 100 * time.Millisecond

// update is the transaction of a verb that ends something.
func (p *Plugin) update(conf *config, fn func(*persistence.Tx) error) error {
	return p.store(conf).Update(context.Background(), fn) //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
}

// describing lets a state that was made again learn in passing what its network is like. A
// DEL may not: there are interface plugins that make up its ranges.
func (c *config) describing(fn func(*persistence.Tx) error) func(*persistence.Tx) error {
	return func(tx *persistence.Tx) error {
		if c.described(tx) {
			return fn(tx)
		}
		if err := c.describe(tx); err != nil {
			return err
		}
		if err := fn(tx); !errors.Is(err, persistence.ErrUnchanged) {
			return err
		}
		return nil
	}
}

// view is the transaction of a verb that only reads; what it has to tell of its network is
// written in another one.
func (p *Plugin) view(conf *config, fn func(*persistence.Tx) error) error {
	described := true
	err := p.store(conf).View(context.Background(), func(tx *persistence.Tx) error { //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
		described = conf.described(tx)
		return fn(tx)
	})
	if !described {
		_ = conf.brieflyUpdate(conf.describe) // the next verb may do it as well
	}
	return err
}

func (c *config) brieflyUpdate(fn func(*persistence.Tx) error) error {
	return persistence.New(persistence.Options{Dir: c.dataDir, LockWait: briefly}).Update(context.Background(), fn) //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
}

// described reports whether the state knows what its network is like, as ADD stores it, or
// this verb does not.
func (c *config) described(tx *persistence.Tx) bool {
	return len(c.sets) == 0 || tx.Configured(c.network)
}

// describe stores what others than an ADD need to know of the network.
func (c *config) describe(tx *persistence.Tx) error {
	sets, err := json.Marshal(c.sets)
	if err != nil {
		return fmt.Errorf("encode ranges: %w", err)
	}
	if err := tx.SetConfig(c.network, sets); err != nil {
		return err
	}
	return tx.SetLimits(c.network, c.limits())
}
