package cni_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/skel"
)

// FuzzNetworkConfiguration gives every verb any JSON. Each verb answers a result, or an error
// with the code of an invalid configuration.
func FuzzNetworkConfiguration(f *testing.F) {
	for _, ipam := range []string{
		`{}`, `null`, `5`, `{"ranges":[]}`, `{"ranges":[[]]}`, `{"ranges":[[{"subnet":"10.1.0.0/29"}],[{"subnet":"fd00:1::/64"}]]}`,
		`{"subnet":"10.1.0.0/24","rangeStart":"10.1.0.5","rangeEnd":"10.1.0.9","gateway":"10.1.0.254"}`, `{"subnet":"::ffff:10.1.0.0/120"}`,
		`{"subnet":"10.1.0.0/30","routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.1","mtu":1400},null]}`, `{"ranges":[[{"subnet":"0.0.0.0/0"}],[{"subnet":"::/0"}]]}`,
		`{"subnet":"10.1.0.0/24","maxReservation":"1h","onExhaustion":"refuse","predecessorWait":"1s","lockWait":"1s","resolvConf":"/none","mirrorHostLocal":true,"logFile":"/none","logMaxBytes":1}`,
		`{"subnet":"255.255.255.0/24","rangeStart":"255.255.255.255","rangeEnd":"255.255.255.255"}`, `{"subnet":"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120"}`,
	} {
		f.Add([]byte(`{"cniVersion":"1.1.0","name":"net","ipam":` + ipam + `}`))
	}
	for _, more := range []string{
		`"runtimeConfig":{"ips":["10.1.0.7/24",""],"ipRanges":[[{"subnet":"10.2.0.0/24"}]],"io.kubernetes.cri.pod-annotations":{"io.kubernetes.cri/reserved-ip-duration":"10"}}`,
		`"args":{"cni":{"ips":["10.1.0.7","fd00::1"]}}`, `"prevResult":{"ips":[{"address":"10.1.0.2/24"}]}`, `"prevResult":null`, `"prevResult":5`,
		`"cni.dev/valid-attachments":[{"containerID":"c","ifname":"eth0"}]`, `"cni.dev/valid-attachments":null`, `"cni.dev/valid-attachments":{}`,
	} {
		f.Add([]byte(`{"cniVersion":"1.1.0","name":"net","ipam":{"subnet":"10.1.0.0/24"},` + more + `}`))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w := newTestNode(t)
		stdin, ok := confined(text, w.dir)
		if !ok {
			t.Skip("the configuration is no object that can be kept inside the test: it might write to any path of this machine")
		}
		args := &skel.CmdArgs{ContainerID: "c", IfName: "eth0", Netns: "/none", Conf: netconf.Decode(stdin), Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=p"}
		lives(t, w, args, types.ErrInvalidNetworkConfig, types.ErrDecodingFailure, cni.CodeRequested, cni.CodeExhausted)
	})
}

// FuzzArguments gives ADD any CNI_ARGS.
func FuzzArguments(f *testing.F) {
	for _, args := range []string{
		"", ";", "=", "IP=", "IP=10.1.0.3", "IP=10.1.0.3/24", "IP=fd00:1::3", "IP=10.9.9.9", "IP=10.1.0.1", "IgnoreUnknown=1", "IgnoreUnknown=maybe;A=B", "A=B",
		"IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web-0;K8S_POD_UID=u;K8S_POD_INFRA_CONTAINER_ID=c", "CommonArgs=1", "K8S_POD_NAME=a=b", "IP=1;IP=2", "IP=fe80::1%eth0",
		"K8S_POD_NAMESPACE=../..;K8S_POD_NAME=/etc/passwd", "K8S_POD_NAMESPACE=\xff;K8S_POD_NAME=\xff",
	} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "\x00") {
			t.Skip("no process can be given it: an environment variable ends at a zero byte")
		}
		w := newTestNode(t)
		args := w.args(sandbox{id: "c", ifName: "eth0"}, nil)
		args.Args = text
		lives(t, w, args, types.ErrInvalidEnvironmentVariables, cni.CodeRequested)
	})
}

// lives takes a container through one life. ADD may answer these codes, the other
// verbs fewer; nothing may be left.
func lives(t *testing.T, w *testNode, args *skel.CmdArgs, allowed ...uint) {
	t.Helper()
	verbs := w.plugin.Funcs()
	err := verbs.Add(args)
	judge(t, "ADD", err, allowed...)
	if err == nil && !json.Valid(w.out.Bytes()) || err != nil && w.out.Len() > 0 {
		t.Errorf("ADD, %v, printed %q", err, w.out.String())
	}
	again := verbs.Add(args)
	if err == nil && codeOf(again) != cni.CodeDuplicate {
		t.Errorf("a second ADD: %v", again)
	}
	bad := []uint{types.ErrInvalidNetworkConfig, types.ErrDecodingFailure}
	judge(t, "CHECK", verbs.Check(args), append(bad, cni.CodeUnknown)...)
	judge(t, "STATUS", verbs.Status(args), types.ErrDecodingFailure, 50)
	judge(t, "GC", verbs.GC(args), bad...)
	judge(t, "DEL", verbs.Del(args))
	for id := range w.read().Attached {
		if id.ContainerID == "c" {
			t.Errorf("DEL left %s", id)
		}
	}
}

func judge(t *testing.T, verb string, err error, allowed ...uint) {
	t.Helper()
	if err == nil {
		return
	}
	coded, ok := errors.AsType[*types.Error](err)
	if !ok || !slices.Contains(allowed, coded.Code) || coded.Msg == "" {
		t.Errorf("%s: code %d, %v; want one of %v", verb, codeOf(err), err, allowed)
	}
}

// confined keeps a configuration to the test's own directory. It reports false for what
// the library refuses before a verb runs, and for what would go elsewhere.
func confined(text []byte, dir string) (stdin []byte, ok bool) {
	var conf map[string]any
	var skels struct{ CNIVersion, Name string }
	if json.Unmarshal(text, &conf) != nil || json.Unmarshal(text, &skels) != nil || utils.ValidateNetworkName(skels.Name) != nil {
		return nil, false
	}
	if skels.CNIVersion != "" && !slices.Contains(version.All.SupportedVersions(), skels.CNIVersion) {
		return nil, false
	}
	ipam, ok := conf["ipam"].(map[string]any)
	if !ok {
		return nil, false
	}
	ipam["dataDir"] = dir
	if _, ok := ipam["logFile"].(string); ok {
		ipam["logFile"] = filepath.Join(dir, "ipam.log")
	}
	if _, ok := ipam["resolvConf"].(string); ok {
		ipam["resolvConf"] = filepath.Join(dir, "resolv.conf")
	}
	stdin, err := json.Marshal(conf)
	if err != nil {
		return nil, false
	}
	var seen struct {
		IPAM struct{ DataDir, ResolvConf, LogFile string }
	} // keys are found in any case
	_ = json.Unmarshal(stdin, &seen)
	inside := func(path string) bool { return path == "" || strings.HasPrefix(path, dir) }
	return stdin, seen.IPAM.DataDir == dir && inside(seen.IPAM.ResolvConf) && inside(seen.IPAM.LogFile)
}
