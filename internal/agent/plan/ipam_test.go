package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

const (
	limpetList    = `{"name":"a","plugins":[{"type":"bridge","ipam":{"type":"limpet-ipam"}},{"type":"portmap"}]}`
	hostLocalList = `{"name":"a","plugins":[{"type":"bridge","ipam":{"type":"host-local"}},{"type":"portmap"}]}`
)

func TestFindIPAM(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string // contents; the names are 0, 1, …
		want  string
	}{
		"no file":                 {want: "unknown"},
		"a list":                  {files: []string{limpetList}, want: "limpet-ipam in 0"},
		"a single configuration":  {files: []string{`{"type":"macvlan","ipam":{"type":"limpet-ipam"}}`}, want: "limpet-ipam in 0"},
		"flannel":                 {files: []string{`{"plugins":[{"type":"flannel","delegate":{"isDefaultGateway":true},"ipam":{"type":"limpet-ipam"}}]}`}, want: "limpet-ipam in 0"},
		"flannel's delegate":      {files: []string{`{"plugins":[{"type":"flannel","delegate":{"ipam":{"type":"limpet-ipam"}}}]}`}, want: "limpet-ipam in 0"},
		"host-local":              {files: []string{hostLocalList}, want: "other in 0"},
		"no IPAM at all":          {files: []string{`{"plugins":[{"type":"cilium-cni"}]}`}, want: "other in 0"},
		"host-local in front":     {files: []string{hostLocalList, limpetList}, want: "other in 0"},
		"host-local behind":       {files: []string{limpetList, hostLocalList}, want: "limpet-ipam in 0"},
		"behind a malformed file": {files: []string{`{"plugins":`, limpetList}, want: "limpet-ipam in 1"},
		"limpet-ipam is the interface plugin's name, not its IPAM": {files: []string{`{"name":"limpet-ipam","type":"limpet-ipam"}`}, want: "other in 0"},
		"multus with the delegate in its own file":                 {files: []string{`{"type":"multus","delegates":[{"type":"ptp","ipam":{"type":"limpet-ipam"}}]}`}, want: "limpet-ipam in 0"},
		"multus, host-local behind it":                             {files: []string{`{"type":"multus-shim"}`, hostLocalList, limpetList}, want: "unknown in 0"},
		"multus, limpet-ipam behind it":                            {files: []string{`{"plugins":[{"type":"multus"}]}`, limpetList}, want: "limpet-ipam in 1"},
		"multus alone":                                             {files: []string{`{"type":"multus"}`}, want: "unknown in 0"},
		"plugins is not a list":                                    {files: []string{`{"plugins":"x"}`}, want: "other in 0"},
		"not an object":                                            {files: []string{`7`}, want: "other in 0"},
	} {
		t.Run(name, func(t *testing.T) {
			var files []plan.ConfigFile
			for i, data := range tc.files {
				files = append(files, plan.ConfigFile{Name: fmt.Sprint(i), Data: []byte(data)})
			}
			found := plan.FindIPAM(files)
			got := string(found.By)
			if found.File != "" {
				got += " in " + found.File
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestNetworkEvents tells each part of what changed once.
func TestNetworkEvents(t *testing.T) {
	const drops, foreign = "ForwardingDropped", "ForeignNetwork"
	well := plan.NodeIPAM{By: plan.IPAMLimpet, File: "10"}
	of := func(change func(*plan.NodeIPAM)) plan.NodeIPAM {
		is := well
		change(&is)
		return is
	}
	other := of(func(is *plan.NodeIPAM) { is.By = plan.IPAMOther })
	otherDrops := of(func(is *plan.NodeIPAM) { is.By, is.Drops = plan.IPAMOther, "filter FORWARD" })
	for name, tc := range map[string]struct {
		was, is plan.NodeIPAM
		want    []string
	}{
		"nothing yet":               {plan.NodeIPAM{}, well, nil},
		"all at once":               {plan.NodeIPAM{}, otherDrops, []string{drops, foreign}},
		"nothing new":               {otherDrops, otherDrops, nil},
		"another network":           {well, other, []string{foreign}},
		"a firewall beside another": {other, otherDrops, []string{drops}},
		"the firewall goes":         {otherDrops, other, nil},
		"another firewall":          {otherDrops, of(func(is *plan.NodeIPAM) { is.By, is.Drops = plan.IPAMOther, "ufw forward" }), []string{drops}},
		"the other network goes":    {otherDrops, of(func(is *plan.NodeIPAM) { is.Drops = "filter FORWARD" }), nil},
		"it is not adopted":         {well, of(func(is *plan.NodeIPAM) { is.NotAdopted = "a link" }), []string{foreign}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			names := map[string]bool{}
			for _, e := range plan.NetworkEvents("n1", "/etc/cni/net.d", tc.was, tc.is, time.Unix(1, 0)) {
				got, names[e.Name] = append(got, e.Reason), true
			}
			if !slices.Equal(got, tc.want) || len(names) != len(got) {
				t.Errorf("events %q with the names %v, want %q", got, names, tc.want)
			}
		})
	}
}
