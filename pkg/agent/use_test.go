package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/agent"
)

const (
	limpetList    = `{"name":"a","plugins":[{"type":"bridge","ipam":{"type":"limpet-ipam"}},{"type":"portmap"}]}`
	hostLocalList = `{"name":"a","plugins":[{"type":"bridge","ipam":{"type":"host-local"}},{"type":"portmap"}]}`
)

func TestPlanUse(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string // numbered from 0 in their names
		want  string
	}{
		"nothing there":                       {want: "unknown"},
		"a list":                              {files: []string{limpetList}, want: "limpet-ipam in 0"},
		"a single configuration":              {files: []string{`{"type":"macvlan","ipam":{"type":"limpet-ipam"}}`}, want: "limpet-ipam in 0"},
		"flannel":                             {files: []string{`{"plugins":[{"type":"flannel","delegate":{"isDefaultGateway":true},"ipam":{"type":"limpet-ipam"}}]}`}, want: "limpet-ipam in 0"},
		"flannel's delegate":                  {files: []string{`{"plugins":[{"type":"flannel","delegate":{"ipam":{"type":"limpet-ipam"}}}]}`}, want: "limpet-ipam in 0"},
		"host-local":                          {files: []string{hostLocalList}, want: "other in 0"},
		"no IPAM at all":                      {files: []string{`{"plugins":[{"type":"cilium-cni"}]}`}, want: "other in 0"},
		"another's in front":                  {files: []string{hostLocalList, limpetList}, want: "other in 0"},
		"another's behind":                    {files: []string{limpetList, hostLocalList}, want: "limpet-ipam in 0"},
		"behind one that is broken":           {files: []string{`{"plugins":`, limpetList}, want: "limpet-ipam in 1"},
		"a name that says so, and no IPAM":    {files: []string{`{"name":"limpet-ipam","type":"limpet-ipam"}`}, want: "other in 0"},
		"multus that names the delegate":      {files: []string{`{"type":"multus","delegates":[{"type":"ptp","ipam":{"type":"limpet-ipam"}}]}`}, want: "limpet-ipam in 0"},
		"multus in front of it":               {files: []string{`{"type":"multus-shim"}`, hostLocalList, limpetList}, want: "unknown in 0"},
		"multus right in front of it":         {files: []string{`{"plugins":[{"type":"multus"}]}`, limpetList}, want: "limpet-ipam in 1"},
		"multus alone, its network elsewhere": {files: []string{`{"type":"multus"}`}, want: "unknown in 0"},
		"a list of no plugins":                {files: []string{`{"plugins":"x"}`}, want: "other in 0"},
		"no object":                           {files: []string{`7`}, want: "other in 0"},
	} {
		t.Run(name, func(t *testing.T) {
			var files []agent.ConfigFile
			for i, data := range tc.files {
				files = append(files, agent.ConfigFile{Name: fmt.Sprint(i), Data: []byte(data)})
			}
			use, file := agent.PlanUse(files)
			got := string(use)
			if file != "" {
				got += " in " + file
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestAForeignNetworkIsTold changes who gives addresses on a node, back and forth.
func TestAForeignNetworkIsTold(t *testing.T) {
	n := newNode(t, "foreign-told")
	path := filepath.Join(n.ConfDir, "10-net.conflist")
	n.write(t, path, limpetList)
	n.write(t, filepath.Join(n.ConfDir, "00-backup.conflist.old"), hostLocalList) // no runtime reads it
	n.start(t)
	n.measures(t, "limpet_agent_network_ipam limpet-ipam", 1)
	n.write(t, path, hostLocalList)
	n.measures(t, "limpet_agent_network_ipam other", 1)
	want := path + " is the network configuration of this node and does not name limpet-ipam as its IPAM plugin: its pods get no reservations"
	n.toldOf(t, want)
	n.write(t, path, limpetList)
	n.measures(t, "limpet_agent_network_ipam limpet-ipam", 1)
	n.measures(t, "limpet_agent_network_ipam other", 0)
	n.toldOf(t, want)
}

// toldOf waits until the events of the node are these.
func (n *node) toldOf(t *testing.T, want ...string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var list corev1.EventList
		if err := env.Client.List(t.Context(), &list, client.InNamespace("default")); err != nil {
			return err
		}
		var got []string
		for _, e := range list.Items {
			if e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == n.Node && e.Reason == agent.ReasonForeignNetwork {
				got = append(got, e.Message)
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			return fmt.Errorf("events %q, want %q", got, want)
		}
		return nil
	})
}

// TestInstallationIsMeasured looks for the version and the outcome, before and after the
// plugin comes.
func TestInstallationIsMeasured(t *testing.T) {
	n := newNode(t, "measured")
	late := n.PluginFile
	if err := os.Remove(late); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	n.measures(t, "limpet_agent_plugin_install_success", 0)
	n.write(t, late, "plugin")
	n.measures(t, "limpet_agent_plugin_install_success", 1)
	n.measures(t, "limpet_agent_plugin_install_info 5e689e2b0167", 1)
	if got, _ := n.measured(t, "limpet_agent_plugin_install_timestamp_seconds"); got < 1e9 {
		t.Errorf("installed at %v", got)
	}
}

// measures waits until a metric, by name and values of its labels, has a value.
func (n *node) measures(t *testing.T, name string, want float64) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if got, found := n.measured(t, name); !found || got != want {
			return fmt.Errorf("%s is %v (%t), want %v", name, got, found, want)
		}
		return nil
	})
}

func (n *node) measured(t *testing.T, name string) (float64, bool) {
	t.Helper()
	got, found := values(t, n.Registry.(*prometheus.Registry), map[string]float64{name: 0})[name]
	return got, found
}
