package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Use says whether limpet-ipam gives addresses in the network that a runtime uses.
type Use string

const (
	// UseUnknown is where there is no configuration, or the one there is leaves it to others.
	UseUnknown Use = "unknown"
	// UseLimpet is where it does.
	UseLimpet Use = "limpet-ipam"
	// UseOther is where another plugin does: pods get no reservations.
	UseOther Use = "other"
)

// ConfigFile is a network configuration, or a list of them.
type ConfigFile struct {
	Name string
	Data []byte
}

// maxConfigFile is far more than any configuration holds.
const maxConfigFile = 1 << 20

// configSuffixes end the names of the files that runtimes read.
var configSuffixes = []string{".conf", ".conflist", ".json"}

// readConfigs returns the network configurations of a directory, in the order in which
// runtimes look at them.
func readConfigs(dir string) ([]ConfigFile, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for network configurations: %w", err)
	}
	var files []ConfigFile
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name())) // it may be a link
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxConfigFile || !slices.Contains(configSuffixes, filepath.Ext(e.Name())) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if os.IsNotExist(err) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read network configuration: %w", err)
		}
		files = append(files, ConfigFile{e.Name(), data})
	}
	return files, nil
}

// PlanUse tells from network configurations who gives addresses, and in which of them that
// is written. The first that can be understood counts; one that hands its work to others,
// as those of multus do, counts together with all behind it.
func PlanUse(files []ConfigFile) (Use, string) {
	for i, f := range files {
		var conf any
		if json.Unmarshal(f.Data, &conf) != nil {
			continue
		}
		switch {
		case givesLimpet(conf):
			return UseLimpet, f.Name
		case !delegates(conf):
			return UseOther, f.Name
		}
		if use, name := PlanUse(files[i+1:]); use == UseLimpet {
			return use, name
		}
		return UseUnknown, f.Name
	}
	return UseUnknown, ""
}

// givesLimpet reports whether limpet-ipam is named as an IPAM plugin, be it for a
// delegate of a plugin.
func givesLimpet(conf any) bool {
	switch c := conf.(type) {
	case []any:
		return slices.ContainsFunc(c, givesLimpet)
	case object:
		if ipam, ok := c["ipam"].(object); ok && ipam["type"] == pluginName {
			return true
		}
		for _, v := range c {
			if givesLimpet(v) {
				return true
			}
		}
	}
	return false
}

// delegates reports whether a configuration is of a plugin that runs the configurations
// of others.
func delegates(conf any) bool {
	c, _ := conf.(object)
	plugins, isList := c["plugins"].([]any)
	if !isList {
		plugins = []any{c}
	}
	return slices.ContainsFunc(plugins, func(p any) bool {
		plugin, _ := p.(object)
		name, _ := plugin["type"].(string)
		return slices.Contains([]string{"multus", "multus-shim", "genie"}, name)
	})
}
