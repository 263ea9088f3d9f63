package cniplugin

import (
	"fmt"
	"reflect"
	"strings"
)

// NetConf is what docs/use/configuration.md has to tell of.
var NetConf = reflect.TypeFor[netConf]()

// HostLocalOfVerbs returns where the verbs look for host-local's files.
func HostLocalOfVerbs(config []byte) string {
	c, err := parseEnd(config)
	if err != nil {
		return err.Error()
	}
	return strings.Trim(fmt.Sprint(c.hostLocal), "{}")
}

// HostLocalOfCheck returns where check looks for host-local's files of a container in
// libcni's cache.
func HostLocalOfCheck(config []byte) string {
	c, err := parseEnd(config)
	if err != nil {
		return err.Error()
	}
	dataDir, _ := keptIn(config, c.dataDir)
	return strings.Trim(fmt.Sprint(configOf(c.network, dataDir).hostLocal), "{}")
}
