package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, v1alpha1.AddToScheme))
}

// node is a machine for one agent, with directories, a state file and real clocks.
type node struct {
	agent.Config
	store *persistence.Store
}

func newNode(t *testing.T, name string) *node {
	t.Helper()
	clocks, err := machine.ReadClocks(machine.BootIDPath, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n := &node{Config: agent.Config{
		Node: name, PluginFile: filepath.Join(dir, "image", "limpet-ipam"),
		BinDir: filepath.Join(dir, "bin"), ConfDir: filepath.Join(dir, "net.d"),
		StateDir: filepath.Join(dir, "state"), NetNSDir: filepath.Join(dir, "netns"),
		MaxRetain: time.Hour, SharePercent: 40, REST: rest.CopyConfig(env.Config), Now: clocks, NetNS: machine.StatNetNS,
		Clock: clock.RealClock{}, Registry: prometheus.NewRegistry(), Log: testr.New(t).WithName(name),
	}}
	n.store = persistence.New(persistence.Options{Dir: n.StateDir})
	n.write(t, n.PluginFile, "plugin")
	n.write(t, filepath.Join(n.NetNSDir, "alive"), "")
	n.update(t, func(tx *persistence.Tx) error {
		data, err := json.Marshal(sets(t))
		return errors.Join(err, tx.SetConfig("net", data))
	})
	return n
}

// sets make a pool of 5 pods: the IPv4 set has 5 addresses beside its gateway.
func sets(t *testing.T) []ipam.Set {
	t.Helper()
	sets, err := ipam.CompleteSets([]ipam.Set{
		{{Subnet: netip.MustParsePrefix("10.1.0.0/29")}}, {{Subnet: netip.MustParsePrefix("fd00::/64")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return sets
}

func (n *node) write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func (n *node) update(t *testing.T, fn func(*persistence.Tx) error) {
	t.Helper()
	if err := n.store.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// start runs an agent until the test ends.
func (n *node) start(t *testing.T) *agent.Agent {
	t.Helper()
	a, err := agent.New(n.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("run agent: %v", err)
		}
	})
	return a
}

// attach stores an attachment of the given age, in the network namespace at path.
func (n *node) attach(t *testing.T, ns, pod, uid, path string, age time.Duration, change ...func(*reservation.Attachment)) {
	t.Helper()
	n.update(t, func(tx *persistence.Tx) error {
		a := reservation.Attachment{
			ID:    reservation.AttachmentID{Network: "net", ContainerID: "c-" + pod, IfName: "eth0"},
			Owner: reservation.Owner{Network: "net", Namespace: ns, Pod: pod, IfName: "eth0"},
			UID:   uid, Retain: 10 * time.Minute, AnnotationsSeen: true, Since: n.ago(age),
		}
		a.NetNS, _ = machine.StatNetNS(path)
		a.NetNS.Path = path
		for _, c := range change {
			c(&a)
		}
		return tx.PutAttachment(a)
	})
}

// reserve stores a reservation of the given length, which began the given time ago.
func (n *node) reserve(t *testing.T, ns, pod string, since, length time.Duration) {
	t.Helper()
	n.update(t, func(tx *persistence.Tx) error {
		return tx.PutReservation(reservation.Reservation{
			Owner:  reservation.Owner{Network: "net", Namespace: ns, Pod: pod, IfName: "eth0"},
			Retain: length, Deadline: reservation.Deadline{From: n.ago(since), For: length},
		})
	})
}

func (n *node) ago(d time.Duration) reservation.Moment {
	m := n.Now()
	m.Wall, m.Up = m.Wall.Add(-d), m.Up-d
	return m
}

// stateIs waits until the state file holds exactly these pods, attached or reserved.
func (n *node) stateIs(t *testing.T, want map[string]string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		got := map[string]string{}
		err := n.store.View(t.Context(), func(tx *persistence.Tx) error {
			attachments, err := tx.Attachments("net")
			if err != nil {
				return err
			}
			for _, a := range attachments {
				got[a.Owner.Pod] = fmt.Sprintf("attached, retain %s", a.Retain)
			}
			reservations, err := tx.Reservations("net")
			for _, r := range reservations {
				got[r.Owner.Pod] = "reserved"
			}
			return err
		})
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("state (-want +got):\n%s", diff)
		}
		return err
	})
}

// apiShows waits until the IPReservations of the node are exactly these pods.
func (n *node) apiShows(t *testing.T, want map[string]v1alpha1.IPState) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var list v1alpha1.IPReservationList
		if err := env.Client.List(t.Context(), &list, client.MatchingLabels{v1alpha1.LabelNode: n.Node}); err != nil {
			return err
		}
		got := map[string]v1alpha1.IPState{}
		for _, r := range list.Items {
			got[r.Status.Pod] = r.Status.State
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("IPReservations (-want +got):\n%s", diff)
		}
		return nil
	})
}

