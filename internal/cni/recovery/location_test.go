package recovery

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/hostlocal"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestHostLocalFilesHaveOnePlace compares where the verbs look for host-local's files with
// where check looks for those of the same network.
func TestHostLocalFilesHaveOnePlace(t *testing.T) {
	for name, tc := range map[string]struct{ dataDir, want string }{
		"without dataDir":                    {want: "/var/lib/cni/networks/net"},
		"dataDir of its own":                 {dataDir: "/srv/addresses", want: "/srv/addresses/net"},
		"dataDir that repeats the default":   {dataDir: persistence.DefaultDir, want: "/var/lib/cni/limpet/net"},
		"dataDir that is not written simply": {dataDir: "/srv/../srv/addresses/", want: "/srv/addresses/net"},
	} {
		t.Run(name, func(t *testing.T) {
			config := fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":"net","ipam":{"type":"limpet-ipam","dataDir":%q}}`, tc.dataDir)
			conf, err := netconf.Decode(config).ParseEnd()
			if err != nil {
				t.Fatal(err)
			}
			if verbs := filepath.Join(hostlocal.Root(conf.DataDir), conf.Network); verbs != tc.want {
				t.Errorf("verbs look in %s, want %s", verbs, tc.want)
			}
			dataDir, kept := keptIn(config, stateDir(conf))
			if check := filepath.Join(hostlocal.Root(dataDir), conf.Network); !kept || check != tc.want {
				t.Errorf("check looks in %s, want %s; kept: %t", check, tc.want, kept)
			}
		})
	}
}
