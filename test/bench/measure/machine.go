package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine describes the machine of a benchmark, and the day.
type Machine struct {
	CPU, Kernel, FileSystem string
	Cores                   int
	Memory                  int64         // bytes
	Load                    float64       // load average of the last minute
	Flush                   time.Duration // one page of a file on FileSystem
	Day                     string
}

// LookAround describes this machine, with the file system of dir.
func LookAround(dir string) (Machine, error) {
	m := Machine{Cores: runtime.NumCPU(), Day: time.Now().Format(time.DateOnly), CPU: "unknown CPU"}
	cpus, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, fmt.Errorf("describe the machine: %w", err)
	}
	for line := range strings.Lines(string(cpus)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	var name unix.Utsname
	var system unix.Sysinfo_t
	if err := unix.Uname(&name); err != nil {
		return m, fmt.Errorf("describe the machine: %w", err)
	}
	if err := unix.Sysinfo(&system); err != nil {
		return m, fmt.Errorf("describe the machine: %w", err)
	}
	m.Kernel, m.Memory = unix.ByteSliceToString(name.Release[:]), int64(system.Totalram)*int64(system.Unit)
	m.Load = float64(system.Loads[0]) / (1 << 16)
	if m.FileSystem, err = fileSystem(dir); err != nil {
		return m, err
	}
	m.Flush, err = flush(dir)
	return m, err
}

// String prints the machine in one line.
func (m Machine) String() string {
	return fmt.Sprintf("%s; load %.1f at the start", m.Hardware(), m.Load)
}

// Hardware prints what is the same in each run on the machine.
func (m Machine) Hardware() string {
	return fmt.Sprintf("%s, %d cores, %.0f GB; Linux %s; state on %s, where a flush takes %s ms",
		m.CPU, m.Cores, float64(m.Memory)/1e9, m.Kernel, m.FileSystem, Millis(m.Flush))
}

// fileSystem returns the type of the file system of a directory.
func fileSystem(dir string) (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", fmt.Errorf("find the file system: %w", err)
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("find the file system: %w", err)
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
