// Package testenv starts a real etcd and kube-apiserver for tests, with this
// repository's CRDs installed, and builds the objects that tests put there.
package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/test/programs"
)

// AssetsVar is the environment variable that names the directory of the binaries.
const AssetsVar = programs.Var

// Env is a running API server without any controller or node behind it.
type Env struct {
	Config *rest.Config
	// Client talks to the API server directly, with every permission and no cache.
	Client client.Client
	Scheme *runtime.Scheme
	server *envtest.Environment

	names   atomic.Int64 // of Name
	minor   int          // of the API server's version
	granted bool         // AsController has applied rbac.yaml
	ends    []func()     // what runs until the server stops
	beside  atomic.Pointer[envtest.Environment]
}

// Main runs the tests of one package with an API server in *into. assets is the value
// of AssetsVar, which TestMain reads; register adds further kinds to the scheme.
func Main(m *testing.M, assets string, into **Env, register ...func(*runtime.Scheme) error) int {
	return MainWith(m, assets, into, nil, register...)
}

// MainWith is Main with further options of the API server, by the names of its flags.
func MainWith(m *testing.M, assets string, into **Env, options map[string]string, register ...func(*runtime.Scheme) error) int {
	ctrl.SetLogger(textlogger.NewLogger(textlogger.NewConfig()))
	signals := endings()
	env, err := start(assets, options, register)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start test API server:", err)
		return 1
	}
	*into = env
	go env.stopOn(signals)
	code := m.Run()
	for _, end := range slices.Backward(env.ends) {
		end()
	}
	if err := env.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop test API server:", err)
		return 1
	}
	return code
}

// endings are the signals that end a test run. The API server has a process group of its
// own, which Ctrl-C does not reach.
func endings() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(s) { // as SIGINT is in the background of a script
			signal.Notify(signals, s)
		}
	}
	return signals
}

// stopOn ends the API server, and then the test run, at the first signal.
func (e *Env) stopOn(signals <-chan os.Signal) {
	got := (<-signals).(syscall.Signal)
	if other := e.beside.Load(); other != nil {
		_ = other.Stop() // the run ends anyhow, and the next line tells of failures
	}
	if err := e.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop test API server:", err)
	}
	signal.Reset(got)
	_ = syscall.Kill(os.Getpid(), got) // a signal to oneself arrives
}

// Beside replaces *into by another API server until the test ends. It is for tests that change CRDs: an
// API server serves a changed kind from new caches, which are behind for moments, and other tests would
// see that.
func Beside(t testing.TB, into **Env) {
	t.Helper()
	former := *into
	env, err := start(former.server.BinaryAssetsDirectory, nil, nil)
	if err != nil {
		t.Fatalf("start API server of the test: %v", err)
	}
	former.beside.Store(env.server)
	t.Cleanup(func() {
		*into = former
		former.beside.Store(nil)
		for _, end := range slices.Backward(env.ends) {
			end()
		}
		if err := env.server.Stop(); err != nil {
			t.Errorf("stop API server of the test: %v", err)
		}
	})
	env.Scheme = former.Scheme
	if env.Client, err = client.New(env.Config, client.Options{Scheme: env.Scheme}); err != nil {
		t.Fatalf("make client of the test: %v", err)
	}
	*into = env
}

