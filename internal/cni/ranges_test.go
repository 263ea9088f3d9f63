package cni_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/cni/netconf"
)

// TestConfigurationErrorsBeginWithTheKey expects the key as the user wrote it, not the
// final number of the range set.
func TestConfigurationErrorsBeginWithTheKey(t *testing.T) {
	for name, tc := range map[string]struct {
		conf string // beside the name; $DIR stands for the directory of the state
		want string
	}{
		"a subnet that is none": {
			`{"ipam":{"dataDir":"$DIR","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00::/64"},{"subnet":"fd00"}]]}}`,
			"ipam.ranges[1][1].subnet: invalid CIDR address: fd00",
		},
		"a subnet with host bits": {
			`{"ipam":{"dataDir":"$DIR","ranges":[[{"subnet":"10.1.0.0/24"},{"subnet":"10.2.0.1/24"}]]}}`,
			"ipam.ranges[0][1].subnet: invalid range set 0: Network has host bits set.",
		},
		"a subnet of the old kind": {`{"ipam":{"dataDir":"$DIR","subnet":"10.1.0.0/31"}}`, "ipam.subnet: invalid range set 0: Network 10.1.0.0/31 too small"},
		"a start of the old kind": {
			`{"ipam":{"dataDir":"$DIR","subnet":"10.1.0.0/24","rangeStart":"10.2.0.1"}}`, "ipam.rangeStart: invalid range set 0: RangeStart 10.2.0.1",
		},
		"a list behind one of the old kind": {
			`{"ipam":{"dataDir":"$DIR","subnet":"10.1.0.0/24","ranges":[[{"subnet":"10.2.0.0/33"}]]}}`, "ipam.ranges[0][0].subnet: invalid CIDR address",
		},
		"a range of the runtime": {
			`{"ipam":{"dataDir":"$DIR","subnet":"10.1.0.0/24"},"runtimeConfig":{"ipRanges":[[{"subnet":"10.2.0.0/24","rangeEnd":"10.3.0.1"}]]}}`,
			"runtimeConfig.ipRanges[0][0].rangeEnd: invalid range set 0: RangeEnd 10.3.0.1",
		},
		"a set without a range":              {`{"ipam":{"dataDir":"$DIR","subnet":"10.1.0.0/24","ranges":[[]]}}`, "ipam.ranges[0]: invalid range set 1: empty range set"},
		"no range at all":                    {`{"ipam":{"dataDir":"$DIR"}}`, "ipam.ranges: no IP ranges specified"},
		"a directory of the wrong type":      {`{"ipam":{"dataDir":7,"subnet":"10.1.0.0/24"}}`, "ipam.dataDir: a JSON number is not allowed here"},
		"a directory that is no path at all": {`{"ipam":{"dataDir":["/x"],"subnet":"10.1.0.0/24"}}`, "ipam.dataDir: a JSON array is not allowed here"},
		"a requested address, before resolv.conf is read": {
			`{"ipam":{"dataDir":"$DIR","subnet":"10.1.0.0/24","resolvConf":"/nonexistent"},"args":{"cni":{"ips":["bad"]}}}`, "args.cni.ips: invalid IP address bad",
		},
		"a directory by a relative path": {`{"ipam":{"dataDir":"state","subnet":"10.1.0.0/24"}}`, `ipam.dataDir: "state" is not an absolute path`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			args := w.args(web0, nil)
			stdin := []byte(`{"cniVersion":"1.1.0","name":"limpet",` + strings.ReplaceAll(tc.conf[1:], "$DIR", w.dir))
			if !json.Valid(stdin) {
				t.Fatalf("%s is no configuration", stdin)
			}
			args.Conf = netconf.Decode(stdin)
			err := w.plugin.Funcs().Add(args)
			if codeOf(err) != types.ErrInvalidNetworkConfig || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("code %d, %v; want code 7, %s…", codeOf(err), err, tc.want)
			}
			if err := w.plugin.Funcs().Del(args); err != nil {
				t.Errorf("DEL: %v", err)
			}
		})
	}
}
