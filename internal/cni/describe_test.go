package cni_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// TestAnyVerbButDELDescribesItsNetwork loses the state. The agent does not know the size of the
// pool until a verb stores it again. The second verb writes nothing.
func TestAnyVerbButDELDescribesItsNetwork(t *testing.T) {
	for name, run := range map[string]func(w *testNode, s sandbox) error{
		"ADD":                func(w *testNode, s sandbox) error { _, err := w.add(next(s)); return err },
		"CHECK":              func(w *testNode, s sandbox) error { return w.plugin.Funcs().Check(w.args(s, nil)) },
		"STATUS":             func(w *testNode, s sandbox) error { return w.plugin.Funcs().Status(w.args(s, nil)) },
		"GC, with all valid": func(w *testNode, s sandbox) error { return w.plugin.Funcs().GC(w.args(s, valid(s))) },
		"GC, with none left": func(w *testNode, s sandbox) error { return w.plugin.Funcs().GC(w.args(s, valid())) },
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), lostSandbox("web", true)
			w.start(s)
			w.cacheWhole(s, w.mustAdd(s))
			config, limits := w.described()
			if len(config) == 0 || limits == nil {
				t.Fatal("an ADD tells nothing")
			}
			w.damage(func(path string) error { return os.Truncate(path, 0) })
			delete(w.netns, s.netns())
			if err := run(w, s); err != nil {
				t.Fatal(err)
			}
			config2, limits2 := w.described()
			if config2 != config || !cmp.Equal(limits2, limits) {
				t.Errorf("told of %q and %v, before the loss of %q and %v", config2, limits2, config, limits)
			}
			before := w.bytes()
			for range 2 {
				if err := w.plugin.Funcs().Status(w.args(s, nil)); err != nil {
					t.Fatal(err)
				}
			}
			if w.bytes() != before {
				t.Error("a STATUS that has nothing new to tell writes")
			}
		})
	}
}

// TestADELDescribesNothing runs a DEL, whose ranges cannot be trusted: some interface plugins hand
// over none, or make them up.
func TestADELDescribesNothing(t *testing.T) {
	for name, ranges := range map[string]string{
		"without ranges":             `null`,
		"with ranges of a moment":    `[[{"subnet":"0.0.0.0/0"}],[{"subnet":"::/0"}]]`,
		"with those of its network":  ranges,
		"with those of another kind": `[[{"subnet":"10.1.0.0/16"}]]`,
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newTestNode(t), lostSandbox("web", true)
			w.cacheWhole(s, w.mustAdd(s))
			w.damage(func(path string) error { return os.Truncate(path, 0) })
			w.ipam = map[string]any{"ranges": json.RawMessage(ranges)}
			for _, s := range []sandbox{plain("unknown"), s} {
				if err := w.del(s); err != nil {
					t.Fatal(err)
				}
			}
			if config, limits := w.described(); len(config) > 0 || limits != nil {
				t.Errorf("told of %q and %v", config, limits)
			}
		})
	}
}

func valid(all ...sandbox) map[string]any {
	list := []map[string]string{}
	for _, s := range all {
		list = append(list, map[string]string{"containerID": s.id, "ifname": s.ifName})
	}
	return map[string]any{"cni.dev/valid-attachments": list}
}

// described returns what the state tells the agent of the network.
func (w *testNode) described() (config string, limits any) {
	w.t.Helper()
	err := persistence.New(persistence.Options{Dir: w.dir}).View(w.t.Context(), func(tx *persistence.Tx) error {
		all, err := tx.Networks()
		if err != nil {
			return err
		}
		config = string(all[network])
		p, err := tx.PoolUsage(network)
		if p.Limits != nil {
			limits = *p.Limits
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return config, limits
}

func (w *testNode) bytes() string {
	w.t.Helper()
	all := ""
	for _, p := range []part{activeFold, otherFold, theJournal} {
		all += string(w.content(w.path(p)))
	}
	return all
}
