package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// adoptedFile is the name of the file in the state directory that records patched network configurations.
const adoptedFile = "limpet.adopted"

// adoptNetwork patches the network configuration that the runtime uses, and again after its owner has changed it.
func (a *Agent) adoptNetwork() error {
	if !a.pluginInstalled.Load() {
		return nil // the runtime would not find limpet-ipam
	}
	now := a.Clock.Now()
	in := plan.AdoptInput{Options: a.pluginOptions(), Binaries: binaries(a.BinDir), Accepts: a.Accepts, Patches: recent(a.patches, now), Now: now}
	names, err := configNames(a.ConfDir)
	if err != nil {
		return err
	}
	if in.Records, err = readAdopted(a.StateDir); err != nil {
		return err
	}
	in.First, in.Problem = firstConfig(a.ConfDir, names)
	if in.Content, err = contentOf(a.ConfDir, in.Records); err != nil {
		return err
	}
	d := plan.Adopt(in)
	err = errors.Join(d.Err, a.applyAdoption(in, d, now))
	a.adopted(err)
	if errors.Is(err, plan.ErrNoNetwork) {
		return nil
	}
	return err
}

func (a *Agent) applyAdoption(in plan.AdoptInput, d plan.AdoptDecision, now time.Time) error {
	if len(d.Records) > 0 || len(in.Records) > 0 {
		if err := writeAdopted(a.StateDir, d.Records); err != nil {
			return err
		}
	}
	if d.Patched == nil {
		return nil
	}
	if err := syncDir(a.StateDir); err != nil { // the original must not be lost before the patch
		return fmt.Errorf("record patched network configuration: %w", err)
	}
	path := filepath.Join(a.ConfDir, in.First.Name)
	a.patches = append(in.Patches, now) // also one that fails: the next ones make pauses
	if err := swapFile(path, in.First.Data, d.Patched); err != nil {
		return err
	}
	a.metrics.patches.Inc()
	a.Log.Info("Patched network configuration", "path", path)
	return nil
}

// adopted records the outcome for the metrics and for the event about a foreign network.
func (a *Agent) adopted(err error) {
	a.networkSettled.Store(true)
	why := ""
	if err != nil && !errors.Is(err, plan.ErrNoNetwork) { // then the node waits for the owner of its network
		why = err.Error()
	}
	a.notAdopted.Store(&why)
	a.metrics.adopted.Set(truth(err == nil))
}

// binaries returns the interface plugins that a directory has. A link, as k3s makes them, may lead to what is not mounted here.
func binaries(dir string) []string {
	var found []string
	for _, name := range plan.InterfacePlugins {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && (info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0) {
			found = append(found, name)
		}
	}
	return found
}

// recent returns the times that still count.
func recent(times []time.Time, now time.Time) []time.Time {
	for len(times) > 0 && now.Sub(times[0]) > plan.PatchMemory {
		times = times[1:]
	}
	return times
}

// firstConfig returns the file that the runtime uses: the first by name. The problem says why the agent cannot read
// or replace it.
func firstConfig(dir string, sorted []string) (*plan.ConfigFile, error) {
	for _, name := range sorted {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if !plan.IsConfigName(name) || errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			continue
		}
		f := &plan.ConfigFile{Name: name}
		if err == nil {
			f.Data, err = readConfig(path, info)
		}
		return f, err
	}
	return nil, nil
}

// readConfig reads a regular file of bounded size. A link is refused: a patch would replace the link.
func readConfig(path string, info fs.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is left as it is: it is no regular file", path)
	}
	if info.Size() > maxConfigFile {
		return nil, fmt.Errorf("%s is left as it is: it is larger than %d bytes", path, maxConfigFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read network configuration: %w", err)
	}
	return data, nil
}

// contentOf reads the files of records. Files that are missing, or were replaced by what is no file, have no content.
func contentOf(dir string, records []plan.Adopted) (map[string][]byte, error) {
	content := map[string][]byte{}
	for _, r := range records {
		path := filepath.Join(dir, filepath.Base(r.Name))
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > maxConfigFile) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for patched network configuration: %w", err)
		}
		if content[r.Name], err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read patched network configuration: %w", err)
		}
	}
	return content, nil
}

func readAdopted(stateDir string) (records []plan.Adopted, err error) {
	_, err = readRecord(filepath.Join(stateDir, adoptedFile), &records)
	return records, err
}

// writeAdopted stores the records, or removes the file if there is none.
func writeAdopted(stateDir string, records []plan.Adopted) error {
	path := filepath.Join(stateDir, adoptedFile)
	if len(records) == 0 {
		return remove(path)
	}
	return writeRecord(path, records)
}

// restoreNetworks gives patched network configurations their original content. It returns why others are left.
func restoreNetworks(c Config) (left []error, err error) {
	records, err := readAdopted(c.StateDir)
	if err != nil {
		return nil, err
	}
	content, err := contentOf(c.ConfDir, records)
	if err != nil {
		return nil, err
	}
	to := plan.Restore(records, content)
	for _, f := range to.Files {
		path := filepath.Join(c.ConfDir, filepath.Base(f.Name))
		if err := swapFile(path, content[f.Name], f.Data); err != nil {
			return nil, err
		}
		c.Log.Info("Restored network configuration", "path", path)
	}
	if len(to.Left) > 0 {
		return to.Left, nil // the record stays, with the original content
	}
	_, foreign, err := removeTemps(c, time.Time{}, math.MinInt64) // while the records tell which are the agent's
	if err != nil {
		return nil, err
	}
	if len(foreign) > 0 {
		c.Log.Info("Left files that may be changes of the owner of a network configuration", "paths", foreign)
	}
	return nil, writeAdopted(c.StateDir, nil)
}
