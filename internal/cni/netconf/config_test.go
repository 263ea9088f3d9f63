package netconf_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// config returns a network configuration with keys under ipam.
func config(ipam string) []byte {
	return []byte(`{"cniVersion":"1.1.0","name":"net","ipam":{"ranges":[[{"subnet":"10.1.0.0/29"}]]` + ipam + `}}`)
}

// TestEndAcceptsWhatAddRefuses has settings that ADD refuses. The other verbs go on with the default.
func TestEndAcceptsWhatAddRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ ipam, want string }{
		"relative dataDir":      {`,"dataDir":"state"`, "ipam.dataDir"},
		"number as dataDir":     {`,"dataDir":7`, "ipam.dataDir"},
		"unknown policy":        {`,"onExhaustion":"panic"`, "ipam.onExhaustion"},
		"share over 100":        {`,"maxReservedPercent":101`, "ipam.maxReservedPercent"},
		"duration of nothing":   {`,"predecessorWait":"0s"`, "ipam.predecessorWait"},
		"relative log file":     {`,"logFile":"ipam.log"`, "ipam.logFile"},
		"log without room":      {`,"logMaxBytes":0`, "ipam.logMaxBytes"},
		"null among the routes": {`,"routes":[null]`, "ipam.routes"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := netconf.Decode(config(tc.ipam)).ParseAdd(); !errors.Is(err, netconf.ErrConfig) || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("ParseAdd: %v, want %s", err, tc.want)
			}
			c, err := netconf.Decode(config(tc.ipam)).ParseEnd()
			if err != nil {
				t.Fatal(err)
			}
			if c.DataDir != "" || c.Refuse || c.SharePercent != reservation.DefaultSharePercent || c.PredecessorWait != netconf.DefaultPredecessorWait || len(c.Sets) != 1 {
				t.Errorf("ParseEnd: %+v", c)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	c, err := netconf.Decode(config(`,"dataDir":"/srv//a/","onExhaustion":"refuse","maxReservedPercent":10,"maxReservation":"1h","predecessorWait":"5s","addWait":"0s","lockWait":"1s","mirrorHostLocal":true,"resolvConf":"/etc/resolv.conf","node":"n1"`)).ParseAdd()
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(c.DataDir, c.Refuse, c.SharePercent, c.MaxReservation, c.PredecessorWait, c.AddWait, c.LockWait, c.Mirror, c.ResolvConf, c.Node)
	if want := fmt.Sprintln("/srv/a", true, 10, time.Hour, 5*time.Second, 0*time.Second, time.Second, true, "/etc/resolv.conf", "n1"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAssign(t *testing.T) {
	const sets = `{"name":"net","ipam":{"ranges":[[{"subnet":"10.1.0.0/29"}],[{"subnet":"fd00::/64"}]]},`
	for name, tc := range map[string]struct {
		more string
		pod  string
		want string
		err  error
	}{
		"none":                      {more: `"x":0}`, want: "[invalid IP invalid IP]"},
		"by the configuration":      {more: `"args":{"cni":{"ips":["fd00::9/64"]}}}`, want: "[invalid IP fd00::9]"},
		"by the runtime":            {more: `"runtimeConfig":{"ips":["10.1.0.3"]}}`, want: "[10.1.0.3 invalid IP]"},
		"CNI_ARGS come first":       {more: `"runtimeConfig":{"ips":["fd00::9"]}}`, pod: "IP=10.1.0.4", want: "[10.1.0.4 fd00::9]"},
		"two of one set":            {more: `"runtimeConfig":{"ips":["10.1.0.3","10.1.0.4"]}}`, err: netconf.ErrRequested},
		"an address in no set":      {more: `"runtimeConfig":{"ips":["10.9.0.3"]}}`, err: netconf.ErrRequested},
		"the gateway":               {more: `"runtimeConfig":{"ips":["10.1.0.1"]}}`, err: netconf.ErrRequested},
		"text that is no address":   {more: `"runtimeConfig":{"ips":["here"]}}`, err: netconf.ErrConfig},
		"an address with a zone":    {more: `"runtimeConfig":{"ips":["fe80::1%eth0"]}}`, err: netconf.ErrConfig},
		"IPv4 in the notation of 6": {more: `"runtimeConfig":{"ips":["::ffff:10.1.0.3"]}}`, want: "[10.1.0.3 invalid IP]"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := netconf.Decode([]byte(sets + tc.more)).ParseAdd()
			if err != nil {
				if !errors.Is(err, tc.err) {
					t.Fatalf("parse: %v, want %v", err, tc.err)
				}
				return
			}
			pod, err := netconf.ParsePod(tc.pod)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Assign(pod)
			if !errors.Is(err, tc.err) || err == nil && fmt.Sprint(got) != tc.want {
				t.Errorf("got %v, %v; want %s, %v", got, err, tc.want, tc.err)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	a := reservation.Attachment{Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2")}}
	for name, tc := range map[string]struct {
		result string
		want   error
	}{
		"without a result":         {},
		"null":                     {result: "null"},
		"the address among others": {result: `{"ips":[{"address":"10.9.0.2/24"},{"address":"10.1.0.2/29"}]}`},
		"another address":          {result: `{"ips":[{"address":"10.1.0.3/29"}]}`, want: netconf.ErrUnknown},
		"no result at all":         {result: `7`, want: netconf.ErrConfig},
	} {
		t.Run(name, func(t *testing.T) {
			if err := netconf.Compare(a, []byte(tc.result)); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestValidAttachments(t *testing.T) {
	id := reservation.AttachmentID{Network: "net", ContainerID: "c", IfName: "eth0"}
	for name, tc := range map[string]struct {
		list  string
		known bool
		valid int
		err   error
	}{
		"without a list": {list: `{"type":"x"}`},
		"a null list":    {list: `{"cni.dev/valid-attachments":null}`, known: true},
		"one attachment": {list: `{"cni.dev/valid-attachments":[{"containerID":"c","ifname":"eth0"}]}`, known: true, valid: 1},
		"no list":        {list: `{"cni.dev/valid-attachments":7}`, err: netconf.ErrConfig},
	} {
		t.Run(name, func(t *testing.T) {
			valid, known, err := netconf.Decode([]byte(`{"name":"net",` + tc.list[1:])).ValidAttachments()
			if !errors.Is(err, tc.err) || known != tc.known || len(valid) != tc.valid || valid[id] != (tc.valid == 1) {
				t.Errorf("got %v, %t, %v", valid, known, err)
			}
		})
	}
}

// TestRequestInArgs has what Multus passes on: args.cni, and mostly no annotations. An annotation wins, key by key.
func TestRequestInArgs(t *testing.T) {
	const retain, mode = `"io.kubernetes.cri/reserved-ip-duration":`, `"limpet.dev/retention":`
	for name, tc := range map[string]struct {
		args, annotations string
		want              string
		warns             int
		owner             string
	}{
		"an owner":                     {args: retain + `"10","limpet.dev/owner":"a/B/c/d"`, want: "10m0s preferred true", owner: "a/B/c/d"},
		"an owner with an escape":      {args: retain + `"10","limpet.dev/owner":"a/B/c/\u0064"`, want: "10m0s preferred true"},
		"an owner of the annotations":  {args: `"limpet.dev/owner":"a/B/c/d"`, annotations: `"limpet.dev/owner":"///e"`, want: "0s preferred true", owner: "///e"},
		"nothing":                      {args: `"color":"red"`, want: "0s preferred false"},
		"both keys":                    {args: retain + `"10",` + mode + `"required"`, want: "10m0s required true"},
		"an annotation wins":           {args: retain + `"10",` + mode + `"required"`, annotations: retain + `"5"`, want: "5m0s required true"},
		"an annotation for nothing":    {args: retain + `"10"`, annotations: retain + `"0"`, want: "0s preferred true"},
		"more than the maximum":        {args: retain + `"9999"`, want: "24h0m0s preferred true", warns: 1},
		"a number in place of text":    {args: retain + `10`, want: "10m0s preferred true"},
		"values that are wrong":        {args: retain + `"ten",` + mode + `"yes"`, want: "0s preferred true", warns: 2},
		"values of any other type":     {args: retain + `{"a":[1]},` + mode + `null`, want: "0s preferred true", warns: 2},
		"an escape, which is no value": {args: retain + `"\u0031"`, want: "0s preferred true", warns: 1},
	} {
		t.Run(name, func(t *testing.T) {
			in := fmt.Sprintf(`{"name":"net","args":{"cni":{%s}},"ipam":{"ranges":[[{"subnet":"10.1.0.0/29"}]]}`, tc.args)
			if tc.annotations != "" {
				in += `,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{` + tc.annotations + `}}`
			}
			c, err := netconf.Decode([]byte(in + "}")).ParseAdd()
			if err != nil {
				t.Fatal(err)
			}
			a, warnings := c.Attachment(netconf.Pod{Name: "web-1"}, "c", "net1")
			if a.Owner.Pod != cmp.Or(tc.owner, "web-1") {
				t.Errorf("the owner is %q, want %q", a.Owner.Pod, tc.owner)
			}
			if got := fmt.Sprint(a.Retain, a.Mode, a.AnnotationsSeen); got != tc.want || len(warnings) != tc.warns {
				t.Errorf("got %s with %q, want %s with %d warnings", got, warnings, tc.want, tc.warns)
			}
		})
	}
}