func (n *node) liveNetNS() string { return filepath.Join(n.NetNSDir, "alive") }

func TestMirrorFollowsTheState(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "mirror")
	other := &v1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "other", Labels: map[string]string{v1alpha1.LabelNode: "another"}},
		Status:     v1alpha1.IPReservationStatus{Node: "another", Network: "net", Interface: "eth0", Pod: "p", IPs: "10.2.0.2", State: v1alpha1.IPAttached},
	}
	stale := other.DeepCopy()
	stale.Name, stale.Labels[v1alpha1.LabelNode] = "stale", n.Node
	env.Create(t, other, stale)
	n.attach(t, ns, "web-0", "u0", n.liveNetNS(), 0)
	n.attach(t, ns, "plain", "u1", n.liveNetNS(), 0, func(a *reservation.Attachment) { a.Retain = 0 })
	n.reserve(t, ns, "web-1", time.Minute, time.Hour)
	n.reserve(t, ns, "lapsed", time.Minute, time.Minute)
	n.reserve(t, "no-such-namespace", "homeless", time.Minute, time.Hour)
	n.start(t)

	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPAttached, "web-1": v1alpha1.IPReserved})
	var pools v1alpha1.NodeIPPoolList
	testenv.Eventually(t, func() error {
		if err := env.Client.List(t.Context(), &pools, client.MatchingLabels{v1alpha1.LabelNode: n.Node}); err != nil {
			return err
		}
		if len(pools.Items) != 1 {
			return fmt.Errorf("%d pools", len(pools.Items))
		}
		return nil
	})
	want := v1alpha1.NodeIPPoolStatus{Node: n.Node, Network: "net", Total: 5, Attached: 2, Reserved: 2, Free: 1}
	want.Ranges, want.Conditions = pools.Items[0].Status.Ranges, pools.Items[0].Status.Conditions
	if diff := cmp.Diff(want, pools.Items[0].Status); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}

	n.update(t, func(tx *persistence.Tx) error {
		a, _, err := tx.Attachment(reservation.AttachmentID{Network: "net", ContainerID: "c-web-0", IfName: "eth0"})
		if err != nil {
			return err
		}
		_, err = lifecycle.End(tx, a, n.Now(), false)
		return errors.Join(err, tx.DeleteReservation(reservation.Owner{Network: "net", Namespace: ns, Pod: "web-1", IfName: "eth0"}))
	})
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPReserved})
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
		t.Errorf("get the object of another node: %v", err)
	}
}

// TestMirrorOfAStateWithoutRanges uses a state file as it is after a rebuild: without ranges.
// Attachments and reservations are shown and freed, and still keep the plugin from being
// uninstalled.
func TestMirrorOfAStateWithoutRanges(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "rebuilt")
	n.StateDir = filepath.Join(t.TempDir(), "rebuilt")
	n.store = persistence.New(persistence.Options{Dir: n.StateDir})
	n.attach(t, ns, "web-0", "u0", n.liveNetNS(), 0)
	n.reserve(t, ns, "web-1", time.Minute, time.Hour)
	n.reserve(t, ns, "lapsed", time.Minute, time.Minute)
	if err := agent.Uninstall(t.Context(), n.Config); err == nil || !strings.Contains(err.Error(), "still attached") {
		t.Errorf("uninstall with an attached pod: %v, want a refusal", err)
	}
	n.start(t)
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPAttached, "web-1": v1alpha1.IPReserved})
	n.stateIs(t, map[string]string{"web-0": "attached, retain 10m0s", "web-1": "reserved"})
	testenv.Eventually(t, func() error {
		var pool v1alpha1.NodeIPPool
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: "rebuilt.net"}, &pool); err != nil {
			return err
		}
		c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionExhausted)
		if pool.Status.Attached != 1 || c == nil || c.Status != metav1.ConditionUnknown {
			return fmt.Errorf("pool: %+v", pool.Status)
		}
		return nil
	})
}

