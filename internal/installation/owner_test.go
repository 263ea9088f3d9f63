package installation_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/installation"
	"github.com/limpet-io/limpet/internal/testenv"
)

const name = "limpet-controller"

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env))
}

// ownersAre waits until a configuration has exactly these owners.
func ownersAre(t *testing.T, o client.Object, want ...metav1.OwnerReference) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if diff := cmp.Diff(want, o.GetOwnerReferences()); diff != "" {
			return fmt.Errorf("owners of %T (-want +got):\n%s", o, diff)
		}
		return nil
	})
}

// The webhooks of a deleted namespace hold up no pod: the namespace owns them, and the
// garbage collector removes what has no owner left.
func TestTheNamespaceOwnsTheWebhooks(t *testing.T) {
	mgr := env.NewManager(t, cache.Options{}) // makes the namespace and the rights
	var namespace corev1.Namespace
	env.Read(t, client.ObjectKey{Name: "limpet-system"}, &namespace)
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: namespace.Name, UID: namespace.UID}
	former := owner
	former.UID = "a-former-namespace"
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "of-a-user", UID: "u"}

	w := testenv.ReadWebhooks(t)
	w.Mutating.OwnerReferences = []metav1.OwnerReference{former, other}
	env.Create(t, w.Mutating, w.Validating)
	o := &installation.Owner{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: namespace.Name, Configuration: name}
	if err := o.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	env.Start(t, mgr)
	ownersAre(t, w.Mutating, other, owner)
	ownersAre(t, w.Validating, owner)

	env.Change(t, w.Validating, func() { w.Validating.OwnerReferences = nil }) // as kubectl replace does
	ownersAre(t, w.Validating, owner)
	if want := testenv.ReadWebhooks(t).Validating.Webhooks; len(w.Validating.Webhooks) != len(want) {
		t.Errorf("%d webhooks are left, want %d", len(w.Validating.Webhooks), len(want))
	}
}
