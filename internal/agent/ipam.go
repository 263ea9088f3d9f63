package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// maxConfigFile is an upper limit for the size of a network configuration, in bytes.
const maxConfigFile = 1 << 20

// eventTimeout bounds the creation of an event.
const eventTimeout = 30 * time.Second

// findIPAM finds out which IPAM plugin gives pods their addresses on this node.
func (a *Agent) findIPAM() error {
	files, err := readConfigs(a.ConfDir)
	if err != nil {
		return err
	}
	is := plan.FindIPAM(files)
	if why := a.notAdopted.Load(); why != nil && is.By != plan.IPAMLimpet {
		is.NotAdopted = *why
	}
	was := a.ipam.Load()
	if a.OwnNetwork {
		if is.Drops, err = ForwardDrops(); err != nil && was != nil {
			is.Drops = was.Drops
		}
	}
	if a.ipam.Store(&is); was == nil || *was != is {
		a.Log.Info("Network of the node", "ipam", is.By, "file", is.File, "drops", is.Drops)
	}
	a.metrics.setIPAM(is.By)
	return err
}

// readConfigs returns the network configurations of a directory, in the order in which
// runtimes read them.
func readConfigs(dir string) ([]plan.ConfigFile, error) {
	names, err := configNames(dir)
	if err != nil {
		return nil, err
	}
	var files []plan.ConfigFile
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path) // follows links
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxConfigFile || !plan.IsConfigName(name) {
			continue
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read network configuration: %w", err)
		}
		files = append(files, plan.ConfigFile{Name: name, Data: data})
	}
	return files, nil
}

// reportIPAM creates events about what has changed of the network of the node.
func (a *Agent) reportIPAM(ctx context.Context) error {
	is := a.ipam.Load()
	if is == nil || *is == a.reportedIPAM {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	for _, event := range plan.NetworkEvents(a.Node, a.ConfDir, a.reportedIPAM, *is, a.Clock.Now()) {
		if err := a.show.Client.Create(ctx, event); err != nil {
			return fmt.Errorf("create event about the network: %w", err)
		}
	}
	a.reportedIPAM = *is
	return nil
}