// TestMirrorOutlivesInterference deletes an object that the agent then wants to update.
func TestMirrorOutlivesInterference(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "interference")
	n.attach(t, ns, "web-0", "u0", n.liveNetNS(), 0)
	n.start(t)
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPAttached})
	var list v1alpha1.IPReservationList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), &list.Items[0]); err != nil {
		t.Fatal(err)
	}
	n.update(t, func(tx *persistence.Tx) error {
		a, _, err := tx.Attachment(reservation.AttachmentID{Network: "net", ContainerID: "c-web-0", IfName: "eth0"})
		if err != nil {
			return err
		}
		_, err = lifecycle.End(tx, a, n.Now(), false)
		return err
	})
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPReserved})
}

func TestStateFollowsWhatRuns(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "reconcile")
	runs := testenv.APod("runs").In(ns).On(n.Node).With(reservation.RetainAnnotation, "20")
	env.Create(t, runs.Pod)
	old := time.Hour
	n.attach(t, ns, "runs", string(runs.UID), n.liveNetNS(), 0, func(a *reservation.Attachment) { a.Retain, a.AnnotationsSeen = 0, false })
	n.attach(t, ns, "sandbox-only", "u1", n.liveNetNS(), old)
	n.attach(t, ns, "lost", "u2", filepath.Join(n.NetNSDir, "lost"), old)
	n.attach(t, ns, "lost-free", "u3", filepath.Join(n.NetNSDir, "lost-free"), old, func(a *reservation.Attachment) { a.Retain = 0 })
	n.attach(t, ns, "young", "u4", filepath.Join(n.NetNSDir, "young"), time.Minute)
	n.attach(t, ns, "elsewhere", "u5", "/proc/4194305/ns/net", old)
	n.attach(t, ns, "unseen", "u6", n.liveNetNS(), old, func(a *reservation.Attachment) { a.NetNS.Dev++ })
	n.attach(t, ns, "remade", "u7", n.liveNetNS(), old, func(a *reservation.Attachment) { a.NetNS.Inode++ })
	n.start(t)
	want := map[string]string{
		"runs":         "attached, retain 20m0s",
		"sandbox-only": "attached, retain 10m0s",
		"lost":         "reserved",
		"young":        "attached, retain 10m0s",
		"elsewhere":    "attached, retain 10m0s",
		"unseen":       "attached, retain 10m0s",
		"remade":       "reserved",
	}
	n.stateIs(t, want)

	patch := client.MergeFrom(runs.DeepCopy())
	runs.With(reservation.RetainAnnotation, "30")
	if err := env.Client.Patch(t.Context(), runs.Pod, patch); err != nil {
		t.Fatal(err)
	}
	want["runs"] = "attached, retain 30m0s"
	n.stateIs(t, want)
}

func TestInstall(t *testing.T) {
	n := newNode(t, "install")
	path := filepath.Join(n.BinDir, "limpet-ipam")
	n.write(t, path, "an older plugin")
	a := n.start(t)
	installed := func() error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if string(data) != "plugin" || info.Mode() != 0o755 {
			return fmt.Errorf("%s: %q, %s", path, data, info.Mode())
		}
		return a.Ready()
	}
	testenv.Eventually(t, installed)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, installed)
	entries, err := os.ReadDir(n.BinDir)
	if err != nil || len(entries) != 1 {
		t.Errorf("directory has %v, %v; want the plugin alone", entries, err)
	}
	if _, err := os.Stat(n.ConfDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the agent created %s without --network=own: %v", n.ConfDir, err)
	}
}

func TestNotReadyWithoutPlugin(t *testing.T) {
	n := newNode(t, "no-plugin")
	n.PluginFile = filepath.Join(t.TempDir(), "missing")
	n.reserve(t, "default", "lapsed", time.Hour, time.Minute)
	a := n.start(t)
	n.stateIs(t, map[string]string{}) // a failed installation does not stop the freeing of reservations
	if a.Ready() == nil {
		t.Error("ready without the plugin")
	}
}

// TestSchemaRefusesUnknownStates checks that the API server validates the state field.
func TestSchemaRefusesUnknownStates(t *testing.T) {
	o := &v1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "x"},
		Status:     v1alpha1.IPReservationStatus{Node: "n", Network: "net", Interface: "eth0", Pod: "p", IPs: "10.0.0.1", State: "Lent"},
	}
	if err := env.Client.Create(t.Context(), o); !apierrors.IsInvalid(err) {
		t.Errorf("create: %v, want a refusal as invalid", err)
	}
}
