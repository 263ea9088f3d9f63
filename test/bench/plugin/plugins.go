package main

import (
	"debug/buildinfo"
	"fmt"
	"os"

	"github.com/limpet-io/limpet/test/cniexec"
)

// plugins describes the two measured binaries.
type plugins struct {
	hostLocal, goVersion string // versions
	size, hostLocalSize  int64  // bytes
}

func describePlugins(b cniexec.Binaries) (plugins, error) {
	var p plugins
	for path, size := range map[string]*int64{b.Limpet: &p.size, b.HostLocal(): &p.hostLocalSize} {
		info, err := os.Stat(path)
		if err != nil {
			return p, fmt.Errorf("describe plugins: %w", err)
		}
		*size = info.Size()
	}
	info, err := buildinfo.ReadFile(b.HostLocal())
	if err != nil {
		return p, fmt.Errorf("describe plugins: %w", err)
	}
	p.goVersion, p.hostLocal = info.GoVersion, info.Main.Version
	return p, nil
}
