package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// ControllerUser is the service account of deploy/controller.
const ControllerUser = "system:serviceaccount:" + controllerNamespace + ":limpet-controller"

const controllerNamespace = "limpet-system"

// AsController returns the configuration of a client with the rights of
// deploy/controller/rbac.yaml, and no others. The policies of deploy/policies are in force.
func (e *Env) AsController(t testing.TB) *rest.Config {
	t.Helper()
	as := rest.CopyConfig(e.Config)
	as.Impersonate.UserName = ControllerUser
	as.Wrap(func(next http.RoundTripper) http.RoundTripper { return lateWatches{next, e} })
	if !e.granted {
		e.apply(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: controllerNamespace}})
		for _, o := range e.Manifest(t, "deploy/controller/rbac.yaml") {
			e.apply(t, o)
		}
		for _, o := range e.Render(t, "deploy/policies") {
			e.apply(t, o)
		}
		e.awaitRights(t, as)
		e.awaitPolicies(t, as)
		e.granted = true
	}
	return as
}

// apply creates an object for all tests of the package.
func (e *Env) apply(t testing.TB, o client.Object) {
	t.Helper()
	if err := e.Client.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

// awaitRights waits until the API server knows the last of the roles in rbac.yaml.
func (e *Env) awaitRights(t testing.TB, as *rest.Config) {
	t.Helper()
	c, err := client.New(as, client.Options{Scheme: e.Scheme, Mapper: e.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, func() error {
		lease := client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: "none"}
		if err := c.Get(t.Context(), lease, &coordinationv1.Lease{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get lease: %w, want the right to", err)
		}
		return c.List(t.Context(), &corev1.NodeList{}, client.Limit(1))
	})
}

// AsControllerWithNetworks is AsController with the rights of deploy/node-network until the test ends.
func (e *Env) AsControllerWithNetworks(t testing.TB) *rest.Config {
	t.Helper()
	as := e.AsController(t)
	for _, o := range e.Manifest(t, "deploy/node-network/rbac.yaml") {
		e.Create(t, o)
	}
	c := e.As(t, as)
	Eventually(t, func() error {
		return client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKey{Name: limpetv1alpha1.NodeNetworkName}, &limpetv1alpha1.NodeNetwork{}))
	})
	return as
}

// awaitPolicies waits until the policies of pods hold: an API server learns them some moments later.
func (e *Env) awaitPolicies(t testing.TB, as *rest.Config) {
	t.Helper()
	c, err := client.New(as, client.Options{Scheme: e.Scheme, Mapper: e.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	pod := APod("probe").In(controllerNamespace).Pod
	e.Create(t, pod)
	Eventually(t, func() error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"foreign":"yes"}}}`))
		if err := c.Patch(t.Context(), pod.DeepCopy(), patch, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("patch pod %s: %w, want the policies to refuse it", pod.Name, err)
		}
		return nil
	})
	e.Remove(t, pod)
}

// Manifest decodes the objects of a file of the repository, as users apply it.
func (e *Env) Manifest(t testing.TB, path string) []*unstructured.Unstructured {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	return decode(t, path, f)
}

func decode(t testing.TB, path string, from io.Reader) []*unstructured.Unstructured {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(from, 4096)
	var objects []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(o); {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			t.Fatalf("decode %s: %v", path, err)
		}
		objects = append(objects, o)
	}
}

// NewManager makes a manager with the rights of the controller. Each test may make several.
func (e *Env) NewManager(t testing.TB, objects cache.Options, change ...func(*ctrl.Options)) ctrl.Manager {
	t.Helper()
	options := ctrl.Options{
		Scheme: e.Scheme, Cache: objects,
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // the next test starts the same reconcilers
	}
	for _, edit := range change {
		edit(&options)
	}
	mgr, err := ctrl.NewManager(e.AsController(t), options)
	if err != nil {
		t.Fatalf("make manager: %v", err)
	}
	return mgr
}

// Start runs a manager until the test ends, or stop is called, and waits for its caches.
func (e *Env) Start(t testing.TB, mgr ctrl.Manager) (stop func()) {
	t.Helper()
	end := run(context.WithoutCancel(t.Context()), mgr)
	stop = sync.OnceFunc(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	if !mgr.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the caches were not filled")
	}
	<-mgr.Elected()
	return stop
}

// RunCache runs a cache, with the rights of the controller, until the test ends.
func (e *Env) RunCache(t testing.TB, options cache.Options, index func(client.FieldIndexer) error) client.Reader {
	t.Helper()
	options.Scheme = e.Scheme
	c, err := cache.New(e.AsController(t), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := index(c); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run cache: %v", err)
		}
	})
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache was not filled")
	}
	return c
}
