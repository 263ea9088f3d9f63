package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, v1alpha1.AddToScheme))
}

// TestStateFollowsWhatRuns checks that stored retention follows the annotation of a live pod,
// and that attachments end when pod and sandbox are certainly gone.
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

// TestInstall checks that the plugin replaces an older one, and is installed again after it was
// removed.
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
		if string(data) != plugin || info.Mode() != 0o755 {
			return fmt.Errorf("%s: %q, %s", path, data, info.Mode())
		}
		return a.Ready()
	}
	testenv.Eventually(t, installed)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, installed)
	for name, damage := range map[string]func() error{
		"garbage over its start": func() error { return overwrite(path, strings.Repeat("x", 1000)) },
		"garbage of its size":    func() error { return overwrite(path, strings.Repeat("x", len(plugin))) },
		"cut off":                func() error { return os.Truncate(path, 3) },
		"no right to run it":     func() error { return os.Chmod(path, 0o644) },
		"another file": func() error {
			return errors.Join(os.WriteFile(path+".new", []byte("another"), 0o755), os.Rename(path+".new", path))
		},
	} {
		testenv.Eventually(t, func() error { // a file cannot be written while the agent starts it
			if err := damage(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
		testenv.Eventually(t, func() error {
			if err := installed(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	n.metricIs(t, "limpet_agent_recoveries_total plugin", 6)
	entries, err := os.ReadDir(n.BinDir)
	if err != nil || len(entries) != 1 {
		t.Errorf("directory has %v, %v; want the plugin alone", entries, err)
	}
	if _, err := os.Stat(n.ConfDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the agent created %s without --network=own: %v", n.ConfDir, err)
	}
}

// overwrite writes over the start of a file, which keeps its inode and the time of its content.
func overwrite(path, with string) error {
	before, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(with)
	return errors.Join(err, f.Close(), os.Chtimes(path, before.ModTime(), before.ModTime()))
}

// TestNotReadyWithAPluginThatDoesNotRun installs a binary that this machine cannot run, as one of another architecture.
func TestNotReadyWithAPluginThatDoesNotRun(t *testing.T) {
	n := newNode(t, "plugin-fails")
	n.write(t, n.PluginFile, "\x7fELF of another machine")
	a := n.start(t)
	n.metricIs(t, "limpet_agent_plugin_install_success", 0)
	testenv.Eventually(t, func() error {
		if err := a.Ready(); err == nil || !strings.Contains(err.Error(), "exec format error") {
			return fmt.Errorf("not the error of the plugin: %w", err)
		}
		return nil
	})
}

// TestNotReadyWithoutPlugin checks that a missing plugin binary keeps the agent from being
// ready, and nothing else.
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
