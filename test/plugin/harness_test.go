// Package plugin_test runs limpet-ipam as its callers do: as a process, with an
// environment and a configuration, by itself and below real interface plugins.
package plugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/cniexec"
	"github.com/limpet-io/limpet/test/debian"
	"github.com/limpet-io/limpet/test/programs"
)

var (
	binary   string // limpet-ipam
	cniPath  string // where it and the interface plugins are
	emulator string // of another architecture, if the tests run a binary of one
)

func TestMain(m *testing.M) {
	cache, err := debian.Cache(os.Getenv(debian.CacheVar))
	if architecture := os.Getenv(cniexec.EmulatedVar); err == nil && architecture != "" {
		emulator, err = cniexec.Emulator(context.Background(), cache, architecture)
	}
	code := 0
	if err == nil {
		code, err = cniexec.Alone(func() (int, error) { return buildAndRun(m) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		code = 1
	}
	os.Exit(code)
}

// buildAndRun builds the plugin, and the interface plugins unless programs.Var
// says where they are.
func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "limpet-plugin-test-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built, err := cniexec.Build(context.Background(), "../..", dir, os.Getenv(programs.Var))
	if err != nil {
		return 0, err
	}
	if emulator != "" {
		if err := cniexec.Emulate(context.Background(), "../..", emulator, built.Limpet, "./cmd/ipam-plugin"); err != nil {
			return 0, err
		}
	}
	binary, cniPath = built.Limpet, built.Path()
	return m.Run(), nil
}

// notEmulated leaves out a test that counts system calls, or of what the plugin asks the kernel about neighbours and
// connections. The emulator makes calls of its own and does not pass such questions on; the plugin goes on without.
func notEmulated(t *testing.T) {
	t.Helper()
	if emulator != "" {
		t.Skip("the emulator makes system calls of its own, and passes on no netlink about neighbours and connections")
	}
}

// times returns how often a test tries its luck: n times, and a third of them with -short.
func times(n int) int {
	if testing.Short() {
		return n / 3
	}
	return n
}

// call is one execution of a plugin.
type call struct {
	plugin      string // its path; limpet-ipam when empty
	verb        string
	container   string
	netns       string
	args        string // CNI_ARGS
	ifName      string // eth0 when empty
	conf        any
	covered     string          // where a plugin that was built to count its statements writes the numbers
	interrupted context.Context // kills the process when done
}

// answer is what a plugin said.
type answer struct {
	stdout string
	stderr string
	exit   int
	// Code and Msg are those of an error answer.
	Code uint   `json:"code"`
	Msg  string `json:"msg"`
	IPs  []struct {
		Address netip.Prefix `json:"address"`
	} `json:"ips"`
}

func (a answer) addrs() []netip.Addr {
	var all []netip.Addr
	for _, ip := range a.IPs {
		all = append(all, ip.Address.Addr())
	}
	return all
}

func (c call) run(t testing.TB) answer {
	t.Helper()
	stdin, err := json.Marshal(c.conf)
	if err != nil {
		t.Fatal(err)
	}
	ctx := c.interrupted
	if ctx == nil {
		ctx = t.Context()
	}
	if c.plugin == "" {
		c.plugin = binary
	}
	if c.ifName == "" {
		c.ifName = "eth0"
	}
	cmd := exec.CommandContext(ctx, c.plugin)
	cmd.Env = []string{
		"CNI_COMMAND=" + c.verb, "CNI_CONTAINERID=" + c.container, "CNI_IFNAME=" + c.ifName, "CNI_NETNS=" + c.netns,
		"CNI_ARGS=" + c.args, "CNI_PATH=" + cniPath, "PATH=" + os.Getenv("PATH"), "GOCOVERDIR=" + c.covered,
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	err = cmd.Run()
	a := answer{stdout: stdout.String(), stderr: stderr.String(), exit: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		t.Fatal(err)
	}
	if stdout.Len() > 0 && ctx.Err() == nil {
		_ = json.Unmarshal(stdout.Bytes(), &a) // VERSION and old results have other shapes
	}
	return a
}

// pod returns CNI_ARGS as a Kubernetes runtime sends them.
func pod(name, uid string) string {
	return fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=%s;K8S_POD_UID=%s", name, uid)
}

// conf returns a dual-stack network configuration.
func conf(dir, version string) map[string]any {
	return map[string]any{
		"cniVersion": version, "name": "net", "type": "limpet-test",
		"ipam": map[string]any{
			"type": "limpet-ipam", "dataDir": dir, "logFile": dir + "/ipam.log", "addWait": "0s",
			"ranges": json.RawMessage(`[[{"subnet":"10.1.2.0/24"}],[{"subnet":"fd00:1::/64"}]]`),
			"routes": json.RawMessage(`[{"dst":"0.0.0.0/0"},{"dst":"192.0.2.0/24","gw":"10.1.2.9"}]`),
		},
		"runtimeConfig": map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{reservation.RetainAnnotation: "10"}},
	}
}

// withPrevious adds the result of the ADD, which tells a DEL from a rollback.
func withPrevious(conf map[string]any, addrs []netip.Addr) map[string]any {
	var ips []map[string]string
	for _, a := range addrs {
		ips = append(ips, map[string]string{"address": netip.PrefixFrom(a, a.BitLen()).String()})
	}
	conf["prevResult"] = map[string]any{"cniVersion": "1.1.0", "ips": ips}
	return conf
}

// read returns what the state file holds, and fails when its index disagrees.
func read(t testing.TB, dir string) (attached map[string]reservation.Attachment, reserved map[string]reservation.Reservation) {
	t.Helper()
	return readNetwork(t, dir, "net")
}

func readNetwork(t testing.TB, dir, network string) (attached map[string]reservation.Attachment, reserved map[string]reservation.Reservation) {
	t.Helper()
	attached, reserved = map[string]reservation.Attachment{}, map[string]reservation.Reservation{}
	err := persistence.New(persistence.Options{Dir: dir}).View(t.Context(), func(tx *persistence.Tx) error {
		held := map[netip.Addr]bool{}
		hold := func(addrs []netip.Addr) {
			for _, a := range addrs {
				if held[a] {
					t.Errorf("%s is held twice", a)
				}
				held[a] = true
			}
		}
		as, err := tx.Attachments(network)
		if err != nil {
			return err
		}
		for _, a := range as {
			attached[a.ID.ContainerID] = a
			hold(a.Addresses)
		}
		rs, err := tx.Reservations(network)
		for _, r := range rs {
			reserved[r.Owner.Pod] = r
			hold(r.Addresses)
		}
		for a := netip.MustParseAddr("10.1.2.0"); a.As4()[2] == 2; a = a.Next() {
			if is, err := tx.Held(network, a); err != nil || is != held[a] {
				t.Errorf("index says that %s is held: %t, %v; the records %t", a, is, err, held[a])
			}
		}
		return err
	})
	if err != nil && !errors.Is(err, persistence.ErrNoState) {
		t.Fatal(err)
	}
	return attached, reserved
}
