package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// stage plays the controllers and the kubelets for a trial: its second pod gets a place.
func stage(t *testing.T, namespace, node, ip string) func(console.TrialStep) {
	t.Helper()
	var first *corev1.Pod
	begin := func(node, ip string) *corev1.Pod {
		var set appsv1.StatefulSet
		env.Read(t, client.ObjectKey{Namespace: namespace, Name: "web"}, &set)
		pod := testenv.APod("web-0").In(namespace).At(ip).Ready()
		pod.Labels, pod.Annotations, pod.Spec = set.Spec.Template.Labels, set.Spec.Template.Annotations, set.Spec.Template.Spec
		env.Create(t, pod.On(node).Pod) // the namespace takes restricted pods alone
		return pod.Pod
	}
	return func(s console.TrialStep) {
		switch s.Step {
		case "a StatefulSet of one replica is made":
			first = begin("n1", "10.0.0.2")
		case "its pod is Ready":
			state := testenv.APersistentPodState("web").In(namespace).Requires("rack").Recorded("web-0", "n1", nil)
			record := state.Status.PodStates["web-0"]
			record.UID = first.UID
			state.Status.PodStates["web-0"] = record
			env.Create(t, state.PersistentPodState)
			reserved(t, namespace, "web-0", "10.0.0.2", limpetv1alpha1.IPReserved)
		case "the pod is deleted":
			if err := env.Client.Delete(context.WithoutCancel(t.Context()), first, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
			begin(node, ip)
		}
	}
}

// removed reports whether a namespace is being removed.
func removed(t *testing.T, name string) bool {
	t.Helper()
	var ns corev1.Namespace
	env.Read(t, client.ObjectKey{Name: name}, &ns)
	return ns.DeletionTimestamp != nil
}

// TestTrialTellsWhatWasKept plays pods that come back to one place or another.
func TestTrialTellsWhatWasKept(t *testing.T) {
	for name, tc := range map[string]struct {
		node, ip      string
		keep          bool
		kept, address bool
	}{
		"kept":            {"n1", "10.0.0.2", false, true, true},
		"another-node":    {"n2", "10.0.9.9", true, false, false},
		"another-address": {"n1", "10.0.0.3", false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := "limpet-test-" + name
			trial := console.Trial{Client: env.Client, Now: time.Now, Namespace: namespace, Timeout: time.Minute, Keep: tc.keep, Told: stage(t, namespace, tc.node, tc.ip)}
			r, err := trial.Run(t.Context())
			if err != nil || r.NodeKept != tc.kept || r.AddressKept != tc.address || r.Image != "registry.k8s.io/pause:3.10" || r.Seconds <= 0 || !r.Kept() && (r.Remedy == "" || len(r.Because) == 0) {
				t.Errorf("%v, %+v", err, r)
			}
			if removed(t, namespace) == tc.keep {
				t.Errorf("--keep %t, and the namespace is removed: %t", tc.keep, !tc.keep)
			}
			if again, err := trial.Run(t.Context()); err == nil || len(again.Steps) != 0 {
				t.Errorf("a namespace that exists: %v, %+v", err, again)
			}
		})
	}
}

// TestTrialThatEndsEarlyRemovesItsNamespace ends a trial by Ctrl-C and by its timeout, while no controller makes a pod.
func TestTrialThatEndsEarlyRemovesItsNamespace(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	trial := console.Trial{Client: env.Client, Now: time.Now, Namespace: "limpet-test-interrupted", Timeout: time.Minute, Told: func(s console.TrialStep) {
		if strings.HasPrefix(s.Step, "a StatefulSet") {
			cancel()
		}
	}}
	if _, err := trial.Run(ctx); err == nil || !strings.Contains(err.Error(), "interrupted") || !removed(t, trial.Namespace) {
		t.Errorf("Ctrl-C: %v", err)
	}
	trial = console.Trial{Client: env.Client, Now: time.Now, Namespace: "limpet-test-stuck", Timeout: time.Second, Told: func(console.TrialStep) {}}
	_, err := trial.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the time of the check, --timeout 1s, is over: after ") || !strings.Contains(err.Error(), "there is no pod web-0") || !strings.Contains(err.Error(), "next: kubectl limpet status") || !removed(t, trial.Namespace) {
		t.Errorf("the timeout: %v", err)
	}
	_, err = command(t, env.Config, "test", "--timeout", "1s", "--image", "example.com/pause")
	if err == nil || errors.Is(err, errNo) || !strings.Contains(err.Error(), "its pod is Ready") {
		t.Errorf("the command: %v", err)
	}
}

// TestAClosedTerminalRemovesTheNamespace hangs up while the command waits for its pod.
func TestAClosedTerminalRemovesTheNamespace(t *testing.T) {
	defer func(args []string) { os.Args = args }(os.Args)
	os.Args = []string{"kubectl-limpet", "--kubeconfig", kubeconfig(t, env.Config), "test"}
	ended, name := make(chan int, 1), ""
	go func() { ended <- run() }()
	testenv.Eventually(t, func() error {
		var all corev1.NamespaceList
		if err := env.Client.List(t.Context(), &all); err != nil {
			return err
		}
		for _, ns := range all.Items {
			if ns.DeletionTimestamp == nil && regexp.MustCompile("^limpet-test-[a-z2-7]{6}$").MatchString(ns.Name) {
				name = ns.Name
				return nil
			}
		}
		return errors.New("the command has made no namespace")
	})
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != exitError || !removed(t, name) {
		t.Errorf("exit status %d, namespace %s", code, name)
	}
}

func TestTrialUsesThePauseImageOfTheNodes(t *testing.T) {
	testenv.Beside(t, &env)
	for _, image := range []string{"a.example/pause:3.9", "b.example/pause:3.10", "b.example/pause:3.10"} {
		node := env.Node(t)
		node.Status.Images = []corev1.ContainerImage{{Names: []string{"b.example/pause@sha256:0", image}}, {Names: []string{"c.example/web:1"}}}
		if err := env.Client.Status().Update(t.Context(), node.Node); err != nil {
			t.Fatal(err)
		}
	}
	trial := console.Trial{Client: env.Client, Now: time.Now, Namespace: "limpet-test-image", Timeout: time.Nanosecond, Told: func(console.TrialStep) {}}
	if r, err := trial.Run(t.Context()); err == nil || r.Image != "b.example/pause:3.10" {
		t.Errorf("%v, image %s", err, r.Image)
	}
}