func start(assets string, options map[string]string, register []func(*runtime.Scheme) error) (*Env, error) {
	if err := programs.All(assets, "kube-apiserver", "etcd"); err != nil {
		return nil, err
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	env := &Env{Scheme: runtime.NewScheme()}
	for _, add := range append(register, clientgoscheme.AddToScheme, appsv1beta1.AddToScheme) {
		if err := add(env.Scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	env.server = &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        []string{filepath.Join(root, "deploy", "crds")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: time.Minute, // builds on a busy machine make it slow
	}
	for flag, value := range options {
		env.server.ControlPlane.GetAPIServer().Configure().Set(flag, value)
	}
	// etcd and the API server take more memory and a sixth less of the processors than with Go's default.
	err = os.Setenv("GOGC", "400")
	if err == nil {
		env.Config, err = env.server.Start()
	}
	if err := errors.Join(err, os.Unsetenv("GOGC")); err != nil {
		return nil, errors.Join(err, env.server.Stop())
	}
	env.Config.QPS = -1
	if err := env.afterStart(root); err != nil {
		return nil, errors.Join(err, env.server.Stop())
	}
	env.Client, err = client.New(env.Config, client.Options{Scheme: env.Scheme})
	return env, err
}

// Root returns the top directory of the repository.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "deploy", "crds")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find repository root: %w", os.ErrNotExist)
}

// Namespace makes a namespace for one test and returns its name.
func (e *Env) Namespace(t testing.TB) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", ",", "", "'", "").Replace(t.Name()))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name[:min(len(name), 40)] + "-"}}
	e.Create(t, ns)
	return ns.Name
}

// Create creates objects, with their status where they have one, and removes them when
// the test ends.
func (e *Env) Create(t testing.TB, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		e.ownByNode(t, o)
		want := o.DeepCopyObject().(client.Object)
		if err := e.Client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, want.GetName(), err)
		}
		e.RemoveAtEnd(t, o)
		switch w := want.(type) {
		case *corev1.Node:
			e.untaint(t, w, o)
			e.putStatus(t, want, o)
		case *corev1.Pod:
			e.putStatus(t, want, o)
		case *appsv1.ReplicaSet:
			if w.Status.Conditions != nil {
				e.putStatus(t, want, o)
			}
		case *appsv1beta1.PersistentPodState:
			if w.Status.PodStates != nil { // otherwise controllers under test may be first
				e.putStatus(t, want, o)
			}
		}
	}
}

// ownByNode makes the live Node own an IPReservation or NodeIPPool that has no owner, as the
// agent of the node does.
func (e *Env) ownByNode(t testing.TB, o client.Object) {
	t.Helper()
	var name string
	switch o := o.(type) {
	case *limpetv1alpha1.IPReservation:
		name = o.Status.Node
	case *limpetv1alpha1.NodeIPPool:
		name = o.Status.Node
	}
	if name == "" || o.GetOwnerReferences() != nil {
		return
	}
	var node corev1.Node
	switch err := e.Client.Get(t.Context(), client.ObjectKey{Name: name}, &node); {
	case apierrors.IsNotFound(err):
	case err != nil:
		t.Fatalf("get node %s: %v", name, err)
	default:
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}})
	}
}

// RemoveAtEnd removes an object when the test ends, if the object is there yet.
func (e *Env) RemoveAtEnd(t testing.TB, o client.Object) {
	t.Helper()
	t.Cleanup(func() { e.remove(t, o) })
}

func (e *Env) remove(t testing.TB, o client.Object) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	err := e.Client.Delete(ctx, o, client.GracePeriodSeconds(0))
	if client.IgnoreNotFound(err) != nil {
		t.Errorf("remove %T %s: %v", o, o.GetName(), err)
	}
}

// untaint takes away the not-ready taint that the API server gives every new node, and
// that a controller which is not here would remove.
func (e *Env) untaint(t testing.TB, want *corev1.Node, made client.Object) {
	t.Helper()
	node := made.(*corev1.Node)
	node.Spec.Taints = want.Spec.Taints
	if err := e.Client.Update(t.Context(), node); err != nil {
		t.Fatalf("untaint node %s: %v", node.Name, err)
	}
}

// putStatus writes the status of want to the object that was made from it.
func (e *Env) putStatus(t testing.TB, want, made client.Object) {
	t.Helper()
	want.SetResourceVersion(made.GetResourceVersion())
	want.SetName(made.GetName())
	want.SetUID(made.GetUID())
	if err := e.Client.Status().Update(t.Context(), want); err != nil {
		t.Fatalf("update status of %T %s: %v", want, want.GetName(), err)
	}
	if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(want), made); err != nil {
		t.Fatalf("get %T %s: %v", want, want.GetName(), err)
	}
}

// Eventually polls check until it returns nil, and fails the test after a minute with the
// last error.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	Within(t, time.Minute, check)
}

// Within is Eventually with a time of its own.
func Within(t testing.TB, timeout time.Duration, check func() error) {
	t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("not in time: %v", err)
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("test ended: %v", err)
		}
	}
}
