package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// reserved creates the IPReservation of a pod that is away, or of a pod that runs.
func reserved(t *testing.T, ns, pod, ip string, state limpetv1alpha1.IPState) *limpetv1alpha1.IPReservation {
	t.Helper()
	o := &limpetv1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pod + ".eth0.net.n1"},
		Status:     limpetv1alpha1.IPReservationStatus{Node: "n1", Network: "net", Interface: "eth0", Pod: pod, PodUID: "u", IPs: ip, State: state},
	}
	if state == limpetv1alpha1.IPReserved {
		o.Status.Until = &metav1.Time{Time: time.Now().Add(time.Hour)}
	}
	env.Create(t, o)
	return o
}

// marks returns the label of each object of a namespace that has one, by pod.
func marks(t *testing.T, ns string) map[string]string {
	t.Helper()
	var list limpetv1alpha1.IPReservationList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(ns), client.HasLabels{limpetv1alpha1.LabelRelease}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range list.Items {
		got[o.Status.Pod] = o.Labels[limpetv1alpha1.LabelRelease]
	}
	return got
}

// TestReleaseWaitsForTheAgent plays the agent: it ends a reservation when the command has marked it.
func TestReleaseWaitsForTheAgent(t *testing.T) {
	ns := env.Namespace(t)
	web := reserved(t, ns, "web-0", "10.0.0.1", limpetv1alpha1.IPReserved)
	reserved(t, ns, "web-1", "10.0.0.2", limpetv1alpha1.IPReserved)
	type answer struct {
		report console.ReleaseReport
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		r, err := as[console.ReleaseReport](t, env.Config, "release", "web-0", "-n", ns, "--timeout", "2m")
		answered <- answer{r, err}
	}()
	testenv.Eventually(t, func() error {
		if got := marks(t, ns); len(got) != 1 || got["web-0"] != web.Status.Releases() {
			return fmt.Errorf("marks %v, want web-0 with %s", got, web.Status.Releases())
		}
		return nil
	})
	if err := env.Client.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if a := <-answered; a.err != nil || len(a.report.Reservations) != 1 || a.report.Reservations[0].Outcome != console.Freed {
		t.Errorf("release: %v, %+v; want one freed", a.err, a.report)
	}
}

func TestReleaseWithoutAnAgent(t *testing.T) {
	ns := env.Namespace(t)
	web := reserved(t, ns, "web-0", "10.0.0.1", limpetv1alpha1.IPReserved)
	for _, dry := range []string{"client", "server"} {
		text, err := command(t, env.Config, "release", "10.0.0.1", "-n", ns, "--dry-run", dry)
		if got := marks(t, ns); err != nil || len(got) != 0 || !strings.Contains(text, "nothing was released") {
			t.Errorf("--dry-run=%s: %v, marks %v\n%s", dry, err, got, text)
		}
	}
	text, err := command(t, env.Config, "release", "web-0", "-n", ns, "--timeout", "1ms")
	if !errors.Is(err, errNo) || !strings.Contains(text, "node n1 has not ended the reservation") {
		t.Errorf("an agent that is away: %v, want exit status %d and the node\n%s", err, exitNo, text)
	}
	text, err = command(t, env.Config, "release", "web-0", "-n", ns, "--wait=false", "-o", "name") // a second person
	if err != nil || text != "ipreservation.limpet.dev/web-0.eth0.net.n1\n" {
		t.Errorf("--wait=false: %v\n%s", err, text)
	}
	if got := marks(t, ns); got["web-0"] != web.Status.Releases() {
		t.Errorf("marks %v", got)
	}
}

func TestReleaseIsCareful(t *testing.T) {
	ns := env.Namespace(t)
	reserved(t, ns, "web-0", "10.0.0.1", limpetv1alpha1.IPReserved)
	reserved(t, ns, "web-1", "10.0.0.2", limpetv1alpha1.IPReserved)
	reserved(t, ns, "web-2", "10.0.0.3", limpetv1alpha1.IPAttached)
	env.Create(t, testenv.APod("web-2").In(ns).Pod)
	if text, err := command(t, env.Config, "release", "web-2", "-n", ns); !errors.Is(err, errNo) || !strings.Contains(text, "delete the pod first") {
		t.Errorf("a pod that runs: %v\n%s", err, text)
	}
	for args, want := range map[string]string{
		"release --all":               "give --yes",
		"release web-0 web-1":         "give --yes",
		"release":                     "--all",
		"release web-0 --all":         "--all",
		"release web-9":               "nothing is reserved for web-9",
		"release web-0 --dry-run=yes": "--dry-run",
		"release web-0 -o xml":        "--output",
		"status -o name":              "--output",
	} {
		if _, err := command(t, env.Config, append(strings.Fields(args), "-n", ns)...); err == nil || errors.Is(err, errNo) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
	}
	stranger := rest.CopyConfig(env.Config)
	stranger.Impersonate.UserName = "stranger"
	if _, err := command(t, stranger, "release", "web-0", "-n", ns); err == nil || errors.Is(err, errNo) || !strings.Contains(err.Error(), "limpet-release") {
		t.Errorf("without rights: %v, want an error that names the role", err)
	}
	if got := marks(t, ns); len(got) != 0 {
		t.Errorf("released %v", got)
	}
	answered := func(answer string) error {
		root := newRoot(surroundings{out: io.Discard, err: io.Discard, in: strings.NewReader(answer), now: time.Now})
		root.SetArgs([]string{"--kubeconfig", kubeconfig(t, env.Config), "release", "--all", "-n", ns, "--wait=false"})
		return root.ExecuteContext(t.Context())
	}
	if err, got := answered("n\n"), marks(t, ns); err == nil || len(got) != 0 {
		t.Errorf("the answer no: %v, released %v", err, got)
	}
	if err, got := answered("y\n"), marks(t, ns); err != nil || len(got) != 2 {
		t.Errorf("the answer yes: %v, released %v", err, got)
	}
}

