package plan_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const bridgeList = `{"cniVersion":"1.0.0","name":"pods","mtu":9007199254740993,"plugins":[
  {"type":"bridge","bridge":"cni0","ipam":{"type":"host-local","subnet":"10.1.0.0/24"}},{"type":"portmap"}]}`

// adoptInput returns what an agent knows whose node has this one network configuration.
func adoptInput(data string) plan.AdoptInput {
	return plan.AdoptInput{
		First: &plan.ConfigFile{Name: "10-pods.conflist", Data: []byte(data)}, Content: map[string][]byte{"10-pods.conflist": []byte(data)},
		Options:  plan.PluginOptions{StateDir: "/var/lib/cni/limpet", MaxRetain: reservation.DefaultMaxRetain, SharePercent: reservation.DefaultSharePercent},
		Binaries: []string{"bridge", "ptp", "macvlan", "ipvlan"},
		Accepts:  func([]byte) error { return nil }, Now: time.Unix(10000, 0),
	}
}

// TestAdoptPatches compares the patched configuration with the wanted one.
func TestAdoptPatches(t *testing.T) {
	const asks = `"capabilities":{"io.kubernetes.cri.pod-annotations":true}`
	for name, tc := range map[string]struct {
		data, want string
		change     func(*plan.PluginOptions)
	}{
		"a list": {data: bridgeList, want: `{"cniVersion":"1.0.0","name":"pods","mtu":9007199254740993,"plugins":[
			{"type":"bridge","bridge":"cni0",` + asks + `,"ipam":{"type":"limpet-ipam","subnet":"10.1.0.0/24","mirrorHostLocal":true}},{"type":"portmap"}]}`},
		"meshes behind it": {
			data: `{"name":"pods","plugins":[{"type":"ptp","ipam":{"type":"host-local"}},` + istioEntry + `,` + linkerdEntry + `]}`,
			want: `{"name":"pods","plugins":[{"type":"ptp",` + asks + `,"ipam":{"type":"limpet-ipam","mirrorHostLocal":true}},` + istioEntry + `,` + linkerdEntry + `]}`,
		},
		"one plugin": {
			data: `{"name":"pods","type":"ptp","ipam":{"type":"host-local","subnet":"10.1.0.0/24"}}`,
			want: `{"name":"pods","type":"ptp",` + asks + `,"ipam":{"type":"limpet-ipam","subnet":"10.1.0.0/24","mirrorHostLocal":true}}`,
		},
		"other capabilities stay": {
			data: `{"name":"pods","type":"macvlan","capabilities":{"ips":true},"ipam":{"type":"host-local"}}`,
			want: `{"name":"pods","type":"macvlan","capabilities":{"ips":true,"io.kubernetes.cri.pod-annotations":true},"ipam":{"type":"limpet-ipam","mirrorHostLocal":true}}`,
		},
		"limits of the agent": {
			data: `{"name":"pods","type":"ipvlan","ipam":{"type":"host-local"}}`, change: func(o *plan.PluginOptions) { o.MaxRetain, o.SharePercent = time.Hour, 40 },
			want: `{"name":"pods","type":"ipvlan",` + asks + `,"ipam":{"type":"limpet-ipam","mirrorHostLocal":true,"maxReservation":"1h0m0s","maxReservedPercent":40}}`,
		},
		"limits of the owner": {
			data: `{"name":"pods","type":"ptp","ipam":{"type":"host-local","maxReservedPercent":7}}`, change: func(o *plan.PluginOptions) { o.SharePercent = 40 },
			want: `{"name":"pods","type":"ptp",` + asks + `,"ipam":{"type":"limpet-ipam","mirrorHostLocal":true,"maxReservedPercent":7}}`,
		},
		"the directory of the agent": {
			data: `{"name":"pods","type":"ptp","ipam":{"type":"host-local","dataDir":"/srv/cni/"}}`, change: func(o *plan.PluginOptions) { o.DataDir, o.StateDir = "/srv/cni", "/srv/cni" },
			want: `{"name":"pods","type":"ptp",` + asks + `,"ipam":{"type":"limpet-ipam","dataDir":"/srv/cni/","mirrorHostLocal":true}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := adoptInput(tc.data)
			if tc.change != nil {
				tc.change(&in.Options)
			}
			d := plan.Adopt(in)
			if d.Err != nil {
				t.Fatal(d.Err)
			}
			if diff := cmp.Diff(decoded(t, []byte(tc.want)), decoded(t, d.Patched)); diff != "" {
				t.Errorf("patched (-want +got):\n%s", diff)
			}
			want := []plan.Adopted{{Name: in.First.Name, Original: []byte(tc.data), Patched: sha256.Sum256(d.Patched)}}
			if diff := cmp.Diff(want, d.Records); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

func decoded(t *testing.T, data []byte) (o any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	if err := d.Decode(&o); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return o
}

// TestAdoptLeavesAlone has files that are not patched, and what the agent says about each.
func TestAdoptLeavesAlone(t *testing.T) {
	for name, tc := range map[string]struct{ data, why string }{
		"half a file":                 {bridgeList[:60], "no JSON object"},
		"an empty file":               {"", "no JSON object"},
		"not an object":               {`[]`, "no JSON object"},
		"text behind the object":      {bridgeList + "}", "text behind"},
		"two objects":                 {bridgeList + bridgeList, "text behind"},
		"no name":                     {`{"type":"ptp","ipam":{"type":"host-local"}}`, "no name"},
		"flannel":                     {`{"name":"cbr0","plugins":[{"type":"flannel","delegate":{"isDefaultGateway":true}}]}`, "no plugin in it has an ipam section of type host-local"},
		"another interface plugin":    {`{"name":"a","type":"calico","ipam":{"type":"host-local","subnet":"usePodCidr"}}`, `plugin "calico" is none of bridge`},
		"another IPAM plugin":         {`{"name":"a","type":"ptp","ipam":{"type":"dhcp"}}`, "no plugin in it"},
		"plugins of another type":     {`{"name":"a","plugins":["ptp",7,null]}`, "no plugin in it"},
		"ipam of another type":        {`{"name":"a","type":"ptp","ipam":"host-local"}`, "no plugin in it"},
		"a second spelling of ipam":   {`{"name":"a","type":"ptp","IPAM":{"type":"dhcp"},"ipam":{"type":"host-local"}}`, `"IPAM" is another spelling`},
		"a second spelling of type":   {`{"name":"a","type":"ptp","ipam":{"type":"host-local","Type":"dhcp"}}`, `"Type" is another spelling`},
		"capabilities of no object":   {`{"name":"a","type":"ptp","capabilities":[],"ipam":{"type":"host-local"}}`, "capabilities is no JSON object"},
		"another directory":           {`{"name":"a","type":"ptp","ipam":{"type":"host-local","dataDir":"/run/x"}}`, "--state-dir"},
		"a directory that is no text": {`{"name":"a","type":"ptp","ipam":{"type":"host-local","dataDir":7}}`, "ipam.dataDir is no text"},
		"refused by the plugin":       {`{"name":"a","type":"ptp","ipam":{"type":"host-local","x":"bad"}}`, "limpet-ipam refuses this configuration: bad range"},
		"a plugin that is elsewhere":  {`{"name":"a","plugins":[{"type":"ptp","ipam":{"type":"host-local"}},{"type":"bridge","ipam":{"type":"host-local"}}]}`, `plugin "bridge" is not in the directory of --cni-bin-dir`},
		"refused in the second":       {`{"name":"a","plugins":[{"type":"ptp","ipam":{"type":"host-local"}},{"type":"ptp","ipam":{"type":"host-local","x":"bad"}}]}`, "bad range"},
	} {
		t.Run(name, func(t *testing.T) {
			in := adoptInput(tc.data)
			in.Binaries = []string{"ptp", "macvlan"}
			in.Accepts = func(conf []byte) error {
				if strings.Contains(string(conf), `"bad"`) {
					return errors.New("bad range")
				}
				return nil
			}
			d := plan.Adopt(in)
			if d.Patched != nil || len(d.Records) > 0 || d.Err == nil || !strings.Contains(d.Err.Error(), tc.why) {
				t.Errorf("patched %s, records %v, error %v; want an error with %q", d.Patched, d.Records, d.Err, tc.why)
			}
		})
	}
}

// TestAdoptAsksThePlugin checks what limpet-ipam is asked about: the plugin's part with the keys of the list.
func TestAdoptAsksThePlugin(t *testing.T) {
	in := adoptInput(bridgeList)
	var asked []byte
	in.Accepts = func(conf []byte) error { asked = conf; return nil }
	plan.Adopt(in)
	want := `{"cniVersion":"1.0.0","name":"pods","type":"bridge","bridge":"cni0","capabilities":{"io.kubernetes.cri.pod-annotations":true},
		"ipam":{"type":"limpet-ipam","subnet":"10.1.0.0/24","mirrorHostLocal":true}}`
	if diff := cmp.Diff(decoded(t, []byte(want)), decoded(t, asked)); diff != "" {
		t.Errorf("asked about (-want +got):\n%s", diff)
	}
}

// adoption is a node whose network configuration changes between rounds.
type adoption struct {
	in plan.AdoptInput
	d  plan.AdoptDecision
}

func (a *adoption) holds(data []byte) {
	a.in.First.Data = data
	a.in.Content = map[string][]byte{a.in.First.Name: data}
	a.d = plan.Adopt(a.in)
	a.in.Records = a.d.Records
}

// TestAdoptAgain follows one file through the changes of its owner and of an operator.
func TestAdoptAgain(t *testing.T) {
	a := &adoption{in: adoptInput(bridgeList)}
	a.holds([]byte(bridgeList))
	patched := a.d.Patched
	a.holds([]byte(bridgeList)) // killed between the record and the patch
	if !cmp.Equal(a.d.Patched, patched) || len(a.d.Records) != 1 {
		t.Errorf("after an interruption: %s, %d records", a.d.Patched, len(a.d.Records))
	}
	a.holds(patched)
	if a.d.Patched != nil || a.d.Err != nil || string(a.d.Records[0].Original) != bridgeList {
		t.Errorf("the patched file: %s, %v, records %v", a.d.Patched, a.d.Err, a.d.Records)
	}
	binaries := a.in.Binaries
	a.in.Binaries = nil // while an update replaces them
	a.holds(patched)
	if a.d.Patched != nil || a.d.Err != nil || len(a.d.Records) != 1 {
		t.Errorf("the patched file without the binary: %s, %v, records %v", a.d.Patched, a.d.Err, a.d.Records)
	}
	a.in.Binaries, a.in.Options.SharePercent = binaries, 10
	a.holds(patched)
	if !strings.Contains(string(a.d.Patched), `"maxReservedPercent": 10`) || string(a.d.Records[0].Original) != bridgeList {
		t.Errorf("with another limit: %s, records %v", a.d.Patched, a.d.Records)
	}
	rewritten := strings.Replace(bridgeList, "cni0", "cni1", 1)
	a.holds([]byte(rewritten))
	if !strings.Contains(string(a.d.Patched), "cni1") || len(a.d.Records) != 1 || string(a.d.Records[0].Original) != rewritten {
		t.Errorf("after the owner's change: %s, records %v", a.d.Patched, a.d.Records)
	}
	edited := strings.Replace(string(a.d.Patched), "cni1", "cni2", 1)
	a.holds([]byte(edited)) // by an operator, who knows limpet-ipam
	if a.d.Patched != nil || a.d.Err != nil || len(a.d.Records) != 1 {
		t.Errorf("after the operator's change: %s, %v, records %v", a.d.Patched, a.d.Err, a.d.Records)
	}
	for _, mesh := range []string{istioEntry, linkerdEntry} { // which wrote its entry behind those that are there
		edited = strings.TrimRight(edited, "]}\n ") + "}," + mesh + "]}"
		a.holds([]byte(edited))
		if a.d.Patched != nil || a.d.Err != nil || len(a.d.Records) != 1 {
			t.Errorf("after a mesh: %s, %v, records %v", a.d.Patched, a.d.Err, a.d.Records)
		}
	}
	a.holds([]byte(`{"name":"pods","type":"ptp","ipam":{"type":"dhcp"}}`))
	if a.d.Err == nil || len(a.d.Records) != 0 {
		t.Errorf("after a change to another plugin: %v, records %v", a.d.Err, a.d.Records)
	}
	own := &adoption{in: adoptInput(limpetList)}
	own.holds([]byte(limpetList))
	if own.d.Patched != nil || own.d.Err != nil || len(own.d.Records) != 0 {
		t.Errorf("a file of the operator: %s, %v, records %v", own.d.Patched, own.d.Err, own.d.Records)
	}
}

// TestAdoptIsInterruptedTwice has an agent that ends between record and patch: it has patched the file before, and
// starts again with other options.
func TestAdoptIsInterruptedTwice(t *testing.T) {
	a := &adoption{in: adoptInput(bridgeList)}
	a.holds([]byte(bridgeList))
	first := a.d.Patched
	for _, percent := range []int{10, 20} {
		a.in.Options.SharePercent = percent
		a.holds(first) // the agent ends here, and the file stays
		to := plan.Restore(a.d.Records, a.in.Content)
		if len(to.Files) != 1 || string(to.Files[0].Data) != bridgeList {
			t.Errorf("restored with %d%%: %+v", percent, to)
		}
	}
	a.holds(first)
	if !strings.Contains(string(a.d.Patched), `"maxReservedPercent": 20`) {
		t.Errorf("patched after the interruptions: %s, %v", a.d.Patched, a.d.Err)
	}
	a.holds(a.d.Patched)
	if a.d.Patched != nil || a.d.Err != nil || len(a.d.Records) != 1 || string(a.d.Records[0].Original) != bridgeList {
		t.Errorf("the patched file: %s, %v, records %v", a.d.Patched, a.d.Err, a.d.Records)
	}
}

// TestAdoptNothing has nodes without a file that could be read.
func TestAdoptNothing(t *testing.T) {
	in := adoptInput(bridgeList)
	in.Problem = errors.New("is a link")
	if d := plan.Adopt(in); !errors.Is(d.Err, in.Problem) || d.Patched != nil {
		t.Errorf("a link: %+v", d)
	}
	in.First, in.Problem = nil, nil
	in.Records = []plan.Adopted{{Name: "10-pods.conflist"}}
	in.Content = nil
	if d := plan.Adopt(in); !errors.Is(d.Err, plan.ErrNoNetwork) || d.Patched != nil || len(d.Records) != 1 {
		t.Errorf("no file: %+v", d)
	}
}

// TestAdoptKeepsRecordsOfAbsentFiles has a patched file that cannot be read for a round, and an owner that uses a new
// name each time.
func TestAdoptKeepsRecordsOfAbsentFiles(t *testing.T) {
	a := &adoption{in: adoptInput(bridgeList)}
	a.holds([]byte(bridgeList))
	patched, there := a.d.Patched, *a.in.First
	for i := range 20 {
		a.in.First = &plan.ConfigFile{Name: fmt.Sprintf("%d.conflist", i)}
		a.holds([]byte(bridgeList))
		if i == 0 {
			a.in.First = &there
			a.holds(patched)
			if a.d.Patched != nil || a.d.Err != nil || string(a.d.Records[0].Original) != bridgeList {
				t.Errorf("the patched file is back: %s, %v, records %v", a.d.Patched, a.d.Err, a.d.Records)
			}
		}
	}
	if n := len(a.d.Records); n != 9 || a.d.Records[n-1].Name != "19.conflist" || a.d.Records[0].Name != "11.conflist" {
		t.Errorf("%d records: %v", n, a.d.Records)
	}
}

// TestAdoptGivesIn has a program that changes the file back each time.
func TestAdoptGivesIn(t *testing.T) {
	var pauses []string
	in := adoptInput(bridgeList)
	for range 12 {
		start := in.Now
		for in.Now.Sub(start) < time.Hour {
			d := plan.Adopt(in)
			if d.Patched != nil {
				break
			}
			if !strings.Contains(d.Err.Error(), "changed back") {
				t.Fatal(d.Err)
			}
			in.Now = in.Now.Add(time.Second)
		}
		pauses = append(pauses, in.Now.Sub(start).String())
		in.Patches = append(in.Patches, in.Now)
	}
	want := "[0s 0s 0s 0s 0s 10s 20s 40s 1m20s 2m40s 5m0s 5m0s]"
	if got := fmt.Sprint(pauses); got != want {
		t.Errorf("pauses %s, want %s", got, want)
	}
}

// TestRestore decides about files that are as the agent left them, and about others.
func TestRestore(t *testing.T) {
	record := func(name string) plan.Adopted {
		return plan.Adopted{Name: name, Original: []byte("original of " + name), Patched: sha256.Sum256([]byte(limpetList))}
	}
	to := plan.Restore([]plan.Adopted{record("as-it-was"), record("edited"), record("replaced"), record("gone")}, map[string][]byte{
		"as-it-was": []byte(limpetList), "edited": []byte(limpetList + " "), "replaced": []byte(hostLocalList), "not-ours": []byte(limpetList),
	})
	if len(to.Files) != 1 || to.Files[0].Name != "as-it-was" || string(to.Files[0].Data) != "original of as-it-was" {
		t.Errorf("files %+v", to.Files)
	}
	if got := fmt.Sprint(to.Left); len(to.Left) != 2 || !strings.Contains(got, "edited was changed") || !strings.Contains(got, "gone, which the agent has patched, is missing") {
		t.Errorf("left %v", to.Left)
	}
}
