package cni_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/hostlocal"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestRunning compares the state with libcni's cache and the namespaces.
func TestRunning(t *testing.T) {
	s := lostSandbox("web", true)
	has := netip.MustParseAddr("10.1.0.2")
	for name, tc := range map[string]struct {
		config string
		change func(*testNode)
		want   bool
	}{
		"with its state here": {want: true},
		"in a list":           {config: `{"plugins":[{"ipam":{"type":"limpet-ipam","dataDir":"DIR"}}]}`, want: true},
		"of host-local":       {config: `{"ipam":{"type":"host-local","dataDir":"DIR"}}`},
		"by a path through a link": {config: `{"ipam":{"type":"limpet-ipam","dataDir":"DIR/../link"}}`, want: true, change: func(w *testNode) {
			if err := errors.Join(os.MkdirAll(w.dir, 0o700), os.Symlink(w.dir, filepath.Join(filepath.Dir(w.dir), "link"))); err != nil {
				t.Fatal(err)
			}
		}},
		"by a relative path":       {config: `{"ipam":{"type":"limpet-ipam","dataDir":"state"}}`},
		"with its state elsewhere": {config: `{"ipam":{"type":"limpet-ipam"}}`},
		"without its namespace":    {change: func(w *testNode) { delete(w.netns, s.netns()) }},
		"without its address":      {change: func(w *testNode) { w.recovery.Interfaces = w.interfaces(nil, s) }},
		"held by host-local": {change: func(w *testNode) {
			dir := filepath.Join(w.dir, network)
			if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, has.String()), []byte(s.id+"\r\n"+s.ifName), 0o600)); err != nil {
				t.Fatal(err)
			}
		}},
		"mirrored for host-local": {want: true, change: func(w *testNode) {
			if err := hostlocal.New(filepath.Join(w.dir, network)).Mirror(has, s.id, s.ifName); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.start(s)
			w.recovery.Interfaces = w.interfaces(map[string][]netip.Addr{s.pod: {has}}, s)
			w.cacheWhole(s, []netip.Addr{has, netip.MustParseAddr("fd00:1::2")})
			if tc.config == "" {
				tc.config = `{"ipam":{"type":"limpet-ipam","dataDir":"DIR"}}`
			}
			w.configure(s, tc.config)
			if tc.change != nil {
				tc.change(w)
			}
			all, err := w.recovery.Running(w.dir)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, a := range all {
				for _, addr := range a.Addresses {
					got = append(got, a.ID.String()+" "+a.Owner.String()+" "+addr.String())
				}
			}
			if tc.want {
				want = []string{s.id + " eth0 ns/web 10.1.0.2"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRebuildWithoutAConfiguration rebuilds a state as the tool does, without any network's
// configuration.
func TestRebuildWithoutAConfiguration(t *testing.T) {
	w := newTestNode(t)
	s := lostSandbox("web", true)
	w.start(s)
	was := w.mustAdd(s)
	w.cacheWhole(s, was)
	w.configure(s, `{"ipam":{"type":"limpet-ipam","dataDir":"DIR"}}`)
	lost := lostSandbox("stray", false)
	w.start(lost)
	w.recovery.Interfaces = w.interfaces(map[string][]netip.Addr{s.pod: was, lost.pod: {netip.MustParseAddr("10.1.0.6")}}, s, lost)
	w.damage(os.Remove)
	store := persistence.New(persistence.Options{Dir: w.dir, Rebuild: w.recovery.RebuildIn(w.dir)})
	if err := store.Update(t.Context(), func(*persistence.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := store.View(t.Context(), func(tx *persistence.Tx) error {
		all, err := tx.Records()
		for _, a := range all.Attachments {
			got = append(got, a.ID.Network+" "+a.ID.ContainerID)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{network + " c-web", network + " netns:/netns/c-stray"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// configure puts another network configuration into the cache. DIR stands for the directory
// of the state.
func (w *testNode) configure(s sandbox, config string) {
	w.t.Helper()
	var file map[string]any
	data, err := os.ReadFile(w.cacheFile(s))
	if err := errors.Join(err, json.Unmarshal(data, &file)); err != nil {
		w.t.Fatal(err)
	}
	file["config"] = []byte(strings.ReplaceAll(config, "DIR", w.dir))
	data, err = json.Marshal(file)
	if err := errors.Join(err, os.WriteFile(w.cacheFile(s), data, 0o600)); err != nil {
		w.t.Fatal(err)
	}
}
