package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/cni/coexist"
	cninode "github.com/limpet-io/limpet/internal/cni/node"
	"github.com/limpet-io/limpet/internal/cni/recovery"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/cniexec"
	"github.com/limpet-io/limpet/test/programs"
)

// endsAfter is more than the age from which the agent ends attachments, and less than the reservations
// of these tests.
const endsAfter = 6 * time.Minute

// chain is a chain of real plugins: ptp with limpet-ipam, and more plugins behind it. The test runs them
// in the order of libcni. A network namespace stands for the machine.
type chain struct {
	*node
	path    string // CNI_PATH
	results string // libcni's cache
	conf    []byte
	behind  []string
	machine string
}

// newChain returns a chain with the named plugins behind ptp.
func newChain(t *testing.T, n *node, behind ...string) *chain {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	built, err := cniexec.Build(t.Context(), root, t.TempDir(), os.Getenv(programs.Var))
	if err != nil {
		t.Fatal(err)
	}
	c := &chain{node: n, path: built.Path(), results: t.TempDir(), behind: behind}
	c.conf, err = json.Marshal(map[string]any{
		"cniVersion": "1.0.0", "name": "net", "type": "ptp",
		"ipam": map[string]any{
			"type": "limpet-ipam", "dataDir": n.StateDir, "logFile": filepath.Join(t.TempDir(), "ipam.log"),
			"ranges": [][]map[string]string{{{"subnet": "10.1.0.0/29"}}},
		},
		"runtimeConfig": map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{reservation.RetainAnnotation: "10"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.machine = c.newNetNS(t, filepath.Join(t.TempDir(), "machine"))
	host := cninode.Node{NetNS: machine.StatNetNS, ResultsDir: c.results}
	n.Running = (&recovery.Recovery{Node: host, Others: &coexist.Neighbour{Node: host}}).Running
	clocks := n.Now
	n.Now = func() reservation.Moment { // attachments are old enough to end
		m := clocks()
		m.Wall, m.Up = m.Wall.Add(endsAfter), m.Up+endsAfter
		return m
	}
	return c
}

// newNetNS binds a new network namespace to a path.
func (c *chain) newNetNS(t *testing.T, path string) string {
	t.Helper()
	c.write(t, path, "")
	done := make(chan error)
	go func() { // the thread stays in the new namespace, and ends with this goroutine
		runtime.LockOSThread()
		_, err := netns.New()
		if err == nil {
			err = unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("make a network namespace, which needs root: %v", err)
	}
	t.Cleanup(func() { c.endNetNS(t, path) })
	return path
}

// endNetNS removes a network namespace; one that is gone is no error.
func (c *chain) endNetNS(t *testing.T, path string) {
	t.Helper()
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("remove network namespace: %v", err)
	}
}

// sandbox returns the call with which a runtime runs ptp for a sandbox of a pod.
func (c *chain) sandbox(t *testing.T, ns, pod, id string) cniexec.Call {
	t.Helper()
	return cniexec.Call{
		Plugin: filepath.Join(filepath.SplitList(c.path)[1], "ptp"), Container: id, IfName: "eth0", NetNS: c.newNetNS(t, filepath.Join(c.NetNSDir, id)),
		Args: fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s;K8S_POD_UID=uid-%s", ns, pod, pod), Path: c.path, Stdin: c.conf,
	}
}

// add runs ADD of the plugins in their order. A plugin that is missing ends the ADD; otherwise the result
// is in libcni's cache.
func (c *chain) add(t *testing.T, call cniexec.Call) error {
	t.Helper()
	answer, err := c.run(t, call, "ADD")
	if err == nil {
		err = c.missing()
	}
	if err != nil {
		return err
	}
	cached, err := json.Marshal(map[string]any{
		"kind": "cniCacheV1", "containerId": call.Container, "ifName": call.IfName, "networkName": "net", "netns": call.NetNS,
		"config": c.conf, "result": json.RawMessage(answer.Stdout),
	})
	return errors.Join(err, os.WriteFile(filepath.Join(c.results, "net-"+call.Container+"-eth0"), cached, 0o600))
}

// del runs DEL of the plugins in reverse order. A plugin that is missing ends the DEL before limpet-ipam
// hears of it.
func (c *chain) del(t *testing.T, call cniexec.Call) error {
	t.Helper()
	if err := c.missing(); err != nil {
		return err
	}
	_, err := c.run(t, call, "DEL")
	return err
}

// missing returns an error when a plugin behind ptp does not exist.
func (c *chain) missing() error {
	for _, name := range c.behind {
		if _, err := os.Stat(filepath.Join(filepath.SplitList(c.path)[1], name)); err != nil {
			return fmt.Errorf("find plugin %s: %w", name, err)
		}
	}
	return nil
}

// run runs a verb of ptp on the machine.
func (c *chain) run(t *testing.T, call cniexec.Call, verb string) (answer cniexec.Answer, err error) {
	t.Helper()
	call.Verb = verb
	err = c.on(func() error {
		answer, err = call.Run(t.Context())
		if err == nil && answer.Exit != 0 {
			err = fmt.Errorf("%s: %s%s", verb, answer.Stdout, answer.Stderr)
		}
		return err
	})
	return answer, err
}

// on runs fn on a thread inside the machine's namespace.
func (c *chain) on(fn func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		handle, err := netns.GetFromPath(c.machine)
		if err == nil {
			err = netns.Set(handle)
		}
		if err == nil {
			err = fn()
		}
		done <- errors.Join(err, handle.Close())
	}()
	return <-done
}

// TestAMissingPluginLosesNoAddress fails more sandboxes than there are addresses: the last plugin of the
// chain is missing, so neither ADD nor DEL passes, and the runtime removes the namespace and forgets
// the sandbox. The agent ends what no DEL will end.
func TestAMissingPluginLosesNoAddress(t *testing.T) {
	ns, c := env.Namespace(t), newChain(t, newNode(t, "chain-missing"), "no-such-plugin")
	c.start(t)
	want := map[string]string{}
	for i := range 3 {
		pod := fmt.Sprint("web-", i)
		for try := range 3 { // the kubelet makes a new sandbox for the pod each time
			rt := c.sandbox(t, ns, pod, fmt.Sprintf("%s-try-%d", pod, try))
			if err := c.add(t, rt); err == nil {
				t.Fatal("the chain succeeded without its last plugin")
			}
			if err := c.del(t, rt); err == nil {
				t.Fatal("DEL succeeded without the last plugin")
			}
			c.endNetNS(t, rt.NetNS)
		}
		want[pod] = "reserved"
	}
	c.stateIs(t, want)
	c.metricIs(t, violationsOf+"running", 0)
	c.metricIs(t, violationsOf+"namespace", 0)
}

// TestAWipedRuntimeLosesNoAddress takes away what the runtime knows: libcni's cache, and first the
// knowledge of the sandbox, then its namespace. While the namespace has the address, no pod gets it.
func TestAWipedRuntimeLosesNoAddress(t *testing.T) {
	ns, c := env.Namespace(t), newChain(t, newNode(t, "chain-wiped"))
	rt := c.sandbox(t, ns, "web-0", "wiped")
	if err := c.add(t, rt); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(c.results); err != nil {
		t.Fatal(err)
	}
	c.start(t)
	c.metricIs(t, violationsOf+"namespace", 1)
	c.stateIs(t, map[string]string{"web-0": "attached, retain 10m0s"})
	c.endNetNS(t, rt.NetNS)
	c.stateIs(t, map[string]string{"web-0": "reserved"})
	c.metricIs(t, violationsOf+"namespace", 0)
}

// TestAFailedSandboxLosesNoAddress has a sandbox that failed after its ADD, so that its DEL never came.
func TestAFailedSandboxLosesNoAddress(t *testing.T) {
	ns, c := env.Namespace(t), newChain(t, newNode(t, "chain-failed"))
	failed := c.sandbox(t, ns, "web-0", "failed")
	if err := c.add(t, failed); err != nil {
		t.Fatal(err)
	}
	c.start(t)
	c.metricIs(t, violationsOf+"running", 0)
	c.endNetNS(t, failed.NetNS)
	c.stateIs(t, map[string]string{"web-0": "reserved"})
	runs := c.sandbox(t, ns, "web-0", "runs")
	if err := c.add(t, runs); err != nil {
		t.Fatal(err)
	}
	c.stateIs(t, map[string]string{"web-0": "attached, retain 10m0s"})
}

// TestAuditFindsAReleasedAddressInUse ends the address of a container that runs, as an interface plugin
// does that is killed between its IPAM DEL and the removal of the interface.
func TestAuditFindsAReleasedAddressInUse(t *testing.T) {
	ns, c := env.Namespace(t), newChain(t, newNode(t, "chain-released"))
	rt := c.sandbox(t, ns, "web-0", "runs")
	if err := c.add(t, rt); err != nil {
		t.Fatal(err)
	}
	c.start(t)
	c.metricIs(t, "limpet_agent_audit_violations running", 0)
	c.release(t, reservation.AttachmentID{Network: "net", ContainerID: "runs", IfName: "eth0"})
	c.metricIs(t, "limpet_agent_audit_violations running", 1)
}
