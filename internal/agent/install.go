package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

// runTimeout bounds the run of a plugin that was installed.
const runTimeout = 10 * time.Second

// installPlugin keeps the plugin's binary where runtimes look for plugins. It is compared with that of the image at the
// start of the agent, and whenever another program has removed, replaced or written it.
func (a *Agent) installPlugin(ctx context.Context) error {
	path := filepath.Join(a.BinDir, plan.PluginName)
	now := stateOf(path)
	if a.PluginFile == "" || a.pluginInstalled.Load() && now == a.plugin && now.inode != 0 {
		a.pluginInstalled.Store(true)
		return nil
	}
	if now.inode == 0 && !a.mayInstall() { // the runtime finds no plugin until then
		return nil
	}
	installed, err := installBinary(a.PluginFile, path)
	if err == nil {
		a.pluginVersion, err = runs(ctx, path)
	}
	if installed.changed {
		a.Log.Info("Installed plugin", "path", path, "version", installed.version)
		now = fileState{} // as of before: the next round compares the new file
		if a.kept {
			a.metrics.recovered(recoveredPlugin, 1)
		}
	}
	a.plugin, a.kept = now, a.kept || err == nil
	a.metrics.installed(installed, err, a.Clock.Now())
	a.pluginInstalled.Store(err == nil)
	return err
}

// fileState differs after each change of a file: its content, its rights, or the file that has the name.
type fileState struct {
	dev, inode uint64
	size       int64
	mode       uint32
	changed    unix.Timespec
}

// stateOf returns the zero state for a file that cannot be found.
func stateOf(path string) fileState {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return fileState{}
	}
	return fileState{st.Dev, st.Ino, st.Size, st.Mode, st.Ctim}
}

// runs returns the version that the plugin tells, or why this machine does not run it.
func runs(ctx context.Context, path string) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run installed plugin: %w: %.200s", unnamed(err), out)
	}
	if words := strings.Fields(string(out)); len(words) > 1 { // limpet-ipam v1.2.3 (go1.26, linux/amd64)
		version = words[1]
	}
	return version, nil
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
