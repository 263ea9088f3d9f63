package plan_test

import (
	"fmt"
	"testing"

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
