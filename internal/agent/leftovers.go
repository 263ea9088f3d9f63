package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// removeLeftovers deletes the temporary files that interrupted installations have left.
func (a *Agent) removeLeftovers(now time.Time) error {
	removed, foreign, err := removeTemps(a.Config, now, plan.LeftoverGrace)
	a.metrics.recovered(recoveredFile, removed)
	if removed > 0 {
		a.Log.Info("Removed files of interrupted installations", "count", removed)
	}
	for _, path := range foreign {
		err = errors.Join(err, fmt.Errorf("%s stays: it may be a change of the owner of the network configuration; compare the two, then remove it", path))
	}
	return err
}

// removeTemps deletes the temporary files of installations that are old enough, and returns
// their number. Foreign files are those with a content that is not the agent's: they stay.
func removeTemps(c Config, now time.Time, grace time.Duration) (removed int, foreign []string, err error) {
	records, err := readAdopted(c.StateDir)
	errs := []error{err}
	remove := func(path string, wrote func([]byte) bool) {
		n, others, err := removeTempsOf(path, wrote, now, grace)
		removed, foreign, errs = removed+n, append(foreign, others...), append(errs, err)
	}
	remove(filepath.Join(c.BinDir, plan.PluginName), nil)
	remove(filepath.Join(c.ConfDir, plan.ConflistName), nil)
	for _, name := range recordFiles {
		remove(filepath.Join(c.StateDir, name), nil)
	}
	for _, r := range records {
		remove(filepath.Join(c.ConfDir, filepath.Base(r.Name)), r.Wrote)
	}
	return removed, foreign, errors.Join(errs...)
}

// removeTempsOf deletes the temporary files that were to take the place of path, if the agent wrote their content. No
// other program writes that file if the function is nil.
func removeTempsOf(path string, wrote func([]byte) bool, now time.Time, grace time.Duration) (removed int, foreign []string, err error) {
	dir := filepath.Dir(path)
	files, err := filesIn(dir)
	if err != nil {
		return 0, nil, fmt.Errorf("look for files of interrupted installations: %w", err)
	}
	var mine []string
	for _, name := range plan.Leftovers(files, filepath.Base(path), now, grace) {
		if path := filepath.Join(dir, name); wrote != nil && !holds(path, wrote) {
			foreign = append(foreign, path)
			continue
		}
		mine = append(mine, name)
	}
	removed, err = removeFiles(dir, mine)
	return removed, foreign, err
}

// holds reports whether a file has a content that is accepted. The agent reads and writes no larger configuration.
func holds(path string, accepted func([]byte) bool) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Size() > 2*maxConfigFile {
		return false
	}
	content, err := os.ReadFile(path)
	return err == nil && accepted(content)
}
