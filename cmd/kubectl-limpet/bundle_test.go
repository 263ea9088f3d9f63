package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// secret is what no bundle may tell, and jwt is a token as service accounts have it.
const secret, jwt = "hunter2", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"

// secretive makes objects with a secret in each place that a bundle could show.
func secretive(t *testing.T, ns string) {
	t.Helper()
	pod := testenv.APod("secretive").In(ns)
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: secret}}
	own := testenv.APod("limpet-restarted").In(facts.Namespace).On("n1").With(corev1.LastAppliedConfigAnnotation, secret)
	own.Labels = map[string]string{facts.LabelName: facts.Agent}
	own.Spec.Containers[0].Name, own.Spec.Containers[0].Args = "agent", []string{"--network=own"}
	own.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://me:" + secret + "@proxy"}, {Name: "GOGC", Value: "50"}}
	own.Spec.Containers = append(own.Spec.Containers, corev1.Container{Name: "injected", Image: "example.com/proxy", Args: []string{"--token=" + secret}})
	own.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", RestartCount: 1}}
	daemons := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: facts.Namespace, Name: facts.Agent},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: own.Labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: own.Labels, Annotations: map[string]string{"example.com/token": secret}}, Spec: *own.Spec.DeepCopy(),
		}},
	}
	state := testenv.APersistentPodState("web").In(ns).Requires("rack").Recorded("web-0", "n1", nil)
	record := state.Status.PodStates["web-0"]
	record.Annotations = map[string]string{"token": secret}
	state.Status.PodStates["web-0"] = record
	spread := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: appsv1beta1.WorkloadSpreadSpec{
		TargetReference: appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		Subsets:         []appsv1beta1.WorkloadSpreadSubset{{Name: "a", Patch: runtime.RawExtension{Raw: []byte(`{"metadata":{"annotations":{"a":"hunter2"}}}`)}}},
	}}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web", Annotations: map[string]string{
			corev1.LastAppliedConfigAnnotation: secret, "example.com/token": secret, "limpet.dev/failure-policy": "Closed",
		}},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: own.Labels}},
	}
	book := &limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "booked"}}
	if err := env.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: facts.Namespace}}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	env.Create(t, pod.Pod, own.Pod, daemons, state.PersistentPodState, spread, budget, book)
}

