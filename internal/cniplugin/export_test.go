package cniplugin

import "reflect"

// NetConf is what docs/configuration.md has to tell of.
var NetConf = reflect.TypeFor[netConf]()
