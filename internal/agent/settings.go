package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// settingsFile is the name of the file in the state directory with the NodeNetwork as the agent last saw it.
const settingsFile = "limpet.nodenetwork"

// recordFiles are the files in the state directory in which the agent stores what it must know after a restart.
var recordFiles = []string{adoptedFile, settingsFile, persistence.FollowsFile}

// settings returns the settings of the NodeNetwork; nil without one. Those of a deleted one stay: pods have addresses
// of its ranges. They are not told while the API server has not said whether there is a NodeNetwork: then they are those
// of the record. An error says that they are not recorded, so that a restart may not know them.
func (a *Agent) settings() (s *plan.NodeNetwork, told bool, err error) {
	path := filepath.Join(a.StateDir, settingsFile)
	now, there, told := a.cluster.nodeNetwork()
	if !a.lookedUp {
		var recorded plan.NodeNetwork
		found, err := readRecord(path, &recorded)
		if err != nil && !there {
			return nil, false, err
		}
		if a.lookedUp = true; found { // a record that cannot be read is replaced
			a.recorded = &recorded
		}
	}
	switch {
	case there && (a.recorded == nil || !apiequality.Semantic.DeepEqual(*a.recorded, now)):
		if err := writeRecord(path, now); err != nil {
			return &now, true, fmt.Errorf("record NodeNetwork: %w", err)
		}
		a.recorded = &now
		a.Log.Info("The NodeNetwork changed", "generation", now.Generation)
	case there || !told || a.recorded == nil:
	case a.recorded.Empty():
		if err := remove(path); err != nil {
			return nil, true, err
		}
		a.recorded = nil
	default:
		last := *a.recorded
		last.Deleted = true
		return &last, true, nil
	}
	return a.recorded, there || told, nil
}

// writeRecord stores what the agent must know after a restart.
func writeRecord(path string, what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("encode record %s: %w", path, err)
	}
	_, err = installFile(path, data, 0o600)
	return err
}

// readRecord reads a record; false without one.
func readRecord(path string, to any) (found bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return false, fmt.Errorf("read record %s: %w", path, err)
	}
	return true, nil
}

// nodeMTU returns the smallest MTU of the interfaces that have the addresses; 0 if none has.
func nodeMTU(h *netlink.Handle, ips []netip.Addr) (int, error) {
	links, err := h.LinkList()
	if err != nil {
		return 0, fmt.Errorf("list interfaces: %w", err)
	}
	all, err := h.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return 0, fmt.Errorf("list addresses: %w", err)
	}
	least := 0
	for _, a := range all {
		ip, _ := netip.AddrFromSlice(a.IP)
		for _, l := range links {
			if mtu := l.Attrs().MTU; l.Attrs().Index == a.LinkIndex && slices.Contains(ips, ip.Unmap()) && (least == 0 || mtu < least) {
				least = mtu
			}
		}
	}
	return least, nil
}