// TestSupportBundle has a kubectl that finds no agent, and one that says what an agent's state lacks.
func TestSupportBundle(t *testing.T) {
	ns, node := env.Namespace(t), env.Node(t)
	secretive(t, ns)
	programs := t.TempDir()
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	script := "#!/bin/sh\ncase $* in *check) echo \"$@\"; echo command terminated with exit code 1 >&2;; *) echo nothing there >&2;; esac\nexit 1\n"
	if err := os.WriteFile(filepath.Join(programs, "kubectl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if _, err := command(t, env.Config, "support-bundle", "-f", path); err == nil || errors.Is(err, errNo) || !strings.Contains(err.Error(), "logs/limpet-restarted.log") {
		t.Errorf("no kubelet gives logs: %v, want an error that names a log", err)
	}
	files := unpack(t, path)
	for _, name := range []string{
		"version.txt", "status.yaml", "audit.yaml", "objects/pods.yaml", "objects/ipreservations.yaml", "objects/borrowedaddresses.yaml",
		"objects/nodeippools.yaml", "objects/disruptionbooks.yaml", "versions.yaml", "lost.yaml",
	} {
		if files["limpet-support/"+name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	for name, wants := range map[string][]string{
		"objects/pods.yaml": {"secretive"}, "limpet/pods.yaml": {"HTTPS_PROXY", `"50"`, "--network=own", "example.com/proxy"},
		"objects/poddisruptionbudgets.yaml": {"example.com/token: left out", "limpet.dev/failure-policy: Closed"},
		"objects/disruptionbooks.yaml":      {"booked"},
		"errors.yaml":                       {"limpet-restarted.log\n", "limpet-restarted.previous.log\n", "nothing there"},
		"logs/limpet-restarted.check.txt":   {"exec --namespace=limpet-system --container=agent ", " limpet-restarted -- /limpet-ipam check\n"}, "objects/nodes.yaml": {node.Name},
	} {
		for _, want := range wants {
			if text := files["limpet-support/"+name]; !strings.Contains(text, want) {
				t.Errorf("%s does not have %q:\n%s", name, want, text)
			}
		}
	}
	for name, text := range files {
		if strings.Contains(text, secret) {
			t.Errorf("%s tells a secret:\n%s", name, text)
		}
	}
	if _, err := command(t, env.Config, "support-bundle", "-f", path); err == nil {
		t.Error("an existing file is written over")
	}
}

// TestABundleOfLogs asks for the log of Limpet's own container, and leaves tokens out.
func TestABundleOfLogs(t *testing.T) {
	ns := env.Namespace(t)
	secretive(t, ns)
	ctx, interrupt := context.WithCancel(t.Context())
	var asked []string
	b := console.Bundle{
		Reader: facts.Reader{Client: env.Client, Now: time.Now}, Namespace: ns, Told: func(string) {},
		Log: func(ctx context.Context, pod, container string, previous bool) (io.ReadCloser, error) {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("a kubelet that does not answer keeps the bundle forever")
			}
			asked = append(asked, fmt.Sprint(pod, " ", container, " ", previous))
			if previous {
				return nil, apierrors.NewBadRequest("previous terminated container not found") // as the kubelet says it
			}
			return io.NopCloser(strings.NewReader("GET failed: Authorization: Bearer " + jwt + "\nE1129 bad\n")), nil
		},
		PluginLog: func(_ context.Context, node string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("ADD on " + node)), nil
		},
		OnNode: func(_ context.Context, agent, verb string) ([]byte, error) { return []byte(verb + " of " + agent), nil },
	}
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if err := writeNew(path, func(w io.Writer) error {
		unread, err := b.Write(ctx, w)
		if len(unread) > 0 {
			t.Errorf("a log that is not there is unread: %v", unread)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"limpet-restarted agent false", "limpet-restarted agent true"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
	files := unpack(t, path)
	if text := files["limpet-support/logs/limpet-restarted.log"]; strings.Contains(text, jwt) || !strings.Contains(text, "E1129 bad") {
		t.Errorf("the log is %q", text)
	}
	if text := files["limpet-support/logs/limpet-restarted.plugin.log"]; text != "ADD on n1" {
		t.Errorf("the log of the plugin is %q", text)
	}
	if text := files["limpet-support/logs/limpet-restarted.check.txt"]; text != "check of limpet-restarted" {
		t.Errorf("the plugin says of its state %q", text)
	}
	if !strings.Contains(files["limpet-support/objects/persistentpodstates.yaml"], "namespace: "+ns) {
		t.Error("the bundle of a namespace lacks its objects")
	}
	interrupt()
	if err := writeNew(path+"2", func(w io.Writer) error { _, err := b.Write(ctx, w); return err }); err == nil {
		t.Error("Ctrl-C: half a bundle is whole")
	}
}

// TestDeadNodesAreAskedTogether makes eight kubelets answer only when all of them are asked. A node that has no log of
// the plugin is no failure, one whose kubelet is silent is.
func TestDeadNodesAreAskedTogether(t *testing.T) {
	const nodes = 8
	secretive(t, env.Namespace(t)) // makes the namespace of Limpet
	for i := range nodes {
		agent := testenv.APod(fmt.Sprintf("limpet-silent-%d", i)).In(facts.Namespace).On(fmt.Sprintf("n%d", i))
		agent.Labels = map[string]string{facts.LabelName: facts.Agent}
		agent.Spec.Containers[0].Name = "agent"
		env.Create(t, agent.Pod)
	}
	var asked atomic.Int32
	all := make(chan struct{})
	b := console.Bundle{
		Reader: facts.Reader{Client: env.Client, Now: time.Now}, Namespace: "none", Told: func(string) {},
		Log: func(ctx context.Context, pod, _ string, _ bool) (io.ReadCloser, error) {
			if strings.HasPrefix(pod, "limpet-silent") && asked.Add(1) == nodes {
				close(all)
			}
			select {
			case <-all:
				return nil, apierrors.NewServiceUnavailable("no route to host")
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		PluginLog: func(context.Context, string) (io.ReadCloser, error) {
			return nil, apierrors.NewNotFound(corev1.Resource("nodes"), "ipam.log")
		},
		OnNode: func(ctx context.Context, _, _ string) ([]byte, error) { return nil, ctx.Err() },
	}
	unread, err := b.Write(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range unread {
		if strings.HasSuffix(u.Kind, ".plugin.log") || strings.Contains(u.Reason, "deadline") {
			t.Errorf("unread: %v", u)
		}
	}
	if len(unread) < nodes {
		t.Errorf("%d logs are unread, want those of %d nodes", len(unread), nodes)
	}
}

// TestAnEditorGetsABundleOfOneNamespace is for who may read no more.
func TestAnEditorGetsABundleOfOneNamespace(t *testing.T) {
	ns := env.Namespace(t)
	secretive(t, ns)
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	_, err := command(t, holder(t, ns, "bundler", "view", "edit"), "support-bundle", "-n", ns, "-f", path)
	if err == nil || errors.Is(err, errNo) || !strings.Contains(err.Error(), "nodes") {
		t.Errorf("%v, want an error that names what is unread", err)
	}
	if text := unpack(t, path)["limpet-support/objects/persistentpodstates.yaml"]; !strings.Contains(text, "namespace: "+ns) {
		t.Errorf("what an editor may read is %q", text)
	}
}

// unpack returns the files of an archive.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}
