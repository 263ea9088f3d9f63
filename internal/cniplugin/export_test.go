package cniplugin

import "reflect"

// NetConf is what docs/use/configuration.md has to tell of.
var NetConf = reflect.TypeFor[netConf]()
