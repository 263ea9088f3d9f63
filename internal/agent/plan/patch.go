package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// hostLocal is the type of the IPAM plugin that limpet-ipam replaces in a network that is adopted.
const hostLocal = "host-local"

// InterfacePlugins pass their whole configuration on to the IPAM plugin, with the annotations of the pod.
var InterfacePlugins = []string{"bridge", "ptp", "macvlan", "ipvlan"}

// errOwn means that a network configuration names limpet-ipam without a patch.
var errOwn = errors.New("the network configuration names " + PluginName)

// patch returns a network configuration with limpet-ipam in place of host-local. limpet-ipam keeps host-local's
// files: while the owner of the file has changed it back, host-local must see which addresses are taken.
func patch(data []byte, o PluginOptions, accepts func([]byte) error) ([]byte, error) {
	conf, err := decodeObject(data)
	if err != nil {
		return nil, err
	}
	patched := 0
	for _, plugin := range pluginsOf(conf) {
		is, err := patchPlugin(plugin, o)
		if err != nil {
			return nil, err
		}
		if !is {
			continue
		}
		patched++
		if err := accepts(delegated(conf, plugin)); err != nil {
			return nil, fmt.Errorf("%s refuses this configuration: %w", PluginName, err)
		}
	}
	switch {
	case patched > 0:
		out, err := json.MarshalIndent(conf, "", "  ")
		return append(out, '\n'), err
	case namesLimpet(conf):
		return nil, errOwn
	}
	return nil, fmt.Errorf("no plugin in it has an ipam section of type %s", hostLocal)
}

// decodeObject reads a JSON object and keeps its numbers as they are written.
func decodeObject(data []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var conf object
	if err := d.Decode(&conf); err != nil {
		return nil, fmt.Errorf("it is no JSON object: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text behind its JSON object")
	}
	if name, _ := conf["name"].(string); name == "" {
		return nil, errors.New("the network has no name")
	}
	return conf, nil
}

// pluginsOf returns the plugins of a list, or the configuration itself if it is that of one plugin.
func pluginsOf(conf object) []object {
	list, isList := conf["plugins"].([]any)
	if !isList {
		return []object{conf}
	}
	var plugins []object
	for _, p := range list {
		if plugin, ok := p.(object); ok {
			plugins = append(plugins, plugin)
		}
	}
	return plugins
}

// patchPlugin changes a plugin whose IPAM plugin is host-local, and reports whether it is one.
func patchPlugin(plugin object, o PluginOptions) (bool, error) {
	ipam, _ := plugin["ipam"].(object)
	if ipam["type"] != hostLocal {
		return false, nil
	}
	name, _ := plugin["type"].(string)
	if !slices.Contains(InterfacePlugins, name) {
		return false, fmt.Errorf("plugin %.64q is none of %s", name, strings.Join(InterfacePlugins, ", "))
	}
	if err := errors.Join(oneSpelling(plugin, "type", "ipam", "capabilities"), oneSpelling(ipam, "type", "dataDir"), checkDataDir(ipam, o)); err != nil {
		return false, err
	}
	capabilities, isObject := plugin["capabilities"].(object)
	if !isObject && plugin["capabilities"] != nil {
		return false, errors.New("capabilities is no JSON object")
	}
	if capabilities == nil {
		capabilities = object{}
	}
	capabilities[annotationsCapability] = true
	plugin["capabilities"] = capabilities
	ipam["type"] = PluginName
	ipam["mirrorHostLocal"] = true
	o.limit(ipam)
	return true, nil
}

// oneSpelling refuses keys that plugins read as one of these, because they ignore upper and lower case.
func oneSpelling(o object, keys ...string) error {
	for key := range o {
		for _, want := range keys {
			if key != want && strings.EqualFold(key, want) {
				return fmt.Errorf("key %.64q is another spelling of %q", key, want)
			}
		}
	}
	return nil
}

// checkDataDir refuses a network whose state this agent would not read. Without the key, limpet-ipam uses its own
// default, and looks for host-local's files in the default of host-local.
func checkDataDir(ipam object, o PluginOptions) error {
	dir, isText := ipam["dataDir"].(string)
	switch {
	case ipam["dataDir"] != nil && !isText:
		return errors.New("ipam.dataDir is no text")
	case dir == "" && o.DataDir != "":
		return fmt.Errorf("ipam.dataDir is not set: run the agent with the default of --state-dir, not with %s", o.DataDir)
	case dir != "" && filepath.Clean(dir) != o.StateDir:
		return fmt.Errorf("ipam.dataDir is %.256q: run the agent with that directory as --state-dir", dir)
	}
	return nil
}

// delegated returns what the IPAM plugin reads when the runtime runs a plugin of a list.
func delegated(conf, plugin object) []byte {
	all := object{}
	maps.Copy(all, plugin)
	all["name"], all["cniVersion"] = conf["name"], conf["cniVersion"]
	data, err := json.Marshal(all)
	if err != nil {
		return nil // not possible: the values were decoded from JSON
	}
	return data
}
