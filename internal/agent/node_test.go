package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// node is a machine for one agent, with directories, a state file and real clocks.
type node struct {
	agent.Config
	store *persistence.Store
}

// plugin is a program that stands for limpet-ipam.
const plugin = "#!/bin/sh\nexit 0\n"

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
		MaxRetain: time.Hour, SharePercent: 40, AuditPeriod: 100 * time.Millisecond, REST: rest.CopyConfig(env.Config), Now: clocks, NetNS: machine.StatNetNS,
		Clock: clock.RealClock{}, Registry: prometheus.NewRegistry(), Log: testr.New(t).WithName(name),
	}}
	n.store = persistence.New(persistence.Options{Dir: n.StateDir})
	n.write(t, n.PluginFile, plugin)
	n.write(t, filepath.Join(n.NetNSDir, "alive"), "")
	n.update(t, func(tx *persistence.Tx) error {
		data, err := json.Marshal(sets(t))
		return errors.Join(err, tx.SetConfig("net", data))
	})
	return n
}

// sets make a pool of 5 pods: the IPv4 set has 5 addresses, apart from its gateway.
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

// release ends an attachment without a reservation.
func (n *node) release(t *testing.T, id reservation.AttachmentID) {
	t.Helper()
	n.update(t, func(tx *persistence.Tx) error { return tx.DeleteAttachment(id) })
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
		if err := env.Client.List(t.Context(), &list, client.MatchingLabels{v1alpha1.LabelNode: v1alpha1.NodeLabel(n.Node)}); err != nil {
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
