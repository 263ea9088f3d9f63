package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine is what was measured on, and what.
type machine struct {
	cpu, kernel, fileSystem string
	load                    string // average of one minute
	cores                   int
	memory                  int64 // bytes
	goVersion, hostLocal    string
	size                    int64 // of limpet-ipam, bytes
	hostLocalSize           int64
	day                     string
}

func lookAround(b bench) (machine, error) {
	m := machine{cores: runtime.NumCPU(), day: time.Now().Format(time.DateOnly), cpu: "unknown CPU"}
	cpus, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, fmt.Errorf("look at the machine: %w", err)
	}
	for line := range strings.Lines(string(cpus)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			m.cpu = strings.TrimSpace(value)
			break
		}
	}
	var name unix.Utsname
	var system unix.Sysinfo_t
	if err := unix.Uname(&name); err != nil {
		return m, fmt.Errorf("look at the machine: %w", err)
	}
	if err := unix.Sysinfo(&system); err != nil {
		return m, fmt.Errorf("look at the machine: %w", err)
	}
	m.kernel, m.memory = unix.ByteSliceToString(name.Release[:]), int64(system.Totalram)*int64(system.Unit)
	m.load = fmt.Sprintf("%.1f", float64(system.Loads[0])/(1<<16))
	if m.fileSystem, err = fileSystem(b.dir); err != nil {
		return m, err
	}
	return m, m.lookAtBinaries(b)
}

func (m *machine) lookAtBinaries(b bench) error {
	for path, size := range map[string]*int64{b.binaries.Limpet: &m.size, b.binaries.HostLocal(): &m.hostLocalSize} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("look at the plugins: %w", err)
		}
		*size = info.Size()
	}
	info, err := buildinfo.ReadFile(b.binaries.HostLocal())
	if err != nil {
		return fmt.Errorf("look at the plugins: %w", err)
	}
	m.goVersion = info.GoVersion
	m.hostLocal = info.Main.Version
	return nil
}

// fileSystem returns the type of the file system that a directory is on.
func fileSystem(dir string) (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", fmt.Errorf("look for the file system: %w", err)
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("look for the file system: %w", err)
	}
	longest, kind := -1, "unknown"
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < longest {
			continue
		}
		if rel, err := filepath.Rel(f[1], dir); err == nil && !strings.HasPrefix(rel, "..") {
			longest, kind = len(f[1]), f[2]
		}
	}
	return kind, nil
}
