package creation

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	networks  = "k8s.v1.cni.cncf.io/networks"
	webOwner  = "apps/Deployment/web/db"
	blueOwner = "k8s.cni.cncf.io/IPAMClaim/vm.blue/ips"
)

func TestNetworksAreAsked(t *testing.T) {
	ten := reservation.RetentionRequest{Retain: 10 * time.Minute}
	const args = `"cni-args":{"io.kubernetes.cri/reserved-ip-duration":"10"}`
	for name, tc := range map[string]struct {
		asks  reservation.RetentionRequest
		owner string
		value string
		want  string // "" for the annotation as it is
		warns string
	}{
		"no network":                  {asks: ten},
		"an empty list":               {asks: ten, value: "[]", want: "[]"},
		"a name":                      {asks: ten, value: "a", want: `[{"name":"a",` + args + `}]`},
		"each form of a name":         {asks: ten, value: " ns / a @ net7 , b,c@if0,ns/d", want: `[{"namespace":"ns","name":"a","interface":"net7",` + args + `},{"name":"b",` + args + `},{"name":"c","interface":"if0",` + args + `},{"namespace":"ns","name":"d",` + args + `}]`},
		"both keys":                   {asks: reservation.RetentionRequest{Retain: time.Minute, Mode: reservation.Required}, value: "a", want: `[{"name":"a","cni-args":{"io.kubernetes.cri/reserved-ip-duration":"1","limpet.dev/retention":"required"}}]`},
		"one that follows":            {asks: reservation.RetentionRequest{Retain: reservation.Forever, Mode: reservation.Follow}, value: "a", want: `[{"name":"a","cni-args":{"io.kubernetes.cri/reserved-ip-duration":"1440"}}]`},
		"a mode alone":                {asks: reservation.RetentionRequest{Mode: reservation.Required}, value: "a", want: `[{"name":"a","cni-args":{"limpet.dev/retention":"required"}}]`},
		"a part of a minute":          {asks: reservation.RetentionRequest{Retain: 570 * time.Second}, value: "a", want: `[{"name":"a",` + args + `}]`},
		"fields and numbers stay":     {asks: ten, value: `[{"name":"a","ips":["10.0.0.1/24"],"new":12345678901234567890},{"name":"b","cni-args":null}]`, want: `[{"name":"a","ips":["10.0.0.1/24"],"new":12345678901234567890,` + args + `},{"name":"b",` + args + `}]`},
		"cni-args stay":               {asks: ten, value: `[{"name":"a","cni-args":{"color":{"red":1}}}]`, want: `[{"name":"a","cni-args":{"color":{"red":1},"io.kubernetes.cri/reserved-ip-duration":"10"}}]`},
		"a request of the user stays": {asks: ten, value: `[{"name":"a","cni-args":{"io.kubernetes.cri/reserved-ip-duration":"5"}}]`, want: `[{"name":"a","cni-args":{"io.kubernetes.cri/reserved-ip-duration":"5"}}]`},
		"an owner":                    {asks: ten, owner: webOwner, value: "a", want: `[{"name":"a","cni-args":{"io.kubernetes.cri/reserved-ip-duration":"10","limpet.dev/owner":"` + webOwner + `"}}]`},
		"an owner of the user":        {asks: ten, owner: "db", value: `[{"name":"a","cni-args":{"limpet.dev/owner":"///x","Limpet.dev/Owner":"///x"}}]`, want: `[{"name":"a",` + args + `}]`},
		"a claim": {asks: ten, owner: blueOwner, value: `[{"name":"a","ipam-claim-reference":"vm.blue"},{"name":"b","ipam-claim-reference":"vm.red"}]`, want: `[` +
			`{"name":"a","ipam-claim-reference":"vm.blue","cni-args":{"io.kubernetes.cri/reserved-ip-duration":"10","limpet.dev/owner":"` + blueOwner + `"}},` +
			`{"name":"b","ipam-claim-reference":"vm.red","cni-args":{"io.kubernetes.cri/reserved-ip-duration":"10","limpet.dev/owner":"k8s.cni.cncf.io/IPAMClaim/vm.red/ips"}}]`},
		"a claim beside an owner": {asks: ten, owner: webOwner, value: `[{"name":"a","ipam-claim-reference":"vm.blue","cni-args":{"limpet.dev/owner":"///x"}},{"name":"b"}]`, want: `[` +
			`{"name":"a","ipam-claim-reference":"vm.blue","cni-args":{"io.kubernetes.cri/reserved-ip-duration":"10","limpet.dev/owner":"` + blueOwner + `"}},` +
			`{"name":"b","cni-args":{"io.kubernetes.cri/reserved-ip-duration":"10","limpet.dev/owner":"` + webOwner + `"}}]`},
		"a claim that no object can have": {asks: ten, value: `[{"name":"a","ipam-claim-reference":"x/ips\",\"y"},{"name":"b","ipam-claim-reference":7}]`, want: `[` +
			`{"name":"a","ipam-claim-reference":"x/ips\",\"y",` + args + `},{"name":"b","ipam-claim-reference":7,` + args + `}]`},
		"an object in place of a list": {asks: ten, value: `{"name":"a"}`, warns: "not a list"},
		"a list of names":              {asks: ten, value: `["a"]`, warns: "not a list"},
		"a list with null":             {asks: ten, value: `[null]`, warns: "not a list"},
		"cni-args that are no object":  {asks: ten, value: `[{"name":"a","cni-args":"red"}]`, warns: "not a list"},
		"no JSON":                      {asks: ten, value: `[{"name":"a"}`, warns: "not a list"},
		"a name with two slashes":      {asks: ten, value: "a/b/c", warns: "not a list"},
		"a name with two interfaces":   {asks: ten, value: "a@b@c", warns: "not a list"},
		"a name with a blank":          {asks: ten, value: "a b", warns: "not a list"},
		"no name after a comma":        {asks: ten, value: "a,", warns: "not a list"},
		"too long":                     {asks: ten, value: strings.Repeat("a,", maxSelection/2) + "a", warns: "too long"},
		"too long with what is added":  {asks: ten, value: strings.Repeat("a,", maxSelection/3) + "a", warns: "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testenv.APod("web-0")
			if tc.value != "" {
				pod = pod.With(networks, tc.value).With(reservation.OwnerAnnotation, tc.owner)
			}
			var patch podpatch.Patch
			warnings := askNetworks(Facts{Pod: pod.Pod, Retention: tc.asks}, &patch)
			if len(warnings) > 1 || !strings.Contains(strings.Join(warnings, ""), tc.warns) || (len(warnings) == 0) != (tc.warns == "") {
				t.Errorf("warnings %q, want one with %q", warnings, tc.warns)
			}
			if diff := cmp.Diff(decoded(t, tc.want), decoded(t, patch.Annotations[networks])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	if text == "" {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// A pod that selects its default network is asked for that one, too. What a subset's patch selects stays.
func TestOtherSelectionsOfNetworks(t *testing.T) {
	const ofDefault = "v1.multus-cni.io/default-network"
	facts := Facts{Pod: testenv.APod("web-0").With(networks, "a").With(ofDefault, "b").Pod, Retention: reservation.RetentionRequest{Retain: time.Minute}}
	patch := podpatch.Patch{Strategic: []byte(`{"metadata":{"annotations":{"` + networks + `":"c"}}}`), Annotations: map[string]string{"k": "v"}}
	if warnings := askNetworks(facts, &patch); len(warnings) > 0 {
		t.Errorf("warnings %q", warnings)
	}
	want := map[string]string{"k": "v", ofDefault: `[{"cni-args":{"io.kubernetes.cri/reserved-ip-duration":"1"},"name":"b"}]`}
	if diff := cmp.Diff(want, patch.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
