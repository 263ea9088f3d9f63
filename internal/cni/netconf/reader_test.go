package netconf

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/containernetworking/cni/pkg/types"
)

// everyday is a configuration as an interface plugin passes it.
const everyday = `{"bridge":"cni0","capabilities":{"ipRanges":true},"cniVersion":"1.0.0","ipMasq":true,"ipam":{"type":"limpet-ipam","dataDir":"/d",` +
	`"ranges":[[{"subnet":"10.1.0.0/24","rangeStart":"10.1.0.9"}],[{"subnet":"fd00::/64"}]],"routes":[{"dst":"0.0.0.0/0"},{"dst":"fd01::/16","gw":"fd00::1"}],` +
	`"maxReservedPercent":7,"maxReservedPerNamespace":8,"logMaxBytes":-9,"mirrorHostLocal":true,"addWait":"1s"},"name":"net","isGateway":true,` +
	`"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"a":"b","c":"{\"d\":1}","é":"<"},"ips":["10.1.0.9"],"ipRanges":[[]]},` +
	`"args":{"cni":{"ips":[],"io.kubernetes.cri/reserved-ip-duration":"10","limpet.dev/retention":"required","color":"red"}},"type":"bridge","prevResult":{"ips":[{"address":"10.1.0.2/24"}]}}`

// TestReaderKnowsEveryKey compares the keys of reader with those of encoding/json.
func TestReaderKnowsEveryKey(t *testing.T) {
	var f file
	sameKeys(t, reflect.TypeFor[file](), f.fields())
	sameKeys(t, reflect.TypeFor[ipamKeys](), new(ipamKeys).fields())
	if !readJSON([]byte(everyday), f.fields()) {
		t.Error("an everyday configuration is unusual")
	}
}

func sameKeys(t *testing.T, of reflect.Type, fields []field) {
	t.Helper()
	var want, got []string
	for _, f := range reflect.VisibleFields(of) {
		if name := f.Tag.Get("json"); name != "" {
			want = append(want, name)
			if i := slices.IndexFunc(fields, func(f field) bool { return f.key == name }); f.Type.Kind() == reflect.Struct && i >= 0 {
				sameKeys(t, f.Type, fields[i].to.([]field))
			}
		}
	}
	for _, f := range fields {
		got = append(got, f.key)
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("reader knows the keys %q of %s, encoding/json %q", got, of, want)
	}
}

// FuzzReader reads configurations as encoding/json does, with the same errors.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		everyday, "", "null", "[]", "{}", " {\t\"name\" : \"n\" ,\r\n\"cniVersion\":\"1.0.0\"} ", `{"name":"n"}x`, `{"name":"n",}`, `{"name":"n"`,
		`{"name":"a","name":"b"}`, `{"name":"a","NAME":"b"}`, `{"Name":"a"}`, `{"nAme":7,"name":"a"}`, `{"\u006eame":"a"}`, `{"ipam":{"ſubnet":"10.1.0.0/24"}}`,
		`{"name":null,"ipam":null,"prevResult":null,"runtimeConfig":null,"args":{"cni":null}}`, `{"name":5}`, `{"name":"\ud800\u0000` + "\xff" + `"}`, `{"name":"` + "\x01" + `"}`,
		`{"ipam":{"ranges":[]}}`, `{"ipam":{"ranges":[[]]}}`, `{"ipam":{"ranges":[null,[null]]}}`, `{"ipam":{"ranges":{}}}`, `{"ipam":[]}`, `{"ipam":{"ranges":[[{"subnet":5}]]}}`,
		`{"ipam":{"maxReservedPercent":1.5}}`, `{"ipam":{"maxReservedPercent":1e1}}`, `{"ipam":{"maxReservedPercent":-0}}`, `{"ipam":{"maxReservedPercent":01}}`,
		`{"ipam":{"logMaxBytes":9223372036854775808}}`, `{"ipam":{"logMaxBytes":null}}`, `{"ipam":{"mirrorHostLocal":false}}`, `{"ipam":{"mirrorHostLocal":"true"}}`,
		`{"ipam":{"subnet":"a"},"ipam":{"gateway":"b"}}`, `{"runtimeConfig":{"ips":["a"]},"runtimeConfig":{"ips":[]}}`, `{"runtimeConfig":{"ips":["a",null,3]}}`,
		`{"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{}}}`, `{"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"a":"1","a":"2","b":null}}}`,
		`{"other":{"name":"x","deep":[[{"}":"]"},"\"",1,true,null]]},"name":"n"}`, `{"prevResult": [ 1 , {"a":"}"} ] ,"name":"n"}`, `{"ipam":{"routes": [ ] }}`, `{"":"","name":"n"}`,
		`{"args":{"cni":{"io.kubernetes.cri/reserved-ip-duration":10,"limpet.dev/retention":null}}}`, `{"args":{"cni":{"limpet.dev/retention": [ "a" ] }}}`,
		`{"args":{"cni":{"limpet.dev/retention":"a","limpet.dev/retention":"b"}}}`, `{"args":{"cni":{"Limpet.dev/retention":"a"}}}`, `{"args":{"cni":7}}`,
		strings.Repeat(`{"a":`, 10001) + "1" + strings.Repeat("}", 10001),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stdin []byte) {
		var got, want file
		err, wantErr := got.decode(stdin), json.Unmarshal(stdin, &want)
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(err, wantErr) {
			t.Errorf("%s:\n%+v, %v; and encoding/json:\n%+v, %v", stdin, got, err, want, wantErr)
		}
	})
}

