package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	if a.OwnNetwork {
		is.Drops, err = ForwardDrops()
	}
	if was := a.ipam.Swap(&is); was == nil || *was != is {
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

// reportIPAM creates one event each time another IPAM plugin than Limpet's comes into use, or other chains drop packets.
func (a *Agent) reportIPAM(ctx context.Context) error {
	is := a.ipam.Load()
	if is == nil || *is == a.reportedIPAM {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	var events []*corev1.Event
	if is.Drops != "" && is.Drops != a.reportedIPAM.Drops {
		events = append(events, plan.ForwardingEvent(a.Node, is.Drops, a.Clock.Now()))
	}
	if is.By == plan.IPAMOther || is.NotAdopted != "" {
		events = append(events, plan.ForeignNetworkEvent(a.Node, a.ConfDir, *is, a.Clock.Now()))
	}
	for _, event := range events {
		if err := a.show.Client.Create(ctx, event); err != nil {
			return fmt.Errorf("create event about the network: %w", err)
		}
	}
	a.reportedIPAM = *is
	return nil
}
