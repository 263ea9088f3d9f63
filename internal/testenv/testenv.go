// Package testenv starts a real etcd and kube-apiserver for tests, with this
// repository's CRDs installed, and builds the objects that tests put there.
package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
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
	// AuditLog is the file to which the API server writes its audit log; "" without MainAudited.
	AuditLog string
	server   *envtest.Environment

	names   atomic.Int64 // of Name
	minor   int          // of the API server's version
	granted bool         // AsController has applied rbac.yaml
	late    sync.Map     // how late watches are, by the resource
	ends    []func()     // what runs until the server stops
	policy  string       // of the audit log; "" for none
	beside  atomic.Pointer[envtest.Environment]
}

// Main runs the tests of one package with an API server in *into. assets is the value
// of AssetsVar, which TestMain reads; register adds further kinds to the scheme.
func Main(m *testing.M, assets string, into **Env, register ...func(*runtime.Scheme) error) int {
	return MainWith(m, assets, into, nil, register...)
}

// MainWith is Main with further options of the API server, by the names of its flags.
func MainWith(m *testing.M, assets string, into **Env, options map[string]string, register ...func(*runtime.Scheme) error) int {
	return mainOf(m, assets, into, options, "", register)
}

// MainAudited is Main with an audit policy, for the API servers of Beside too.
func MainAudited(m *testing.M, assets string, into **Env, policy string, register ...func(*runtime.Scheme) error) int {
	return mainOf(m, assets, into, nil, policy, register)
}

func mainOf(m *testing.M, assets string, into **Env, options map[string]string, policy string, register []func(*runtime.Scheme) error) int {
	ctrl.SetLogger(textlogger.NewLogger(textlogger.NewConfig()))
	signals := endings()
	env, err := start(assets, options, policy, register)
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
	env, err := start(former.server.BinaryAssetsDirectory, nil, former.policy, nil)
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

func start(assets string, options map[string]string, policy string, register []func(*runtime.Scheme) error) (*Env, error) {
	if err := programs.All(assets, "kube-apiserver", "etcd"); err != nil {
		return nil, err
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	env := &Env{Scheme: runtime.NewScheme(), policy: policy}
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
	if err := env.configure(options); err != nil {
		return nil, err
	}
	if err := env.audit(); err != nil {
		return nil, err
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

// audit has the API server write an audit log, if there is a policy for it.
func (e *Env) audit() error {
	if e.policy == "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "audit")
	if err != nil {
		return fmt.Errorf("make directory of the audit log: %w", err)
	}
	e.ends = append(e.ends, func() { _ = os.RemoveAll(dir) }) // temporary files
	policy := filepath.Join(dir, "policy.yaml")
	e.AuditLog = filepath.Join(dir, "audit.log")
	e.server.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", e.AuditLog).Set("audit-log-maxsize", "1000")
	if err := os.WriteFile(policy, []byte(e.policy), 0o600); err != nil {
		return fmt.Errorf("write audit policy: %w", err)
	}
	return nil
}

// configure gives the API server its options, and it and etcd ports that nothing takes before they listen.
func (e *Env) configure(options map[string]string) error {
	store, releaseStore, err := reserve()
	if err != nil {
		return err
	}
	address, releaseAddress, err := reserve()
	if err != nil {
		return err
	}
	e.ends = append(e.ends, releaseStore, releaseAddress)
	e.server.ControlPlane.Etcd = &envtest.Etcd{URL: &url.URL{Scheme: "http", Host: store}}
	e.server.ControlPlane.Etcd.Configure().Set("listen-peer-urls", "http://127.0.0.1:0")
	api := e.server.ControlPlane.GetAPIServer()
	api.Address, api.Port, err = net.SplitHostPort(address)
	// A controller that is not here would remove the taint that the plugin gives every new node.
	api.Configure().Append("disable-admission-plugins", "TaintNodesByCondition")
	for flag, value := range options {
		api.Configure().Set(flag, value)
	}
	return err //nolint:wrapcheck // of an address of our own
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

// Namespace makes a namespace for one test and returns its name; pairs are labels. The API server may learn of a label
// that is added later when requests have passed its webhooks by.
func (e *Env) Namespace(t testing.TB, pairs ...string) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", ",", "", "'", "").Replace(t.Name()))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name[:min(len(name), 40)] + "-", Labels: map[string]string{}}}
	for pair := range slices.Chunk(pairs, 2) {
		ns.Labels[pair[0]] = pair[1]
	}
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
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := client.IgnoreNotFound(e.Client.Delete(ctx, o, client.GracePeriodSeconds(0)))
		if apierrors.IsTooManyRequests(err) { // by a guard that does not know yet that the budget is gone
			return false, nil
		}
		return true, err
	})
	if err != nil {
		t.Errorf("remove %T %s: %v", o, o.GetName(), err)
	}
}

// putStatus writes the status of want to the object that was made from it, also while controllers write to the object.
func (e *Env) putStatus(t testing.TB, want, made client.Object) {
	t.Helper()
	status := func(o client.Object) reflect.Value { return reflect.ValueOf(o).Elem().FieldByName("Status") }
	e.ChangeStatus(t, made, func() { status(made).Set(status(want)) })
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