// FuzzRoutes reads routes as the CNI library does, with the same errors.
func FuzzRoutes(f *testing.F) {
	for _, s := range []string{
		`[]`, `null`, `{}`, `[{}]`, `[null]`, `[{"dst":"0.0.0.0/0"},{"dst":"10.1.2.3/8","gw":"10.0.0.1"}]`, `[{"dst":"::/0","gw":""}]`, `[{"dst":"10.0.0.0"}]`, `[{"dst":"10.0.0.0/8","gw":"x"}]`,
		`[{"dst":"10.0.0.0/8","mtu":1400}]`, `[{"dst":"10.0.0.0/8","MTU":1400}]`, `[{"dst":"10.0.0.0/8","scope":0,"other":1}]`, `[{"gw":"10.0.0.1"}]`, `[{"dst":5}]`, `[{"dst":"::ffff:10.0.0.0/120"}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			t.Skip("routes reach this decoder only inside of a configuration, which is refused where it is no JSON")
		}
		var want []*types.Route
		wantErr := json.Unmarshal(raw, &want)
		if wantErr != nil || slices.Contains(want, nil) {
			want = nil
		}
		got, err := parseRoutes(raw)
		if !reflect.DeepEqual(got, want) || wantErr != nil && err == nil {
			t.Errorf("%s: %v, %v; and the library: %v, %v", raw, got, err, want, wantErr)
		}
	})
}

// FuzzUsualPod reads CNI_ARGS as the CNI library does.
func FuzzUsualPod(f *testing.F) {
	for _, s := range []string{
		"IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=c;K8S_POD_UID=u", "K8S_POD_NAMESPACE=ns", "A=1", "A=1;IgnoreUnknown=1", "IgnoreUnknown=0",
		"IgnoreUnknown=1;IgnoreUnknown=0;A=1", "IgnoreUnknown=true", "K8S_POD_NAME=a;K8S_POD_NAME=b", "K8S_POD_NAME=a=b", ";", "=", "K8S_POD_NAME", "IP=10.0.0.1", "IP=", "CommonArgs=1", "K8S_POD_NAME=\xff",
		"ip=1;IgnoreUnknown=1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		got, usual := usualPod(args)
		if !usual || args == "" {
			return
		}
		var a podArgs
		err := types.LoadArgs(args, &a)
		want := Pod{Namespace: string(a.K8S_POD_NAMESPACE), Name: string(a.K8S_POD_NAME), UID: string(a.K8S_POD_UID), IP: a.IP.Addr}
		if err != nil || got != want || !utf8.ValidString(args) {
			t.Errorf("%q: %+v; and the library: %+v, %v", args, got, want, err)
		}
	})
}