// TestReleaseBySelector releases the pods of one StatefulSet, which are away, by their labels.
func TestReleaseBySelector(t *testing.T) {
	ns := env.Namespace(t)
	env.Create(t, testenv.AStatefulSet("web", 0).In(ns).StatefulSet, testenv.AStatefulSet("db", 0).In(ns).StatefulSet)
	reserved(t, ns, "web-0", "10.0.0.1", limpetv1alpha1.IPReserved)
	reserved(t, ns, "web-1", "10.0.0.2", limpetv1alpha1.IPReserved)
	reserved(t, ns, "db-0", "10.0.0.3", limpetv1alpha1.IPReserved)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"app=web"}, "give --yes"},
		{[]string{"=web"}, "--selector"},
		{[]string{" "}, "--selector"},
		{[]string{""}, "--selector"},
		{[]string{"app=web", "--all"}, "one of these"},
		{[]string{"app=web", "web-0"}, "one of these"},
	} {
		args := append([]string{"release", "-n", ns, "-l"}, tc.args...)
		if _, err := command(t, env.Config, args...); err == nil || errors.Is(err, errNo) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("-l %q: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
	for _, dry := range []string{"client", "server"} {
		text, err := command(t, env.Config, "release", "-l", "app=web", "-n", ns, "--dry-run", dry)
		if err != nil || !strings.Contains(text, "web-0") || !strings.Contains(text, "web-1") || strings.Contains(text, "db-0") {
			t.Errorf("--dry-run=%s: %v\n%s", dry, err, text)
		}
	}
	if text, err := command(t, env.Config, "release", "-l", "app=wbe", "-n", ns); err != nil || !strings.Contains(text, "with the labels app=wbe") {
		t.Errorf("labels that no pod has: %v\n%s", err, text)
	}
	if got := marks(t, ns); len(got) != 0 {
		t.Errorf("released %v", got)
	}
	r, err := as[console.ReleaseReport](t, env.Config, "release", "--selector", "app=web", "-n", ns, "--yes", "--wait=false")
	if got := marks(t, ns); err != nil || r.Count(console.Asked) != 2 || len(got) != 2 || got["db-0"] != "" {
		t.Errorf("release: %v, %+v, marks %v", err, r, got)
	}
}

func TestReleaseOffersReservedPods(t *testing.T) {
	ns := env.Namespace(t)
	reserved(t, ns, "web-0", "10.0.0.1", limpetv1alpha1.IPReserved)
	reserved(t, ns, "web-2", "10.0.0.3", limpetv1alpha1.IPAttached)
	var out bytes.Buffer
	root := newRoot(surroundings{out: &out, err: io.Discard, now: time.Now})
	root.SetArgs([]string{"__complete", "--kubeconfig", kubeconfig(t, env.Config), "-n", ns, "release", ""})
	if err := root.ExecuteContext(t.Context()); err != nil || !strings.HasPrefix(out.String(), "web-0\n:") {
		t.Errorf("completion: %v, %q; want web-0 alone", err, out.String())
	}
}

// TestReleaseForgetsPlaces gives up the places of a pod that is away, and of a pod that runs.
func TestReleaseForgetsPlaces(t *testing.T) {
	ns := env.Namespace(t)
	state := testenv.APersistentPodState("web").In(ns).Requires("rack").Recorded("web-0", "n1", nil).Recorded("web-1", "n2", nil)
	for name, record := range state.Status.PodStates {
		record.UID = types.UID("life-of-" + name)
		state.Status.PodStates[name] = record
	}
	env.Create(t, state.PersistentPodState, testenv.APod("web-1").In(ns).Pod)
	reserved(t, ns, "web-0", "10.0.0.1", limpetv1alpha1.IPReserved)
	value := func() string {
		var s appsv1beta1.PersistentPodState
		env.Read(t, client.ObjectKeyFromObject(state.PersistentPodState), &s)
		return s.Annotations[pin.AnnotationForget]
	}
	if text, err := command(t, env.Config, "release", "web-1", "-n", ns, "--forget-place"); !errors.Is(err, errNo) || !strings.Contains(text, "scale its workload down") {
		t.Errorf("a pod that exists: %v\n%s", err, text)
	}
	for _, dry := range []string{"client", "server"} {
		if text, err := command(t, env.Config, "release", "web-0", "-n", ns, "--forget-place", "--dry-run", dry); err != nil || value() != "" || len(marks(t, ns)) != 0 {
			t.Errorf("--dry-run=%s: %v, value %q\n%s", dry, err, value(), text)
		}
	}
	r, err := as[console.ReleaseReport](t, env.Config, "release", "web-0", "-n", ns, "--forget-place", "--wait=false")
	if err != nil || len(r.Places) != 1 || r.Places[0].Node != "n1" || value() != "life-of-web-0" || len(marks(t, ns)) != 1 {
		t.Errorf("release: %v, %+v, value %q, marks %v", err, r, value(), marks(t, ns))
	}
	text, err := command(t, env.Config, "release", "web-0", "-n", ns, "--forget-place", "--timeout", "1ms")
	if !errors.Is(err, errNo) || !strings.Contains(text, "limpet-controller has not forgotten") {
		t.Errorf("a controller that is away: %v\n%s", err, text)
	}
}
