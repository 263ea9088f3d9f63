// Package tokens_test uses real tokens of Limpet's service accounts as a thief would, against
// a real API server with the roles and policies of deploy/. Each account has two lists:
// requests that must be refused, and requests that the product makes.
package tokens_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, limpetv1alpha1.AddToScheme, policyv1beta1.AddToScheme, apiextensionsv1.AddToScheme))
}

// deployed tells that the roles and policies of deploy/ are there.
var deployed bool

// deploy applies the roles and policies for all tests of the package.
func deploy(t *testing.T) {
	t.Helper()
	if deployed {
		return
	}
	env.AsController(t)
	for _, path := range []string{"deploy/daemonset/rbac.yaml", "deploy/node-network/rbac.yaml", "deploy/node-network/policy.yaml"} {
		for _, o := range env.Manifest(t, path) {
			if err := env.Client.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	deployed = true
}

// request is a request to the API server.
type request func(ctx context.Context, c client.Client) error

// Why a request is refused.
const (
	byRole = "cannot" // no role grants it
	denied = "denied request"
)

// refused makes a request, first as a dry run, and wants it refused both times with a word of
// the reason. A policy that was just applied needs a moment.
func refused(t *testing.T, c client.Client, by string, do request) {
	t.Helper()
	check := func(c client.Client) error {
		if err := do(t.Context(), c); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), by) {
			return fmt.Errorf("the answer is %w, want it forbidden with %q", err, by)
		}
		return nil
	}
	testenv.Eventually(t, func() error { return check(client.NewDryRunClient(c)) })
	if err := check(c); err != nil {
		t.Error(err)
	}
}

// allowed makes a request of the product, first as a dry run. The API server needs a moment
// to know a token, its account and its roles.
func allowed(t *testing.T, c client.Client, do request) {
	t.Helper()
	testenv.Eventually(t, func() error { return do(t.Context(), client.NewDryRunClient(c)) })
	if err := do(t.Context(), c); err != nil {
		t.Error(err)
	}
}

func create(o client.Object) request {
	return func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, o.DeepCopyObject().(client.Object))
	}
}

func remove(o client.Object) request {
	return func(ctx context.Context, c client.Client) error {
		return c.Delete(ctx, o.DeepCopyObject().(client.Object))
	}
}

// update reads an object with every right, edits it, and sends it with the token.
func update[T client.Object](o T, edit func(T)) request {
	return func(ctx context.Context, c client.Client) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		next := o.DeepCopyObject().(T)
		edit(next)
		return c.Update(ctx, next)
	}
}

func patch(o client.Object, text string) request {
	return func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(text)))
	}
}

func patchStatus(o client.Object, text string) request {
	return func(ctx context.Context, c client.Client) error {
		return c.Status().Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(text)))
	}
}

// applied sends an object as a server-side apply.
func applied(o client.Object, text string) request {
	return func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.ApplyPatchType, []byte(text)),
			client.ForceOwnership, client.FieldOwner("thief"))
	}
}

func removeAll(o client.Object, options ...client.DeleteAllOfOption) request {
	return func(ctx context.Context, c client.Client) error {
		return c.DeleteAllOf(ctx, o.DeepCopyObject().(client.Object), options...)
	}
}

func list(l client.ObjectList, options ...client.ListOption) request {
	return func(ctx context.Context, c client.Client) error {
		return c.List(ctx, l.DeepCopyObject().(client.ObjectList), options...)
	}
}

func get(o client.Object) request {
	return func(ctx context.Context, c client.Client) error {
		return c.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object))
	}
}
