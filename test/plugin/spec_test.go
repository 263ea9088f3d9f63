package plugin_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// results are what ADD answers in each version, as host-local does.
var results = map[string]string{
	"0.1.0": old, "0.2.0": old,
	"0.3.0": withVersion, "0.3.1": withVersion, "0.4.0": withVersion,
	"1.0.0": plain, "1.1.0": plain,
}

const (
	old = `{"cniVersion":"V","dns":{},
		"ip4":{"ip":"10.1.2.2/24","gateway":"10.1.2.1","routes":[{"dst":"0.0.0.0/0"},{"dst":"192.0.2.0/24","gw":"10.1.2.9"}]},
		"ip6":{"ip":"fd00:1::2/64","gateway":"fd00:1::1"}}`
	withVersion = `{"cniVersion":"V","dns":{},
		"ips":[{"version":"4","address":"10.1.2.2/24","gateway":"10.1.2.1"},{"version":"6","address":"fd00:1::2/64","gateway":"fd00:1::1"}],
		"routes":[{"dst":"0.0.0.0/0"},{"dst":"192.0.2.0/24","gw":"10.1.2.9"}]}`
	plain = `{"cniVersion":"V",
		"ips":[{"address":"10.1.2.2/24","gateway":"10.1.2.1"},{"address":"fd00:1::2/64","gateway":"fd00:1::1"}],
		"routes":[{"dst":"0.0.0.0/0"},{"dst":"192.0.2.0/24","gw":"10.1.2.9"}]}`
)

func TestEverySpecVersion(t *testing.T) {
	for version, want := range results {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := call{container: "c1", netns: "/some/where", args: pod("web-0", "u1"), conf: conf(dir, version)}
			do := func(verb string, wantCode uint) answer {
				t.Helper()
				c.verb = verb
				a := c.run(t)
				if a.Code != wantCode || (a.exit == 0) != (wantCode == 0) {
					t.Fatalf("%s: exit %d, %s%s; want code %d", verb, a.exit, a.stdout, a.stderr, wantCode)
				}
				return a
			}
			added := do("ADD", 0)
			var got, expect map[string]any
			decode(t, added.stdout, &got)
			decode(t, want, &expect)
			expect["cniVersion"] = version
			if diff := cmp.Diff(expect, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			do("ADD", 102) // a second one without DEL
			do("CHECK", gate(version, "0.4.0"))
			do("STATUS", gate(version, "1.1.0"))
			do("GC", gate(version, "1.1.0"))
			c.netns = "" // as after a reboot
			do("DEL", 0)
			do("DEL", 0) // repeated
			c.container = "never-seen"
			do("DEL", 0)
			c.container, c.args, c.netns = "c2", "", "/some/where" // a container that is no pod
			do("ADD", 0)
			do("DEL", 0)
			if attached, _ := read(t, dir); len(attached) != 0 {
				t.Errorf("left behind: %v", attached)
			}
		})
	}
}

// gate returns the code that the library answers before a verb existed.
func gate(version, since string) uint {
	order := []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}
	if slices.Index(order, version) < slices.Index(order, since) {
		return 1
	}
	return 0
}

func TestVersion(t *testing.T) {
	a := call{verb: "VERSION", conf: map[string]string{"cniVersion": "1.1.0"}}.run(t)
	var got struct{ SupportedVersions []string }
	decode(t, a.stdout, &got)
	want := []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}
	if diff := cmp.Diff(want, got.SupportedVersions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestErrorsComeAsJSONWithACode(t *testing.T) {
	bad := conf(t.TempDir(), "1.1.0")
	bad["ipam"].(map[string]any)["ranges"] = json.RawMessage(`[[{"subnet":"10.1.2.3/24"}]]`)
	for name, tc := range map[string]struct {
		c    call
		want uint
	}{
		"a broken configuration":   {c: call{conf: bad}, want: 7},
		"no configuration":         {c: call{conf: "text"}, want: 6},
		"a version from afar":      {c: call{conf: conf(t.TempDir(), "9.0.0")}, want: 1},
		"arguments that are none":  {c: call{conf: conf(t.TempDir(), "1.1.0"), args: "K8S_POD_NAME"}, want: 4},
		"a state that is no place": {c: call{conf: conf("/dev/null/x", "1.1.0")}, want: 5},
	} {
		t.Run(name, func(t *testing.T) {
			tc.c.verb, tc.c.container, tc.c.netns = "ADD", "c1", "/some/where"
			if a := tc.c.run(t); a.exit != 1 || a.Code != tc.want || a.Msg == "" {
				t.Errorf("exit %d, %s; want code %d with a message", a.exit, a.stdout, tc.want)
			}
		})
	}
}

func decode(t *testing.T, data string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), to); err != nil {
		t.Fatalf("decode %q: %v", data, err)
	}
}
