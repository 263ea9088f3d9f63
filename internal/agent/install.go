package agent

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// installPlugin copies the plugin's binary to where runtimes look for plugins, at the start
// of the agent and whenever the binary is missing.
func (a *Agent) installPlugin() error {
	path := filepath.Join(a.BinDir, plan.PluginName)
	if _, err := os.Stat(path); a.PluginFile == "" || (a.pluginInstalled.Load() && err == nil) {
		a.pluginInstalled.Store(true)
		return nil
	}
	installed, err := installBinary(a.PluginFile, path)
	if installed.changed {
		a.Log.Info("Installed plugin", "path", path, "version", installed.version)
	}
	a.metrics.installed(installed, err, a.Clock.Now())
	a.pluginInstalled.Store(err == nil)
	return err
}

// installation is the outcome of an installation.
type installation struct {
	changed bool
	version string // module version of the binary, or else the beginning of its checksum
}

func installBinary(from, to string) (is installation, err error) {
	data, err := os.ReadFile(from)
	if err != nil {
		return is, fmt.Errorf("read plugin: %w", err)
	}
	is.version = fmt.Sprintf("%x", sha256.Sum256(data))[:12]
	if info, err := buildinfo.Read(bytes.NewReader(data)); err == nil && strings.HasPrefix(info.Main.Version, "v") {
		is.version = info.Main.Version
	}
	is.changed, err = installFile(to, data, 0o755)
	return is, err
}

// installFile writes a file as a whole or not at all, and reports whether that changed
// anything.
func installFile(path string, data []byte, mode fs.FileMode) (changed bool, err error) {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm() == mode {
			return false, nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, fmt.Errorf("make directory of %s: %w", path, err)
	}
	temp, err := writeTemp(path, data, mode)
	if err == nil {
		if err = unnamed(os.Rename(temp, path)); err != nil {
			err = errors.Join(err, removeTemp(temp))
		}
	}
	if err != nil {
		return false, fmt.Errorf("install %s: %w", path, err)
	}
	return true, nil
}
