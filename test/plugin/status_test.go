package plugin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAKilledStatusSaysNotReady asks an interface plugin for its status while limpet-ipam is killed. The interface plugin
// fails, as it does below host-local: the runtime cannot tell a killed plugin from a node that can start no pod.
func TestAKilledStatusSaysNotReady(t *testing.T) {
	dir, killed := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(killed, "limpet-ipam"), []byte("#!/bin/sh\nkill -KILL $$\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	was := cniPath
	t.Cleanup(func() { cniPath = was })
	ask := call{plugin: lookPath(t, "ptp"), verb: "STATUS", conf: interfaceConf(dir, "ptp")}
	if a := ask.run(t); a.exit != 0 {
		t.Errorf("STATUS: %s%s", a.stdout, a.stderr)
	}
	cniPath = killed + ":" + was
	if a := ask.run(t); a.exit == 0 || !strings.Contains(a.Msg, "killed") {
		t.Errorf("STATUS with a killed limpet-ipam: exit %d, %s%s", a.exit, a.stdout, a.stderr)
	}
	cniPath = was
	if a := ask.run(t); a.exit != 0 {
		t.Errorf("STATUS afterwards: %s%s", a.stdout, a.stderr)
	}
}

// TestStatusFailsWhereEachADDMust asks for the status where no ADD can succeed, and where the runtime gives the ranges to
// each ADD.
func TestStatusFailsWhereEachADDMust(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(c, ipam map[string]any)
		locked bool
		want   string // "" for success
	}{
		"a sound configuration": {},
		"no ipam":               {change: func(c, _ map[string]any) { delete(c, "ipam") }, want: "missing 'ipam' key"},
		"no ranges":             {change: func(_, ipam map[string]any) { delete(ipam, "ranges") }, want: "ipam.ranges"},
		"no ranges, and the runtime gives them": {change: func(c, ipam map[string]any) {
			delete(ipam, "ranges")
			c["capabilities"] = map[string]bool{"ipRanges": true}
		}},
		"a relative dataDir": {change: func(_, ipam map[string]any) { ipam["dataDir"] = "state" }, want: "ipam.dataDir"},
		"a range of the wrong type": {
			change: func(_, ipam map[string]any) { ipam["ranges"] = json.RawMessage(`"10.1.2.0/24"`) }, want: "ipam.ranges",
		},
		"a lock that stays": {change: func(_, ipam map[string]any) { ipam["lockWait"] = "50ms" }, locked: true, want: "locked"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			kubelet(t, call{verb: "ADD", container: "c", args: pod("web-0", "u"), conf: conf(dir, "1.1.0")})
			c := conf(dir, "1.1.0")
			if tc.change != nil {
				tc.change(c, c["ipam"].(map[string]any))
			}
			if tc.locked {
				defer lockState(t, dir)()
			}
			a := call{verb: "STATUS", conf: c}.bounded(t)
			if ok := tc.want == ""; ok != (a.exit == 0) || !ok && (a.Code != 50 || !strings.Contains(a.Msg, tc.want)) {
				t.Errorf("exit %d, %s%s; want %q", a.exit, a.stdout, a.stderr, tc.want)
			}
		})
	}
}
